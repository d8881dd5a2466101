package compress

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

// bf16 and fp16 send every element in two bytes.
//
//	C(g)ᵢ = nearest half of gᵢ, ties to even
//	stochastic=true: the half below or above, so that E C(g) = g
//
// Departures: finite values beyond the range saturate at ±3.39e38 and ±65504
// instead of turning into infinities; feedback carries the rest.
// Tuning: bf16 unless gradients are known to stay within 6e-5 … 65504.
// Cost: 2 bytes an element. Sums travel as halves too and are rounded on every
// hop; a sum that overflows is reported, not delivered.

var (
	_ = Families.Add("bf16", "bfloat16, to nearest or stochastic", BFloat16{})
	_ = Families.Add("fp16", "IEEE half, to nearest or stochastic", FP16{})
)

// BFloat16 sends bfloat16: float32's range with 8 significant bits.
type BFloat16 struct {
	Stochastic bool `doc:"round up or down at random, without bias"`
}

// FP16 sends IEEE halves: 11 significant bits between 6e-5 and 65504.
type FP16 struct {
	Stochastic bool `doc:"round up or down at random, without bias"`
}

// Claims: Delta = 1 − unit², or unbiased with Omega = 2⁻¹⁶: rounding within a
// step of 2⁻⁷ has variance at most a quarter of its square.
func (f BFloat16) Claims(b Block) Claims {
	c := castClaims(b, &formatBF16)
	c.Homogeneous = true
	if f.Stochastic {
		c.Unbiased, c.Omega, c.Delta = true, 0x1p-16, 1-0x1p-16
	}
	return c
}

// Claims: Delta = 1 − unit², or unbiased with Omega = 2⁻²², a quarter of a step
// of 2⁻¹⁰ squared.
func (f FP16) Claims(b Block) Claims {
	c := castClaims(b, &formatFP16)
	if f.Stochastic {
		c.Unbiased, c.Omega, c.Delta = true, 0x1p-22, 1-0x1p-22
	}
	return c
}

func castClaims(b Block, f *format) Claims {
	return Claims{Delta: 1 - f.unit*f.unit, Size: 2 * b.Len(), Exact: true, Linear: FloatSum}
}

// Witness is the tie that is rounded down furthest.
func (BFloat16) Witness(b Block) []float32 { return constant(b.Len(), 1+0x1p-8) }

// Witness is the tie that is rounded down furthest.
func (FP16) Witness(b Block) []float32 { return constant(b.Len(), 1+0x1p-11) }

func constant(n int, v float32) []float32 {
	x := make([]float32, n)
	f32.Fill(x, v)
	return x
}

// New makes a codec without state.
func (f BFloat16) New(b Block) (Codec, error) {
	c := &cast{d: b.Len(), format: &formatBF16, key: stream("bf16", b, true)}
	if f.Stochastic {
		c.stochastic = stochasticBF16
	}
	return c, nil
}

// New makes a codec without state.
func (f FP16) New(b Block) (Codec, error) {
	c := &cast{d: b.Len(), format: &formatFP16, key: stream("fp16", b, true)}
	if f.Stochastic {
		c.stochastic = stochasticFP16
	}
	return c, nil
}

type cast struct {
	d          int
	format     *format
	stochastic func(v float32, key rng.Key, i int) uint16 // nil: to nearest
	key        rng.Key
}

func (c *cast) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.d)
	m := f32.MaxAbs(g)
	if !(m <= math.MaxFloat32) {
		return dst, ErrNotFinite
	}
	if c.stochastic == nil {
		return c.format.append(dst, g, m), nil
	}
	at := len(dst)
	dst = slices.Grow(dst, 2*c.d)[:at+2*c.d]
	key := c.key.With(uint64(s.N))
	for i, v := range g {
		binary.LittleEndian.PutUint16(dst[at+2*i:], c.stochastic(v, key, i))
	}
	return dst, nil
}

// stochasticBF16 adds 16 random bits below the half and cuts: up with exactly
// the probability of the fraction cut off. One draw serves four elements.
func stochasticBF16(v float32, key rng.Key, i int) uint16 {
	r := uint32(key.Uint64(uint64(i)>>2)>>(uint(i)&3*16)) & 0xffff
	h := uint16((math.Float32bits(v) + r) >> 16)
	if h&0x7fff == 0x7f80 {
		h-- // saturate
	}
	return h
}

// stochasticFP16 does the same with the 13 bits that a half has less; below 6e-5,
// where halves are evenly spaced, it rounds a count of 2⁻²⁴.
func stochasticFP16(v float32, key rng.Key, i int) uint16 {
	const largest, normal = 0x7bff, 0x38800000
	b := math.Float32bits(v) & magnitude
	sign := uint16(math.Float32bits(v) >> 16 & 0x8000)
	if b < normal {
		units := float64(math.Float32frombits(b)) * (1 << 24)
		n := math.Floor(units)
		if key.Float64(uint64(i)|1<<40) < units-n {
			n++
		}
		return sign | uint16(n)
	}
	r := uint32(key.Uint64(uint64(i)>>2)>>(uint(i)&3*16)) & 0x1fff
	return sign | uint16(min(largest, (b-0x38000000+r)>>13)) // saturate
}

func (c *cast) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	if len(p) != 2*c.d {
		return Corruptf("%d bytes, want %d", len(p), 2*c.d)
	}
	if !c.format.finite(p) {
		return Corruptf("a value is not finite")
	}
	c.format.add(dst, scale, p)
	return nil
}

func (c *cast) WireLen() int { return c.d }

func (c *cast) Wire() Wire { return c.format.wire }

// Project rounds like Append, so what is credited is what a receiver sees.
func (c *cast) Project(dst, g []float32, s Step) error {
	checkLen(len(g), c.d)
	m := f32.MaxAbs(g)
	if !(m <= math.MaxFloat32) {
		return ErrNotFinite
	}
	if c.stochastic != nil {
		key := c.key.With(uint64(s.N))
		for i, v := range g {
			dst[i] = c.format.from(c.stochastic(v, key, i))
		}
		return nil
	}
	copy(dst, g)
	if c.format.overflows(m) {
		for i, v := range dst {
			dst[i] = c.format.saturate(v)
		}
	}
	c.format.round(dst)
	return nil
}

func (c *cast) Lift(dst []float32, scale float32, sum []float32, _ Step) error {
	checkLen(len(dst), c.d)
	if !f32.AllFinite(sum) {
		return errSumOverflow(c.format.name)
	}
	f32.Axpy(dst, scale, sum)
	return nil
}
