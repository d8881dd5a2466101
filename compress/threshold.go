package compress

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/codec"
)

var _ = Families.Add("threshold", "entries of at least a fixed magnitude", Threshold{Tau: 1e-3, Index: "rice", Values: "f32"})

// Threshold sends the elements that reach a fixed magnitude.
//
//	C(g)ᵢ = gᵢ if |gᵢ| ≥ tau, else 0
//
// Aji and Heafield 2017 (arXiv 1704.05021) cut at a threshold; Dutta et al. 2021
// (arXiv 2108.00951) show that an absolute error, here ‖C(g)−g‖² ≤ d·tau²,
// serves feedback as a contraction does.
//
// Tuning: tau so that 0.1 to 1 % of the elements travel; it has units of the
// gradient, so it is a setting of model and batch.
//
// Cost: one pass; 4 bytes and a Rice coded position an element sent.
//
// Payload: see hits.go.
type Threshold struct {
	Tau    float64 `spec:",show" doc:"least magnitude sent"`
	Index  string  `doc:"index coding: rice, varint, bitmap or raw32"`
	Values string  `doc:"value format: f32, bf16 or fp16"`
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

func validTau(tau float64) error {
	if v := float32(tau); !(v > 0 && v <= math.MaxFloat32) {
		return fmt.Errorf(`option "tau": want a positive magnitude, not %v`, tau)
	}
	return nil
}

// Claims: an absolute error, for values that are not rounded.
func (f Threshold) Claims(b Block) Claims {
	d, v := b.Len(), formatOf(f.Values)
	c := Claims{Size: hitsMaxLen(word(f.Index, "rice"), d, d, 8*v.size)}
	if v == &formatF32 {
		c.Absolute = float64(max(1, d)) * f.Tau * f.Tau * (1 + 1e-6)
	}
	return c
}

// New makes a codec without state.
func (f Threshold) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return &threshold{
		hits: hits{d: b.Len(), most: b.Len(), index: word(f.Index, "rice"), values: formatOf(f.Values)},
		tau:  float32(f.Tau),
	}, nil
}

type threshold struct {
	hits
	tau float32
	idx []uint32
	val []float32 // the elements there
}

func (c *threshold) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	checkLen(len(g), c.d)
	var finite bool
	if c.idx, c.val, finite = codec.AppendReaching(c.idx[:0], c.val[:0], g, math.Float32bits(c.tau)); !finite {
		return dst, ErrNotFinite
	}
	return c.appendValues(dst, c.val, c.idx), nil
}
