package compress

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

var _ = Families.Add("uniform", "even levels over each bucket's range",
	Uniform{Bits: 8, Range: "minmax", Round: "nearest", Bucket: 512})

// Uniform rounds every bucket to even levels over its range.
//
//	C(g)ᵢ = lo + u·qᵢ,  qᵢ = ⌊(gᵢ − lo)/u + r⌋,  u = (hi − lo)/L
//	range=minmax:    lo = min g, hi = max g, L = 2^bits − 1
//	range=symmetric: hi = max|g| = −lo, L = 2^bits − 2, so that 0 is a level
//	round=nearest:   r = ½;  round=stochastic: r uniform in [0, 1), unbiased
//
// The quantiser of CGX (Markov et al. 2021, arXiv 2111.08617, section 3) and of
// 8-bit all-reduce hooks; symmetric and stochastic it is QSGD with max norm.
// With n the bucket's length and m = max|g|, the largest elements are exact (the
// two ends of minmax, one end of symmetric). Any other is off by u/2 at most, or
// has variance u²/4 at most.
//
//	minmax, either rounding: ‖g‖² ≥ lo² + hi² ≥ (hi−lo)²/2, so the mean squared
//	  error is at most (n−2)/(2L²) of ‖g‖²; attained by −1, 1 and zeros
//	symmetric, nearest: as 0 is a level, no element is off by more than itself.
//	  With S the squared error, S ≤ (n−1)u²/4 = (n−1)m²/L² and ‖g‖² ≥ m² + S, so
//	  S/‖g‖² ≤ (n−1)/L² / (1 + (n−1)/L²), and δ = 1/(1 + (n−1)/L²); attained by one
//	  element m among others just under u/2
//	symmetric, stochastic: that of qsgd with s = L/2 levels and max norm
//
// Departures: a bucket whose values are all equal is exact. bits=1 is minmax
// only.
//
// Tuning: 8 bits nearest or 4 bits stochastic without feedback; within,
// feedback(uniform(bits=4,range=symmetric,round=nearest)), which is a
// contraction at any length. With minmax 4 bits are one in buckets of up to 451.
// The shorter the bucket the smaller the error.
//
// Cost: bits + 64/bucket (minmax) or 32/bucket (symmetric) bits an element; one
// pass. Nearest rounds in float64, stochastic in fixed point with 23 fraction
// bits, a draw for four elements: each is without bias but for the rounding of
// float32 (codec.Steps).
//
// Payload: the ranges (lo and hi for minmax, hi for symmetric), then packed
// codes.
type Uniform struct {
	Bits   int    `spec:",show" doc:"bits an element, 1 to 8"`
	Range  string `doc:"minmax or symmetric"`
	Round  string `doc:"nearest or stochastic"`
	Bucket int    `doc:"elements that share a range; 0: the whole block"`
}

func (f Uniform) symmetric() bool  { return word(f.Range, "minmax") == "symmetric" }
func (f Uniform) stochastic() bool { return word(f.Round, "nearest") == "stochastic" }

// Validate checks the options.
func (f Uniform) Validate() error {
	if err := oneOf("range", f.Range, "minmax", "symmetric"); err != nil {
		return err
	}
	if err := oneOf("round", f.Round, "nearest", "stochastic"); err != nil {
		return err
	}
	least := 1
	if f.symmetric() {
		least = 2
	}
	if f.Bits < least || f.Bits > 8 {
		return fmt.Errorf(`option "bits": want %d to 8, not %d`, least, f.Bits)
	}
	if f.Bucket < 0 {
		return fmt.Errorf(`option "bucket": want a length, or 0 for the whole block, not %d`, f.Bucket)
	}
	return nil
}

// steps is L, the number of steps over the range.
func (f Uniform) steps() int {
	if f.symmetric() {
		return 1<<f.Bits - 2
	}
	return 1<<f.Bits - 1
}

// header is the bytes a bucket's range takes.
func (f Uniform) header() int {
	if f.symmetric() {
		return 4
	}
	return 8
}

// Claims: the bounds above.
func (f Uniform) Claims(b Block) Claims {
	bucket, buckets := bucketsOf(f.Bucket, b.Len())
	n, l := float64(bucket), float64(f.steps())
	omega := max(0, n-2) / (2 * l * l)
	delta := max(0, 1-omega)
	if f.symmetric() {
		omega = maxNormOmega(n, l/2)
		delta = max(0, 1-omega)
		if !f.stochastic() {
			delta = 1 / (1 + max(0, n-1)/(l*l))
		}
	}
	c := Claims{
		Delta: delta, Homogeneous: true,
		Size: f.header()*buckets + bits.PackedLen(b.Len(), f.Bits), Exact: true,
	}
	if f.stochastic() {
		c.Unbiased, c.Omega = true, omega
	}
	return c
}

// Witness attains the bound in every full bucket.
func (f Uniform) Witness(b Block) []float32 {
	bucket, _ := bucketsOf(f.Bucket, b.Len())
	first, second, other := 1.0, -1.0, 0.0
	if f.symmetric() {
		other = (1 - 0x1p-20) / float64(f.steps())
		if f.stochastic() {
			other = maxNormWorst(float64(bucket), float64(f.steps())/2)
		}
		second = other
	}
	x := make([]float32, b.Len())
	for i := range x[:len(x)/bucket*bucket] {
		switch i % bucket {
		case 0:
			x[i] = float32(first)
		case 1:
			x[i] = float32(second)
		default:
			x[i] = float32(other)
		}
	}
	return x
}

// New makes a codec without state.
func (f Uniform) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	c := &uniform{
		d: b.Len(), bits: f.Bits, steps: f.steps(), header: f.header(),
		symmetric: f.symmetric(), stochastic: f.stochastic(), key: stream("uniform", b, true),
	}
	c.bucket, c.buckets = bucketsOf(f.Bucket, c.d)
	return c, nil
}

type uniform struct {
	d, bits, steps, header int
	bucket, buckets        int
	symmetric, stochastic  bool
	key                    rng.Key
}

func (c *uniform) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.d)
	at := len(dst)
	dst = slices.Grow(dst, c.header*c.buckets+bits.PackedLen(c.d, c.bits))[:at+c.header*c.buckets]
	key := c.key.With(uint64(s.N))
	var codes [chunk]byte
	for lo := 0; lo < c.d; lo += chunk {
		hi := min(lo+chunk, c.d)
		for from := lo; from < hi; {
			k := from / c.bucket
			end := min((k+1)*c.bucket, c.d)
			if from == k*c.bucket && !c.putRange(dst[:at+c.header*k], g[from:end]) {
				return dst[:at], ErrNotFinite
			}
			to := min(hi, end)
			low, unit := c.rangeAt(dst[at:], k)
			c.quantise(codes[from-lo:to-lo], g[from:to], low, unit, key, uint64(from))
			from = to
		}
		dst = bits.AppendPacked(dst, codes[:hi-lo], c.bits)
	}
	return dst, nil
}

// putRange puts behind dst, which has the room, what the receiver needs of the
// range of x. It returns false if x has a NaN or Inf.
func (c *uniform) putRange(dst []byte, x []float32) bool {
	if c.symmetric {
		m := f32.MaxAbs(x)
		formatF32.put(dst, m)
		return m <= math.MaxFloat32
	}
	lo, hi, finite := codec.Extent(x)
	formatF32.put(formatF32.put(dst, lo), hi)
	return finite
}

// rangeAt is the lowest level and the step of bucket k.
func (c *uniform) rangeAt(p []byte, k int) (low, unit float64) {
	if c.symmetric {
		m := float64(formatF32.get(p, k))
		return -m, 2 * m / float64(c.steps)
	}
	lo, hi := float64(formatF32.get(p, 2*k)), float64(formatF32.get(p, 2*k+1))
	return lo, (hi - lo) / float64(c.steps)
}

// quantise counts steps; first is the place of x[0] in the block.
func (c *uniform) quantise(codes []byte, x []float32, lo, unit float64, key rng.Key, first uint64) {
	if c.stochastic {
		codec.Steps(codes, x, float32(lo), codec.NewScale(c.steps, 23, unit*float64(c.steps)), c.steps, key, first)
		return
	}
	var perUnit float64
	if unit > 0 {
		perUnit = 1 / unit
	}
	codec.NearestSteps(codes, x, lo, perUnit, float64(c.steps))
}

func (c *uniform) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	n := c.header * c.buckets
	if want := n + bits.PackedLen(c.d, c.bits); len(p) != want {
		return Corruptf("%d bytes, want %d", len(p), want)
	}
	if err := c.checkRanges(p[:n]); err != nil {
		return err
	}
	if c.symmetric && !bits.PackedOK(p[n:], c.d, c.bits) {
		return Corruptf("a code is beyond the last level, or padding is not zero")
	}
	if c.d*c.bits%8 != 0 && p[len(p)-1]>>(c.d*c.bits%8) != 0 {
		return Corruptf("padding is not zero")
	}
	packed := p[n:]
	var codes [chunk]byte
	for lo := 0; lo < c.d; lo += chunk {
		hi := min(lo+chunk, c.d)
		from := lo / 8 * c.bits
		bits.Unpack(codes[:hi-lo], packed[from:from+bits.PackedLen(hi-lo, c.bits)], c.bits)
		for at := lo; at < hi; {
			k := at / c.bucket
			end := min(hi, (k+1)*c.bucket)
			low, unit := c.rangeAt(p, k)
			codec.AddLevels(dst[at:end], scale, codes[at-lo:end-lo], c.bits, 0, low, unit)
			at = end
		}
	}
	return nil
}

// checkRanges refuses ranges that are not finite, or whose top is not.
func (c *uniform) checkRanges(p []byte) error {
	if c.symmetric {
		return checkNorms(p)
	}
	if !formatF32.finite(p) {
		return Corruptf("a range is not finite")
	}
	for k := range c.buckets {
		if lo, hi := formatF32.get(p, 2*k), formatF32.get(p, 2*k+1); !(lo <= hi) {
			return Corruptf("range from %v to %v", lo, hi)
		}
	}
	return nil
}
