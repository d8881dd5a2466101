package compress

import (
	"github.com/gradlab/gradlab/internal/f32"
)

// topk keeps the k elements of largest magnitude, k = max(1, ⌈keep·d⌉).
//
//	C(g)ᵢ = gᵢ if |gᵢ| is among the k largest, else 0
//
// Aji and Heafield 2017 (arXiv 1704.05021); contraction: Stich et al. 2018,
// eq. 6: ‖C(g)−g‖² ≤ (1−k/d)‖g‖², met with equality by a flat vector.
// Departures: exact k with ties to the lower index, where the papers cut at a
// sampled threshold; indices are Rice coded.
// Tuning: keep=0.01 with feedback around it; index=bitmap from keep ≈ 0.15 on.
// Cost: k·(4 + 1.0) bytes at 1 %, three passes over the vector and no sort.
// Payload: k values, then the index section (index.go).

var topKDefault = Families.Add("topk", "the k largest entries",
	TopK{Keep: 0.01, Index: "rice", Values: "f32"})

// TopK keeps the largest entries.
type TopK struct {
	Keep   float64 `spec:",show" doc:"fraction kept, in (0, 1]"`
	Index  string  `doc:"index coding: rice, varint, bitmap or raw32"`
	Values string  `doc:"value format: f32, bf16 or fp16"`
}

// Validate checks the options.
func (f TopK) Validate() error {
	if err := validKeep(f.Keep); err != nil {
		return err
	}
	if err := oneOf("index", f.Index, indexCodings...); err != nil {
		return err
	}
	return oneOf("values", f.Values, "f32", "bf16", "fp16")
}

// Claims: Delta = k/d, times 1 − unit² for the rounding of values.
func (f TopK) Claims(b Block) Claims {
	d, v := b.Len(), formatOf(f.Values)
	k := kept(f.Keep, d)
	size, exact := indexSize(word(f.Index, "rice"), k, d)
	c := Claims{Delta: 1, Size: k*v.size + size, Exact: exact, Homogeneous: v != &formatFP16}
	if d > 0 {
		c.Delta = float64(k) / float64(d) * (1 - v.unit*v.unit)
	}
	if k == d && v == &formatF32 {
		c.Lossless, c.Unbiased = true, true
	}
	return c
}

// Witness is a flat vector, at a value that rounds badly.
func (f TopK) Witness(b Block) []float32 {
	return constant(b.Len(), 1+float32(formatOf(f.Values).unit))
}

// New makes a codec without state; it holds k positions and values.
func (f TopK) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return &topK{
		d: b.Len(), k: kept(f.Keep, b.Len()), index: word(f.Index, "rice"), values: formatOf(f.Values),
	}, nil
}

type topK struct {
	d, k   int
	index  string
	values *format
	sel    selector
	idx    []uint32
}

func (c *topK) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	checkLen(len(g), c.d)
	if c.k == 0 {
		return dst, nil
	}
	if c.k == c.d { // no selection, but still no NaN
		m := f32.MaxAbs(g)
		if !f32.AllFinite(g) {
			return dst, ErrNotFinite
		}
		return c.values.append(dst, g, m), nil
	}
	if cap(c.idx) < c.k {
		c.idx = make([]uint32, 0, c.k)
	}
	var ok bool
	if c.idx, ok = c.sel.indices(c.idx[:0], g, c.k); !ok {
		return dst, ErrNotFinite
	}
	for _, i := range c.idx {
		dst = c.values.put(dst, g[i])
	}
	return appendIndices(dst, c.index, c.idx, c.d), nil
}

// AddTo walks the payload twice: once to check it, once to add.
func (c *topK) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	n := c.k * c.values.size
	if len(p) < n {
		return Corruptf("%d bytes, want %d of values", len(p), n)
	}
	values, index := p[:n], p[n:]
	if !c.values.finite(values) {
		return Corruptf("a value is not finite")
	}
	if c.k == c.d && len(index) == 0 {
		c.values.addTo(dst, scale, values)
		return nil
	}
	r, err := readIndices(index, c.index, c.k, c.d)
	if err != nil {
		return err
	}
	write := r
	for j := range c.k {
		if r.next() < 0 {
			return Corruptf("index %d of %d", j, c.k)
		}
	}
	if !r.done() {
		return Corruptf("bytes behind the last index")
	}
	for j := range c.k {
		dst[write.next()] += float32(scale * c.values.get(values, j))
	}
	return nil
}
