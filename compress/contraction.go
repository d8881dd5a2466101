package compress

import (
	"errors"
	"fmt"
	"math"
)

var _ = Families.Add("contraction", "an unbiased codec times 1/(1+ω), for feedback",
	Contraction{In: QSGD{Bits: 2, Bucket: 512, Norm: "max"}})

// Contraction scales what an unbiased codec decodes to, so that feedback over it
// converges.
//
//	K(g) = C(g)/(1+ω),  E‖K(g)−g‖² ≤ (1 − 1/(1+ω))·‖g‖²
//
// with ω the bound the codec claims (Beznosikov et al. 2020, arXiv 2002.12410,
// section 2.2). The payload is the codec's; the factor is known to both sides.
//
// Tuning: only as in feedback(contraction(qsgd(bits=2))), where the rate must
// fall with δ = 1/(1+ω): with ω in the hundreds little is left, and a codec with
// smaller buckets or more bits is the better cure. Payloads that could be summed
// are not.
//
// Cost: none.
type Contraction struct {
	In Family `doc:"the codec inside, unbiased"`
}

// Inner lists the codec inside.
func (f Contraction) Inner() []Family { return []Family{f.In} }

// Validate checks the options.
func (f Contraction) Validate() error {
	if f.In == nil {
		return errors.New("want a codec inside")
	}
	return nil
}

// omega is the bound of the codec inside, or why there is none.
func (f Contraction) omega(b Block) (float64, error) {
	c, _ := ClaimsOf(f.In, b)
	if !c.Unbiased || c.Stateful || !(c.Omega <= math.MaxFloat64) {
		return 0, fmt.Errorf("contraction of %s: it claims no bound on the variance of an unbiased encoding on %q (%d elements)",
			Spec(f.In), b.Name, b.Len())
	}
	return c.Omega, nil
}

// Claims: a contraction by 1/(1+ω), of the size of the codec inside.
func (f Contraction) Claims(b Block) Claims {
	in, _ := ClaimsOf(f.In, b)
	omega, err := f.omega(b)
	if err != nil {
		return Claims{Size: in.Size, Exact: in.Exact, Special: in.Special, Allocs: in.Allocs, Shaped: in.Shaped, WarmsUp: in.WarmsUp}
	}
	return Claims{
		Delta: 1 / (1 + omega), Size: in.Size, Exact: in.Exact, Special: in.Special,
		Homogeneous: in.Homogeneous, Allocs: in.Allocs, Lossless: in.Lossless && omega == 0,
		Raw: in.Raw && omega == 0, Shaped: in.Shaped, Cast: in.Cast, WarmsUp: in.WarmsUp,
	}
}

// Witness is the codec's: where ω is attained, δ is.
func (f Contraction) Witness(b Block) []float32 {
	if w, ok := f.In.(Witnesser); ok {
		return w.Witness(b)
	}
	return nil
}

// New makes a codec without state.
func (f Contraction) New(b Block) (Codec, error) {
	if err := errors.Join(f.Validate(), validate(f.In)); err != nil {
		return nil, err
	}
	omega, err := f.omega(b)
	if err != nil {
		return nil, err
	}
	in, err := f.In.New(b)
	if err != nil {
		return nil, err
	}
	return &contraction{in: in, factor: float32(1 / (1 + omega))}, nil
}

type contraction struct {
	in     Codec
	factor float32
}

func (c *contraction) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	return c.in.Append(dst, g, s)
}

func (c *contraction) AddTo(dst []float32, scale float32, p []byte, from From) error {
	return c.in.AddTo(dst, scale*c.factor, p, from)
}
