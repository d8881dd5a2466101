package compress

import (
	"math"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/compress/bits"
)

var _ = Families.Add("sparseloco", "the largest entries of each chunk in two bits",
	SparseLoCo{Keep: 1.0 / 64, Chunk: 4096, Index: "rice"})

// SparseLoCo keeps the largest elements of every chunk, each in two bits.
//
//	S = the k largest of each chunk;  m = mean of |gᵢ|, i ∈ S
//	lo, hi = means of the |gᵢ| up to m and beyond
//	C(g)ᵢ = sign(gᵢ)·(hi if |gᵢ| > m, else lo) if i ∈ S, else 0
//
// The payload of SparseLoCo (Sarfi et al. 2025, arXiv 2508.15706): 64 of 4096,
// two bits a value. The method is feedback(sparseloco,decay=0.95) around
// differences of parameters after many local steps. A mean takes nothing off but
// the spread around it, so ‖C(g)−g‖² = ‖g‖² − Σ n·mean² over the two groups. As
// Σ n·mean² is at least the largest square over k, δ ≥ k of the chunk over (k in
// all · length of the chunk), one over the length where there is a single chunk.
//
// Departures: their four bins span six standard deviations and a table of four
// means travels; here two means and signs do. Indices are Rice coded, 7.5 bits
// each, where their code takes 12.
//
// Tuning: keep=1/64, chunk=4096; keep=1/32 costs 60 % more.
//
// Cost: 9.5 bits an element kept, 0.15 bits an element at keep=1/64.
//
// Payload: lo, hi, then packed codes (the sign is the upper bit), then the index
// section (index.go).
type SparseLoCo struct {
	Keep  float64 `spec:",show" doc:"fraction kept of each chunk, in (0, 1]"`
	Chunk int     `doc:"elements chosen among by themselves; 0: the whole block"`
	Index string  `doc:"index coding: rice, varint, bitmap or raw32"`
}

func (f SparseLoCo) topk() TopK { return TopK{Keep: f.Keep, Index: f.Index, Chunk: f.Chunk} }

// Validate checks the options.
func (f SparseLoCo) Validate() error {
	return CLTK{Keep: f.Keep, Index: f.Index, Chunk: f.Chunk}.Validate()
}

// Claims: the bound above.
func (f SparseLoCo) Claims(b Block) Claims {
	d := b.Len()
	if d == 0 {
		return Claims{Delta: 1, Exact: true, Homogeneous: true}
	}
	in := f.topk()
	k := in.total(d)
	size, exact := indexSize(word(f.Index, "rice"), k, d)
	lo, hi := in.poorest(d)
	share := float64(kept(f.Keep, hi-lo)) / float64(hi-lo)
	return Claims{
		Delta: share / float64(k) * (1 - 1e-6), Size: 8 + bits.PackedLen(k, 2) + size, Exact: exact, Homogeneous: true,
	}
}

// New makes a codec without state.
func (f SparseLoCo) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	in, err := f.topk().New(b)
	if err != nil {
		return nil, err
	}
	c := &sparseLoCo{in: in.(*topK)}
	c.spaces.New = func() any { return new([]byte) }
	return c, nil
}

type sparseLoCo struct {
	in     *topK // chooses; its payload is taken apart
	plain  []byte
	codes  []byte
	spaces sync.Pool // *[]byte: codes of a payload
}

func (c *sparseLoCo) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	var err error
	if c.plain, err = c.in.Append(c.plain[:0], g, s); err != nil || c.in.k == 0 {
		return dst, err
	}
	values, index := c.plain[:4*c.in.k], c.plain[4*c.in.k:]
	c.codes = resize(c.codes, c.in.k)
	sum := 0.0
	for j := range c.in.k {
		sum += math.Abs(float64(formatF32.get(values, j)))
	}
	mean := sum / float64(c.in.k)
	var sums, counts [2]float64
	for j := range c.in.k {
		v := formatF32.get(values, j)
		a, code := math.Abs(float64(v)), byte(0)
		if a > mean {
			code = 1
		}
		sums[code] += a
		counts[code]++
		if math.Signbit(float64(v)) {
			code |= 2
		}
		c.codes[j] = code
	}
	dst = slices.Grow(dst, 8+bits.PackedLen(c.in.k, 2)+len(index))
	for i, s := range sums {
		dst = formatF32.put(dst, float32(s/max(1, counts[i])))
	}
	return append(bits.AppendPacked(dst, c.codes, 2), index...), nil
}

func (c *sparseLoCo) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.in.d)
	k := c.in.k
	if k == 0 {
		if len(p) > 0 {
			return Corruptf("%d bytes for no elements", len(p))
		}
		return nil
	}
	size := bits.PackedLen(k, 2)
	if len(p) < 8+size {
		return Corruptf("%d bytes, want %d of values", len(p), 8+size)
	}
	means, packed, index := p[:8], p[8:8+size], p[8+size:]
	if err := checkNorms(means); err != nil {
		return err
	}
	if tail := 2 * k % 8; tail != 0 && packed[size-1]>>tail != 0 {
		return Corruptf("padding is not zero")
	}
	at, err := readIndices(index, c.in.index, k, c.in.d)
	if err != nil {
		return err
	}
	defer at.release()
	space := c.spaces.Get().(*[]byte)
	defer c.spaces.Put(space)
	*space = resize(*space, k)
	bits.Unpack(*space, packed, 2)
	lo, hi := float32(scale*formatF32.get(means, 0)), float32(scale*formatF32.get(means, 1))
	levels := [4]float32{lo, hi, -lo, -hi}
	for j, code := range *space {
		dst[at.idx[j]] += levels[code&3]
	}
	return nil
}
