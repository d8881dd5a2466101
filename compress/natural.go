package compress

import (
	"slices"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

var _ = Families.Add("natural", "random rounding to powers of two, unbiased", Natural{})

// Natural rounds every magnitude at random to a neighbouring power of two.
//
//	C(g)ᵢ = sign(gᵢ)·2ᵉ or sign(gᵢ)·2ᵉ⁺¹,  2ᵉ ≤ |gᵢ| < 2ᵉ⁺¹,  up with probability |gᵢ|/2ᵉ − 1
//
// Horváth et al. 2019 (arXiv 1905.10988), definition 1 and theorem 1: unbiased
// with ω = 1/8, attained at |g| = 4/3·2ᵉ.
//
// Departures: below 2⁻¹²⁶ the neighbours are 0 and 2⁻¹²⁶, still without bias;
// beyond 2¹²⁷ values saturate there.
//
// Tuning: none. It never needs feedback, and its error never falls below 1/8.
//
// Cost: 9 bits an element, an addition and a shift; one draw serves two.
//
// Payload: the exponents as they stand in float32 (0 for zero), a byte each,
// then the sign bits.
type Natural struct{}

// Claims: the theorem above.
func (Natural) Claims(b Block) Claims {
	return Claims{
		Unbiased: true, Omega: 0.125, Delta: 0.875,
		Size: b.Len() + bits.SignLen(b.Len()), Exact: true, Homogeneous: true,
	}
}

// Witness is the magnitude of largest variance.
func (Natural) Witness(b Block) []float32 { return constant(b.Len(), 4.0/3) }

// New makes a codec without state.
func (Natural) New(b Block) (Codec, error) {
	return natural{b.Len(), stream("natural", b, true)}, nil
}

type natural struct {
	d   int
	key rng.Key
}

func (c natural) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.d)
	at := len(dst)
	dst = slices.Grow(dst, c.d+bits.SignLen(c.d))[:at+c.d+bits.SignLen(c.d)]
	exponents, signs, key := dst[at:at+c.d], dst[at+c.d:], c.key.With(uint64(s.N))
	for lo := 0; lo < c.d; lo += chunk {
		hi := min(lo+chunk, c.d)
		if !f32.AllFinite(g[lo:hi]) {
			return dst[:at], ErrNotFinite
		}
		codec.Exponents(exponents[lo:hi], g[lo:hi], key, uint64(lo))
		f32.Signs(signs[lo/8:(hi+7)/8], g[lo:hi])
	}
	return dst, nil
}

func (c natural) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	if len(p) < c.d || !bits.SignsOK(p[c.d:], c.d) {
		return Corruptf("%d bytes, want %d", len(p), c.d+bits.SignLen(c.d))
	}
	exponents, signs := p[:c.d], p[c.d:]
	if codec.MaxByte(exponents) == 255 {
		return Corruptf("an exponent of 255")
	}
	codec.AddExponents(dst, scale, exponents, signs)
	return nil
}
