package compress

import (
	"math"
	"slices"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

var (
	_ = Families.Add("bf16", "bfloat16, to nearest or stochastic", BFloat16{})
	_ = Families.Add("fp16", "IEEE half, to nearest or stochastic", FP16{})
)

// BFloat16 sends every element in two bytes: float32's range with 8 significant
// bits.
//
//	C(g)ᵢ = nearest bfloat16 of gᵢ, ties to even
//	stochastic=true: the one below or above, so that E C(g) = g
//
// Paper: none; the format is Google's.
//
// Departures: finite values beyond the range saturate at ±3.39e38 instead of
// turning into infinities; feedback carries the rest.
//
// Tuning: no option needs any; bf16 rather than fp16, unless gradients are known
// to stay within 6e-5 … 65504.
//
// Cost: 2 bytes an element. Sums travel as halves too and are rounded on every
// hop; a sum that overflows is reported, not delivered.
type BFloat16 struct {
	Stochastic bool `doc:"round up or down at random, without bias"`
}

// FP16 sends every element in two bytes: an IEEE half, with 11 significant bits
// between 6e-5 and 65504.
//
//	C(g)ᵢ = nearest half of gᵢ, ties to even
//	stochastic=true: the half below or above, so that E C(g) = g
//
// Paper: none; the format is IEEE 754's binary16.
//
// Departures: finite values beyond the range saturate at ±65504 instead of
// turning into infinities; feedback carries the rest.
//
// Tuning: where gradients are known to stay within 6e-5 … 65504; bf16 elsewhere.
//
// Cost: 2 bytes an element. Sums travel as halves too and are rounded on every
// hop; a sum that overflows is reported, not delivered.
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
	return Claims{Delta: 1 - float64(f.unit*f.unit), Size: 2 * b.Len(), Exact: true, Linear: FloatSum, Cast: true, HalfSums: true}
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
	c := &cast{d: b.Len(), format: &formatBF16, nearest: codec.NearestBF16, key: stream("bf16", b, true)}
	if f.Stochastic {
		c.random = codec.RandomBF16
	}
	return c, nil
}

// New makes a codec without state.
func (f FP16) New(b Block) (Codec, error) {
	c := &cast{d: b.Len(), format: &formatFP16, nearest: codec.NearestFP16, saturates: !f.Stochastic, key: stream("fp16", b, true)}
	if f.Stochastic {
		c.random = codec.RandomFP16
	}
	return c, nil
}

// cast writes elements by nearest or random, which return the bits of the
// largest magnitude.
type cast struct {
	d         int
	format    *format
	nearest   func(dst []byte, x []float32) uint32
	saturates bool // where nearest would give an infinity
	random    func(dst []byte, x []float32, key rng.Key, first uint64) uint32
	key       rng.Key
}

func (c *cast) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.d)
	at := len(dst)
	dst = slices.Grow(dst, 2*c.d)
	key := c.key.With(uint64(s.N))
	for lo := 0; lo < c.d; lo += castBlock {
		x := g[lo:min(lo+castBlock, c.d)]
		end := len(dst)
		dst = dst[:end+2*len(x)]
		m := math.Float32frombits(c.write(dst[end:], x, key, lo))
		if !(m <= math.MaxFloat32) {
			return dst[:at], ErrNotFinite
		}
		if c.saturates && c.format.overflows(m) {
			dst = c.format.append(dst[:end], x, m)
		}
	}
	return dst, nil
}

// write casts elements first, first+1, … of the block and returns the bits of the
// largest magnitude.
func (c *cast) write(dst []byte, x []float32, key rng.Key, first int) uint32 {
	if c.random != nil {
		return c.random(dst, x, key, uint64(first))
	}
	return c.nearest(dst, x)
}

// castBlock is how many elements are looked at and then cast, while they are near.
const castBlock = 4096

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
	if c.random != nil {
		key := c.key.With(uint64(s.N))
		var half [2 * castBlock]byte
		for lo := 0; lo < c.d; lo += castBlock {
			x := g[lo:min(lo+castBlock, c.d)]
			c.random(half[:2*len(x)], x, key, uint64(lo))
			clear(dst[lo : lo+len(x)])
			c.format.add(dst[lo:lo+len(x)], 1, half[:2*len(x)])
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
