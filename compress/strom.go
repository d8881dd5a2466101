package compress

import (
	"math"

	"github.com/gradlab/gradlab/internal/codec"
)

var _ = Families.Add("strom", "±tau for entries that have grown to it", Strom{Tau: 1e-3, Index: "rice"})

// Strom sends a fixed magnitude for the elements whose residual has grown to it,
// and keeps the rest. It is its own feedback.
//
//	r += g;  C(r)ᵢ = sign(rᵢ)·tau if |rᵢ| ≥ tau, else 0;  r −= C(r)
//
// Strom 2015 (Interspeech), algorithm 1.
//
// Departures: gaps between positions are Rice coded with the best parameter for
// the number of hits, where Strom packs 31 bits of index and one of sign.
//
// Tuning: tau so that 0.1 to 1 % of the elements travel; it has units of the
// gradient. The residual grows where gradients stay above tau: raise tau if
// ResidualNorm does.
//
// Cost: one pass; four bytes of state an element; a bit and a Rice coded
// position an element sent.
//
// Payload: see hits.go, with signs in place of values.
type Strom struct {
	Tau   float64 `spec:",show" doc:"the magnitude sent"`
	Index string  `doc:"index coding: rice, varint, bitmap or raw32"`
}

// Validate checks the options.
func (f Strom) Validate() error {
	if err := validTau(f.Tau); err != nil {
		return err
	}
	return oneOf("index", f.Index, indexCodings...)
}

// Claims: state, and a bound on the size.
func (f Strom) Claims(b Block) Claims {
	return Claims{Size: hitsMaxLen(word(f.Index, "rice"), b.Len(), b.Len(), 1), Stateful: true, Remembers: true}
}

// New makes a codec whose state is the residual.
func (f Strom) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return &strom{
		residual: residual{d: b.Len(), decay: 1},
		hits:     hits{d: b.Len(), most: b.Len(), index: word(f.Index, "rice"), unit: float32(f.Tau)},
	}, nil
}

type strom struct {
	residual
	hits  hits
	marks marks
}

func (c *strom) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	c.start(g)
	d, tau := c.residual.d, c.hits.unit
	c.marks.begin(d)
	for lo := 0; lo < d; lo += strip {
		hi := min(lo+strip, d)
		p, mask := c.mix(g, lo, hi), c.marks.of(lo, hi)
		if most := codec.AtLeast(mask, p, math.Float32bits(tau)); !(math.Float32frombits(most) <= math.MaxFloat32) {
			return dst, ErrNotFinite
		}
		c.marks.sign(p, mask)
		codec.Shrink(p, tau)
	}
	dst = c.hits.appendSigns(dst, &c.marks)
	c.settle()
	return dst, nil
}

// AddTo adds what the hits stand for.
func (c *strom) AddTo(dst []float32, scale float32, p []byte, from From) error {
	return c.hits.AddTo(dst, scale, p, from)
}

// AppendBinary appends the residual.
func (c *strom) AppendBinary(b []byte) ([]byte, error) { return c.appendTo(b), nil }

// UnmarshalBinary restores it.
func (c *strom) UnmarshalBinary(b []byte) error { return c.restore(b, nil) }
