package compress

import (
	"math"
	"slices"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
)

var _ = Families.Add("sign", "one sign bit an element", Sign{Scale: "mean"})

// Sign sends one bit an element.
//
//	scale=mean: C(g) = (‖g‖₁/d)·sign(g)
//	scale=none: C(g) = sign(g)
//
// mean: Karimireddy et al. 2019 (arXiv 1901.09847), a contraction with δ =
// ‖g‖₁²/(d‖g‖₂²) ≥ 1/d (0.64 on Gaussian data). none: Bernstein et al. 2018
// (arXiv 1802.04434), a direction without a length: no contraction, so feedback
// over it is refused. The scale ‖g‖₂/√d found elsewhere is not offered: it is no
// contraction on layers of unequal magnitude.
//
// Departures: sign(0) = +1 and sign(−0) = −1, so with scale=none a block of
// zeros decodes to ones. The majority of the ranks' signs is vote.
//
// Tuning: feedback(sign); scale=none with a learning rate like Adam's.
//
// Cost: 1 bit an element, and 4 bytes for the mean.
//
// Payload: the mean as float32, then the sign bits.
type Sign struct {
	Scale string `doc:"mean (of magnitudes) or none (±1)"`
}

// Validate checks the options.
func (f Sign) Validate() error { return oneOf("scale", f.Scale, "mean", "none") }

// Claims: Delta = 1/d with scale=mean, the worst case.
func (f Sign) Claims(b Block) Claims {
	d := b.Len()
	c := Claims{Size: bits.SignLen(d), Exact: true}
	if word(f.Scale, "mean") == "mean" {
		c.Homogeneous, c.Delta = true, 1/float64(max(1, d))
		if d > 0 {
			c.Size += 4
		}
	}
	return c
}

// Witness is a single non-zero element.
func (Sign) Witness(b Block) []float32 { return oneHot(b.Len()) }

func oneHot(d int) []float32 {
	x := make([]float32, d)
	if d > 0 {
		x[d/2] = 1
	}
	return x
}

// New makes a codec without state.
func (f Sign) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return sign{d: b.Len(), mean: b.Len() > 0 && word(f.Scale, "mean") == "mean"}, nil
}

type sign struct {
	d    int
	mean bool
}

func (c sign) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	checkLen(len(g), c.d)
	at, header := len(dst), 0
	if c.mean {
		header = 4
	}
	n := header + bits.SignLen(c.d)
	dst = slices.Grow(dst, n)[:at+n]
	sum, _ := codec.Signs(dst[at+header:], g)
	if !(sum <= math.MaxFloat64) {
		return dst[:at], ErrNotFinite
	}
	if c.mean {
		formatF32.put(dst[:at], float32(sum/float64(c.d)))
	}
	return dst, nil
}

func (c sign) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	if c.mean {
		if len(p) < 4 {
			return Corruptf("%d bytes, want %d", len(p), 4+bits.SignLen(c.d))
		}
		mean := formatF32.get(p, 0)
		if !(mean >= 0 && mean <= math.MaxFloat32) || math.Signbit(float64(mean)) {
			return Corruptf("mean %v", mean)
		}
		scale *= mean
		p = p[4:]
	}
	if !bits.SignsOK(p, c.d) {
		return Corruptf("%d bytes of signs, want %d", len(p), bits.SignLen(c.d))
	}
	f32.AddSigns(dst, scale, -scale, p)
	return nil
}
