package compress

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

// terngrad sends −1, 0 or +1 an element and one scale a bucket.
//
//	C(g)ᵢ = s·sign(gᵢ)·Bernoulli(|gᵢ|/s),  s = max|g| of the bucket
//
// Wen et al. 2017 (arXiv 1705.07878), eq. 1 and 2; with clip=c, gradients are
// first clipped to ±c·σ of the bucket (their section 3.4, c = 2.5). Unclipped it
// is unbiased with ω = (√n − 1)/2 for buckets of n, attained by one element s
// among others of s/(√n + 1): QSGD with max norm at one level.
// shared=true is their scale sharing (section 3.3): the ranks agree on the
// largest scale of a bucket first, and sum −1, 0 and +1 as whole numbers.
// Departures: five trits a byte (1.6 bits), where the paper counts log₂ 3 and
// others send a byte an element; bucket=0 is the paper's scale per layer. Shared,
// a sum takes one byte up to 127 ranks. Behind a server, which has no round for
// scales, shared changes nothing.
// Tuning: clip=2.5 without feedback. Feedback needs ω < 1, so clip=0 and
// bucket ≤ 8: prefer qsgd there.
// Cost: 1.6 + 32/bucket bits an element; a pass for scales, one draw for two
// elements. Payload: all scales, then the trits, the first of a byte in its
// lowest digit.

var _ = Families.Add("terngrad", "three levels at random", TernGrad{Clip: 2.5})

// TernGrad quantises to three levels.
type TernGrad struct {
	Clip   float64 `doc:"clip at so many standard deviations; 0: do not, and stay unbiased"`
	Bucket int     `doc:"elements that share a scale; 0: the whole block"`
	Shared bool    `doc:"one scale for all ranks, so that their levels are summed"`
}

// Validate checks the options.
func (f TernGrad) Validate() error {
	if !(f.Clip >= 0) || math.IsInf(f.Clip, 0) {
		return fmt.Errorf(`option "clip": want a number of standard deviations, or 0 for none, not %v`, f.Clip)
	}
	if f.Bucket < 0 {
		return fmt.Errorf(`option "bucket": want a length, or 0 for the whole block, not %d`, f.Bucket)
	}
	return nil
}

// Claims: the bound above without clipping, none with it.
func (f TernGrad) Claims(b Block) Claims {
	bucket, buckets := bucketsOf(f.Bucket, b.Len())
	c := Claims{Size: 4*buckets + tritLen(b.Len()), Exact: true}
	if f.Clip == 0 {
		c.Unbiased, c.Omega, c.Homogeneous = true, (math.Sqrt(float64(bucket))-1)/2, true
		c.Delta = max(0, 1-c.Omega)
	}
	if f.Shared {
		return sharedClaims(c, b, buckets, b.Len(), 1)
	}
	return c
}

// Witness attains the bound in every full bucket.
func (f TernGrad) Witness(b Block) []float32 {
	bucket, _ := bucketsOf(f.Bucket, b.Len())
	x := constant(b.Len(), float32(1/(math.Sqrt(float64(bucket))+1)))
	for i := 0; i < len(x); i += bucket {
		x[i] = 1
	}
	return x
}

// bucketsOf cuts d elements into buckets of the wanted length, 0 for one of
// all.
func bucketsOf(want, d int) (bucket, buckets int) {
	if bucket = want; bucket == 0 || bucket > d {
		bucket = max(1, d)
	}
	return bucket, (d + bucket - 1) / bucket
}

func tritLen(d int) int { return (d + 4) / 5 }

// New makes a codec without state.
func (f TernGrad) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	c := &ternGrad{d: b.Len(), family: f, key: stream("terngrad", b, true)}
	c.bucket, c.buckets = bucketsOf(f.Bucket, c.d)
	return c, nil
}

// NewExchange makes an exchange of a maximum and a sum of integers, if scales
// are shared.
func (f TernGrad) NewExchange(b Block) (Exchange, error) {
	if err := f.Validate(); err != nil || !f.Shared {
		return nil, err
	}
	return newSharedScale(b, f.Bucket, 1, true, stream("terngrad", b, true), f.scale)
}

type ternGrad struct {
	d, bucket, buckets int
	family             TernGrad
	key                rng.Key
}

func (c *ternGrad) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.d)
	at := len(dst)
	dst = slices.Grow(dst, 4*c.buckets+tritLen(c.d))
	for lo := 0; lo < c.d; lo += c.bucket {
		scale := c.family.scale(g[lo:min(lo+c.bucket, c.d)])
		if !(scale <= math.MaxFloat32) {
			return dst[:at], ErrNotFinite
		}
		dst = formatF32.put(dst, scale)
	}
	scales := dst[at:]
	key, draw := c.key.With(uint64(s.N)), uint64(0)
	var perUnit float64
	var code, weight byte = 0, 1
	for i, v := range g {
		if i%c.bucket == 0 {
			perUnit = 0
			if scale := formatF32.get(scales, i/c.bucket); scale > 0 {
				perUnit = (1 << 32) / float64(scale)
			}
		}
		if draw >>= 32; i&1 == 0 {
			draw = key.Uint64(uint64(i) >> 1)
		}
		// Digits are 0, 1, 2 for −, 0, +.
		hit := byte((uint64(math.Abs(float64(v))*perUnit) + draw&(1<<32-1)) >> 32 & 1)
		if v < 0 {
			hit = -hit
		}
		code += (1 + hit) * weight
		if weight *= 3; weight == 243 || i+1 == len(g) {
			dst = append(dst, code)
			code, weight = 0, 1
		}
	}
	return dst, nil
}

// scale is max|x|, or clip·σ if that is less; NaN or Inf if x has one.
func (f TernGrad) scale(x []float32) float32 {
	m := f32.MaxAbs(x)
	if f.Clip == 0 || !(m <= math.MaxFloat32) {
		return m
	}
	n := float64(len(x))
	mean := f32.Sum(x) / n
	sigma := math.Sqrt(max(0, f32.SumSq(x)/n-mean*mean))
	if cut := float32(f.Clip * sigma); cut < m {
		return cut
	}
	return m
}

func (c *ternGrad) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	if want := 4*c.buckets + tritLen(c.d); len(p) != want {
		return Corruptf("%d bytes, want %d", len(p), want)
	}
	scales, trits := p[:4*c.buckets], p[4*c.buckets:]
	if err := checkNorms(scales); err != nil {
		return err
	}
	for i, t := range trits {
		if t >= 243 || i == len(trits)-1 && int(t) >= pow3[c.d-5*i] {
			return Corruptf("byte %d holds no trits", i)
		}
	}
	var values [3]float32
	for i := range dst {
		if i%c.bucket == 0 {
			v := float32(scale * formatF32.get(scales, i/c.bucket))
			values = [3]float32{-v, 0, v}
		}
		dst[i] += values[trinary[trits[i/5]][i%5]]
	}
	return nil
}

var pow3 = [6]int{1, 3, 9, 27, 81, 243}

// trinary is the five digits of a byte, lowest first.
var trinary = func() (t [243][5]byte) {
	for code := range t {
		for i, c := 0, code; i < 5; i, c = i+1, c/3 {
			t[code][i] = byte(c % 3)
		}
	}
	return
}()

// checkNorms refuses scales that are not finite or have a sign.
func checkNorms(p []byte) error {
	if !formatF32.finite(p) {
		return Corruptf("a scale is not finite")
	}
	for i := 3; i < len(p); i += 4 {
		if p[i]>>7 != 0 {
			return Corruptf("a scale is negative")
		}
	}
	return nil
}
