package parts

import (
	"errors"
	"sync"

	"github.com/gradlab/gradlab/compress"
)

// shuffle encodes a block in another order of its values, so that codecs that work on
// chunks see the large and the small ones mixed.
//
//	C(g)π(i) = inner(gπ)ᵢ,  π a permutation that the length alone gives
//
// Tuning: around codecs with chunks or buckets, as in shuffle(topk(chunk=64)).
// Cost: that of the codec inside, and a pass over memory in no order.

var _ = compress.Families.Add("shuffle", "the values in another order, around a codec", Shuffle{In: compress.TopK{Keep: 0.01, Index: "rice", Values: "f32", Chunk: 64}})

// Shuffle is a wrapper: a codec that holds a codec.
type Shuffle struct {
	In compress.Family `doc:"the codec inside"`
}

// Inner lists the codec inside, so that what is asked of codecs is asked of it.
func (f Shuffle) Inner() []compress.Family { return []compress.Family{f.In} }

// Validate checks the options.
func (f Shuffle) Validate() error {
	if f.In == nil {
		return errors.New("want a codec inside")
	}
	return nil
}

// inside is the block of the codec inside: a vector.
func (f Shuffle) inside(b compress.Block) compress.Block {
	b.Rows, b.Cols = 1, b.Len()
	return b
}

// Claims are those of the codec inside, memory and warm-up among them, but for what
// needs the values where they were.
func (f Shuffle) Claims(b compress.Block) compress.Claims {
	c, _ := compress.ClaimsOf(f.In, f.inside(b))
	if b.Len() > 1 {
		c.Raw, c.Cast = false, false
	}
	c.Shaped, c.Linear, c.HalfSums = false, compress.NotLinear, false
	c.Rounds, c.Asked, c.AskedBound = 0, 0, false // its payloads are gathered
	return c
}

// Telescopes: as the codec inside.
func (f Shuffle) Telescopes() bool {
	in, ok := f.In.(compress.Telescoper)
	return !ok || in.Telescopes()
}

// Witness is the codec's, where its values will be.
func (f Shuffle) Witness(b compress.Block) []float32 {
	w, ok := f.In.(compress.Witnesser)
	if !ok {
		return nil
	}
	x := w.Witness(f.inside(b))
	if x == nil {
		return nil
	}
	out := make([]float32, len(x))
	for i, at := range order(b.Len()) {
		out[at] = x[i]
	}
	return out
}

// New makes a codec with the state of the one inside, and with its residual, whose norm
// the order does not change.
func (f Shuffle) New(b compress.Block) (compress.Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	in, err := f.In.New(f.inside(b))
	if err != nil {
		return nil, err
	}
	c := &shuffle{in: in, order: order(b.Len()), mixed: make([]float32, b.Len())}
	c.spaces.New = func() any { x := make([]float32, b.Len()); return &x }
	state, keeps := in.(compress.Stateful)
	owed, owes := in.(compress.Residualer)
	switch {
	case keeps && owes:
		return struct {
			*shuffle
			compress.Stateful
			compress.Residualer
		}{c, state, owed}, nil
	case keeps:
		return struct {
			*shuffle
			compress.Stateful
		}{c, state}, nil
	}
	return c, nil
}

// order is the permutation of d values: steps of about 0.618·d, the golden section,
// which has no divisor in common with d, so that every value comes once.
func order(d int) []int {
	step := max(1, int(0.618*float64(d)))
	for gcd(step, d) != 1 {
		step++
	}
	out := make([]int, d)
	for i := range out {
		out[i] = int(int64(i) * int64(step) % int64(d))
	}
	return out
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

type shuffle struct {
	in     compress.Codec
	order  []int
	mixed  []float32
	spaces sync.Pool // *[]float32: AddTo may be called by several at a time
}

func (c *shuffle) Append(dst []byte, g []float32, s compress.Step) ([]byte, error) {
	for i, at := range c.order {
		c.mixed[i] = g[at]
	}
	return c.in.Append(dst, c.mixed, s)
}

func (c *shuffle) AddTo(dst []float32, scale float32, p []byte, from compress.From) error {
	space := c.spaces.Get().(*[]float32)
	defer c.spaces.Put(space)
	clear(*space)
	if err := c.in.AddTo(*space, 1, p, from); err != nil {
		return err
	}
	for i, at := range c.order {
		dst[at] += float32(scale * (*space)[i])
	}
	return nil
}
