package compress

import (
	"math"
	"slices"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

// natural rounds every magnitude at random to a neighbouring power of two.
//
//	C(g)ᵢ = sign(gᵢ)·2ᵉ or sign(gᵢ)·2ᵉ⁺¹,  2ᵉ ≤ |gᵢ| < 2ᵉ⁺¹,  up with probability |gᵢ|/2ᵉ − 1
//
// Horváth et al. 2019 (arXiv 1905.10988), definition 1 and theorem 1: unbiased
// with ω = 1/8, attained at |g| = 4/3·2ᵉ.
// Departures: below 2⁻¹²⁶ the neighbours are 0 and 2⁻¹²⁶, still without bias;
// beyond 2¹²⁷ values saturate there.
// Tuning: none. It never needs feedback, and its error never falls below 1/8.
// Cost: 9 bits an element, an addition and a shift; one draw serves two.
// Payload: the exponents as they stand in float32 (0 for zero), a byte each,
// then the sign bits.

var _ = Families.Add("natural", "random rounding to powers of two, unbiased", Natural{})

// Natural sends a sign and an exponent.
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

const mantissa = 1<<23 - 1

func (c natural) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.d)
	if !f32.AllFinite(g) {
		return dst, ErrNotFinite
	}
	at := len(dst)
	dst = slices.Grow(dst, c.d+bits.SignLen(c.d))[:at+c.d]
	out, key := dst[at:], c.key.With(uint64(s.N))
	for i := 0; i < len(g); i += 2 {
		draw := key.Uint64(uint64(i) >> 1)
		out[i] = exponent(g[i], uint32(draw)&mantissa)
		if i+1 < len(g) {
			out[i+1] = exponent(g[i+1], uint32(draw>>32)&mantissa)
		}
	}
	return bits.AppendSigns(dst, g), nil
}

// exponent adds 23 random bits to the mantissa and cuts it off: it carries into
// the exponent with exactly the probability that makes the mean right, among
// subnormal values too.
func exponent(v float32, draw uint32) byte {
	return byte(min((math.Float32bits(v)&magnitude+draw)>>23, 254))
}

func (c natural) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	if len(p) < c.d || !bits.SignsOK(p[c.d:], c.d) {
		return Corruptf("%d bytes, want %d", len(p), c.d+bits.SignLen(c.d))
	}
	exponents, signs := p[:c.d], p[c.d:]
	for _, e := range exponents {
		if e == 255 {
			return Corruptf("an exponent of 255")
		}
	}
	for i, e := range exponents {
		sign := uint32(signs[i>>3]>>(uint(i)&7)) << 31
		dst[i] += float32(scale * math.Float32frombits(sign|uint32(e)<<23))
	}
	return nil
}
