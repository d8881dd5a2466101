package compress

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/internal/f32"
)

var _ = Families.Add("scatter", "slices are summed at owners and encoded again",
	Scatter{In: QSGD{Bits: 4, Bucket: 512, Norm: "max"}})

// Scatter sums a codec's payloads at owners, which encode the sums again.
//
//	rank r sends C(g[slice j]) to rank j                      (an all-to-all)
//	rank j decodes them, s = g[own slice] + Σ others, sends C(s)   (a gather)
//
// The road of 1-bit Adam (Tang et al. 2021, arXiv 2102.02888), CGX and ZeRO++
// for codecs that do not sum. 2(n−1)/n of a payload leaves a rank, where a
// gather of whole payloads takes n−1, at the price of a second encoding. The
// owner is credited with what that encoding leaves out, C(s) − s, along with its
// own slice, which it does not encode to itself. So credits add up to the
// output, and feedback outside is the two errors, worker's and server's, of
// 1-bit Adam.
//
// Departures: none of a method; slices are codec blocks of their own. In mode
// gather and behind a server it is the codec inside.
//
// Tuning: from four ranks on; feedback(scatter(sign)). Slices must be long
// enough for the codec's headers.
//
// Cost: that of the codec inside, plus decoding n slices and encoding one.
type Scatter struct {
	In Family `doc:"the codec inside"`
}

// Inner lists the codec inside.
func (f Scatter) Inner() []Family { return []Family{f.In} }

// Validate checks the options.
func (f Scatter) Validate() error {
	if f.In == nil {
		return errors.New("want a codec inside")
	}
	return noReceiver("scatter", f.In)
}

// Claims are those of the codec inside, the contraction that of its worst slice,
// and what the exchange costs.
func (f Scatter) Claims(b Block) Claims {
	c, _ := ClaimsOf(f.In, b)
	if b.World < 2 {
		return c
	}
	c.Rounds, c.Asked, c.AskedBound, c.HalfSums = 2, 0, false, false
	for j := range b.World {
		s, _ := ClaimsOf(f.In, sliceOf(b, c.Shaped, j, ""))
		c.Delta, c.Absolute = min(c.Delta, s.Delta), max(c.Absolute, s.Absolute)
		if c.AskedBound = c.AskedBound || !s.Exact; s.Size < math.MaxInt-c.Asked {
			c.Asked += s.Size
		} else {
			c.Asked = math.MaxInt
		}
	}
	return c
}

// Witness is the inner codec's.
func (f Scatter) Witness(b Block) []float32 {
	if w, ok := f.In.(Witnesser); ok {
		return w.Witness(b)
	}
	return nil
}

// sliceOf is the part of b that rank j owns: rows of it if the codec inside needs
// its shape. phase tells its two encodings apart.
func sliceOf(b Block, shaped bool, j int, phase string) Block {
	row := 1
	if shaped {
		row = b.Cols
	}
	lo, hi := sliceBounds(b.Len(), row, b.World, j)
	b.Name = fmt.Sprintf("%s[%d:%d]%s", b.Name, lo, hi, phase)
	b.Rows, b.Cols = 1, hi-lo
	if shaped {
		b.Rows, b.Cols = (hi-lo)/row, row
	}
	return b
}

// sliceBounds are those of slice j of n, on multiples of row.
func sliceBounds(d, row, n, j int) (lo, hi int) {
	at := func(j int) int { return int(int64(d/row)*int64(j)/int64(n)) * row }
	return at(j), at(j + 1)
}

// New makes the codec inside.
func (f Scatter) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return f.In.New(b)
}

// NewExchange makes an exchange of an all-to-all and a gather, none for a rank
// alone.
func (f Scatter) NewExchange(b Block) (Exchange, error) {
	if err := f.Validate(); err != nil || b.World < 2 {
		return nil, err
	}
	in, _ := ClaimsOf(f.In, b)
	x := &scatterExchange{d: b.Len(), row: 1, rank: b.Rank, world: b.World, slices: make([][]byte, b.World)}
	if in.Shaped {
		x.row = b.Cols
	}
	for j := range b.World {
		up, err := f.In.New(sliceOf(b, in.Shaped, j, ""))
		if err != nil {
			return nil, err
		}
		down, err := f.In.New(sliceOf(b, in.Shaped, j, "/sum"))
		if err != nil {
			return nil, err
		}
		x.up, x.down = append(x.up, up), append(x.down, down)
	}
	for _, c := range slices.Concat(x.up, x.down) {
		if _, ok := c.(Stateful); ok {
			return scatterStateful{x}, nil
		}
	}
	return x, nil
}

type scatterExchange struct {
	d, row, rank, world int
	up, down            []Codec // by slice

	step   Step
	summed bool
	slices [][]byte // payloads of this rank, by owner; its own is empty
	total  []byte   // payload of the sum of its own slice
	own    []float32
	sum    []float32
	out    []float32
}

func (x *scatterExchange) bounds(j int) (lo, hi int) { return sliceBounds(x.d, x.row, x.world, j) }

func (x *scatterExchange) Begin(g []float32, s Step) (Op, error) {
	checkLen(len(g), x.d)
	if !f32.AllFinite(g) {
		return Op{}, ErrNotFinite
	}
	x.step, x.summed, x.out = s, false, resize(x.out, x.d)
	for j, c := range x.up {
		lo, hi := x.bounds(j)
		if j == x.rank {
			x.own, x.sum = resize(x.own, hi-lo), resize(x.sum, hi-lo)
			copy(x.own, g[lo:hi])
			continue
		}
		var err error
		if x.slices[j], err = c.Append(x.slices[j][:0], g[lo:hi], s); err != nil {
			return Op{}, err
		}
	}
	return Op{Kind: OpScatter, Slices: x.slices}, nil
}

func (x *scatterExchange) Next(done Op) (Op, error) {
	if len(done.Parts) != x.world {
		return Op{}, Corruptf("%d parts, want %d", len(done.Parts), x.world)
	}
	if x.summed {
		clear(x.out)
		for j, part := range done.Parts {
			lo, hi := x.bounds(j)
			if err := x.down[j].AddTo(x.out[lo:hi], 1, part, From{Rank: j, Step: x.step.N}); err != nil {
				return Op{}, fmt.Errorf("sum of rank %d: %w", j, err)
			}
		}
		return Op{}, nil
	}
	copy(x.sum, x.own)
	for rank, part := range done.Parts {
		if rank == x.rank {
			continue
		}
		if err := x.up[x.rank].AddTo(x.sum, 1, part, From{Rank: rank, Step: x.step.N}); err != nil {
			return Op{}, fmt.Errorf("payload of rank %d: %w", rank, err)
		}
	}
	var err error
	if x.total, err = x.down[x.rank].Append(x.total[:0], x.sum, x.step); err != nil {
		return Op{}, fmt.Errorf("the sum over the ranks: %w", err)
	}
	x.summed = true
	return Op{Kind: OpGather, Bytes: x.total}, nil
}

func (x *scatterExchange) Output(dst []float32, scale float32) error {
	f32.Axpy(dst, scale, x.out)
	return nil
}

func (x *scatterExchange) Credited(dst []float32, scale float32) error {
	for j, c := range x.up {
		lo, hi := x.bounds(j)
		if j != x.rank {
			if err := c.AddTo(dst[lo:hi], scale, x.slices[j], From{Rank: x.rank, Step: x.step.N}); err != nil {
				return err
			}
			continue
		}
		for i := range x.own { // what it put in, and what its encoding changed
			dst[lo+i] += float32(scale * (x.own[i] + (x.out[lo+i] - x.sum[i])))
		}
	}
	return nil
}

// scatterStateful is scatter of a codec with state.
type scatterStateful struct{ *scatterExchange }

// AppendBinary appends the states of all codecs that encode.
func (x scatterStateful) AppendBinary(b []byte) ([]byte, error) {
	return appendStates(b, x.encoders())
}

// UnmarshalBinary restores them.
func (x scatterStateful) UnmarshalBinary(b []byte) error { return restoreStates(b, x.encoders()) }

// ResidualNorm is that of what all codecs keep that encode.
func (x scatterStateful) ResidualNorm() float64 { return together(x.encoders()...) }

// AddResidual adds scale times what all codecs keep that encode to dst.
func (x scatterStateful) AddResidual(dst []float32, scale float32) {
	checkLen(len(dst), x.d)
	for j := range x.up {
		lo, hi := x.bounds(j)
		addResidual(dst[lo:hi], scale, x.encoder(j))
	}
}

// Owe adds its slice to what each codec keeps that encodes.
func (x scatterStateful) Owe(e []float32) {
	checkLen(len(e), x.d)
	for j := range x.up {
		lo, hi := x.bounds(j)
		owe(x.encoder(j), e[lo:hi])
	}
}

// encoder is what encodes a slice: the sum of its own, and its part of others.
func (x scatterStateful) encoder(j int) Codec {
	if j == x.rank {
		return x.down[j]
	}
	return x.up[j]
}

func (x scatterStateful) encoders() []any {
	out := []any{x.down[x.rank]}
	for j, c := range x.up {
		if j != x.rank {
			out = append(out, c)
		}
	}
	return out
}
