package compress

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/f32"
)

// threshold sends the elements that reach a fixed magnitude; strom sends that
// magnitude in their place and keeps the rest.
//
//	threshold: C(g)ᵢ = gᵢ if |gᵢ| ≥ tau, else 0
//	strom:     r += g;  C(r)ᵢ = sign(rᵢ)·tau if |rᵢ| ≥ tau, else 0;  r −= C(r)
//
// Aji and Heafield 2017 (arXiv 1704.05021) cut at a threshold; Dutta et al. 2021
// (arXiv 2108.00951) show that an absolute error, here ‖C(g)−g‖² ≤ d·tau², serves
// feedback as a contraction does. Strom 2015 (Interspeech), algorithm 1.
// Departures: gaps between positions are Rice coded with the best parameter for
// the number of hits, where Strom packs 31 bits of index and one of sign.
// Tuning: tau so that 0.1 to 1 % of the elements travel; it has units of the
// gradient, so it is a setting of model and batch. Strom's residual grows where
// gradients stay above tau: raise tau if ResidualNorm does.
// Cost: one pass. Payload: the number of hits as a varint, then for threshold
// the values, for strom the signs, then the index section (index.go).

var (
	_ = Families.Add("threshold", "entries of at least a fixed magnitude", Threshold{Tau: 1e-3, Index: "rice", Values: "f32"})
	_ = Families.Add("strom", "±tau for entries that have grown to it", Strom{Tau: 1e-3, Index: "rice"})
)

// Threshold keeps large entries.
type Threshold struct {
	Tau    float64 `spec:",show" doc:"least magnitude sent"`
	Index  string  `doc:"index coding: rice, varint, bitmap or raw32"`
	Values string  `doc:"value format: f32, bf16 or fp16"`
}

// Strom sends signs of entries whose residual has grown to tau. It is its own
// feedback.
type Strom struct {
	Tau   float64 `spec:",show" doc:"the magnitude sent"`
	Index string  `doc:"index coding: rice, varint, bitmap or raw32"`
}

// Validate checks the options.
func (f Threshold) Validate() error {
	if err := validTau(f.Tau); err != nil {
		return err
	}
	if err := oneOf("index", f.Index, indexCodings...); err != nil {
		return err
	}
	return oneOf("values", f.Values, "f32", "bf16", "fp16")
}

// Validate checks the options.
func (f Strom) Validate() error {
	if err := validTau(f.Tau); err != nil {
		return err
	}
	return oneOf("index", f.Index, indexCodings...)
}

func validTau(tau float64) error {
	if v := float32(tau); !(v > 0 && v <= math.MaxFloat32) {
		return fmt.Errorf(`option "tau": want a positive magnitude, not %v`, tau)
	}
	return nil
}

// Claims: an absolute error, for values that are not rounded.
func (f Threshold) Claims(b Block) Claims {
	d, v := b.Len(), formatOf(f.Values)
	c := Claims{Size: hitsMaxLen(word(f.Index, "rice"), d, 8*v.size)}
	if v == &formatF32 {
		c.Absolute = float64(max(1, d)) * f.Tau * f.Tau * (1 + 1e-6)
	}
	return c
}

// Claims: state, and a bound on the size.
func (f Strom) Claims(b Block) Claims {
	return Claims{Size: hitsMaxLen(word(f.Index, "rice"), b.Len(), 1), Stateful: true}
}

// hitsMaxLen bounds a payload of any number of hits out of d, each with so many
// bits beside its index.
func hitsMaxLen(coding string, d, bitsEach int) int {
	most := 0
	switch coding {
	case "bitmap":
		most = bits.SignLen(d)
	case "raw32":
		most = 4 * max(0, d-1)
	case "varint":
		most = bits.UvarintMaxLen(d, d)
	default: // a Rice code takes 1+b bits and one for each 2ᵇ of gap: b grows as hits get fewer
		for k := 1; k < d; k *= 2 {
			longest, shortest := bits.RiceParam(k, d), bits.RiceParam(min(2*k, d), d)
			most = max(most, (min(2*k, d)*(1+longest)+d>>shortest+7)/8)
		}
	}
	return bits.UvarintMaxLen(1, d) + (d*bitsEach+7)/8 + most
}

// New makes a codec without state.
func (f Threshold) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return &threshold{d: b.Len(), tau: float32(f.Tau), index: word(f.Index, "rice"), values: formatOf(f.Values)}, nil
}

// New makes a codec whose state is the residual.
func (f Strom) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	in := &threshold{d: b.Len(), tau: float32(f.Tau), index: word(f.Index, "rice")}
	return &feedback{memory: memory{d: b.Len(), decay: 1}, in: in, rank: b.Rank}, nil
}

type threshold struct {
	d      int
	tau    float32
	index  string
	values *format // nil: signs in their place
	idx    []uint32
}

func (c *threshold) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	checkLen(len(g), c.d)
	m := f32.MaxAbs(g)
	if !(m <= math.MaxFloat32) {
		return dst, ErrNotFinite
	}
	c.idx = c.idx[:0]
	tau := math.Float32bits(c.tau)
	for i, v := range g {
		if math.Float32bits(v)&magnitude >= tau {
			c.idx = append(c.idx, uint32(i))
		}
	}
	dst = bits.AppendUvarint(dst, uint32(len(c.idx)))
	if c.values != nil {
		for _, i := range c.idx {
			dst = c.values.put(dst, g[i])
		}
	} else {
		at, n := len(dst), bits.SignLen(len(c.idx))
		dst = slices.Grow(dst, n)[:at+n]
		clear(dst[at:])
		for j, i := range c.idx {
			dst[at+j>>3] |= byte(math.Float32bits(g[i])>>31) << uint(j&7)
		}
	}
	if len(c.idx) == 0 {
		return dst, nil
	}
	return appendIndices(dst, c.index, c.idx, c.d), nil
}

// AddTo walks the payload twice: once to check it, once to add.
func (c *threshold) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	hits, n := bits.Uvarint(p)
	if n == 0 || int64(hits) > int64(c.d) {
		return Corruptf("no number of hits up to %d", c.d)
	}
	k := int(hits)
	p = p[n:]
	size := bits.SignLen(k)
	if c.values != nil {
		size = k * c.values.size
	}
	if len(p) < size {
		return Corruptf("%d bytes, want %d for %d hits", len(p), size, k)
	}
	values, index := p[:size], p[size:]
	if c.values != nil && !c.values.finite(values) {
		return Corruptf("a value is not finite")
	}
	if c.values == nil && !bits.SignsOK(values, k) {
		return Corruptf("padding is not zero")
	}
	if k == 0 || k == c.d {
		if len(index) > 0 {
			return Corruptf("%d bytes of indices, want none", len(index))
		}
		for i := range k {
			dst[i] += c.value(values, i, scale)
		}
		return nil
	}
	r, err := readIndices(index, c.index, k, c.d)
	if err != nil {
		return err
	}
	write := r
	for j := range k {
		if r.next() < 0 {
			return Corruptf("index %d of %d", j, k)
		}
	}
	if !r.done() {
		return Corruptf("bytes behind the last index")
	}
	for j := range k {
		dst[write.next()] += c.value(values, j, scale)
	}
	return nil
}

// value is scale times what hit j stands for.
func (c *threshold) value(values []byte, j int, scale float32) float32 {
	if c.values != nil {
		return float32(scale * c.values.get(values, j))
	}
	sign := uint32(values[j>>3]>>uint(j&7)&1) << 31
	return float32(scale * math.Float32frombits(math.Float32bits(c.tau)|sign))
}
