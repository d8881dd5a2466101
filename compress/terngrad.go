package compress

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

var _ = Families.Add("terngrad", "three levels at random", TernGrad{Clip: 2.5})

// TernGrad sends −1, 0 or +1 an element and one scale a bucket.
//
//	C(g)ᵢ = s·sign(gᵢ)·Bernoulli(|gᵢ|/s),  s = max|g| of the bucket
//
// Wen et al. 2017 (arXiv 1705.07878), eq. 1 and 2; with clip=c, gradients are
// first clipped to ±c·σ of the bucket (their section 3.4, c = 2.5). Unclipped it
// is unbiased with ω = (√n − 1)/2 for buckets of n, attained by one element s
// among others of s/(√n + 1): QSGD with max norm at one level. shared=true is
// their scale sharing (section 3.3): the ranks agree on the largest scale of a
// bucket first, and sum −1, 0 and +1 as whole numbers.
//
// Departures: five trits a byte (1.6 bits), where the paper counts log₂ 3 and
// others send a byte an element; bucket=0 is the paper's scale per layer.
// Nothing is clipped below the bucket's mean: c·σ of a single element, or of
// elements that are nearly equal, is 0 or nearly so, and they would never be
// sent. Shared, a sum takes one byte up to 127 ranks. Behind a server, which has
// no round for scales, shared changes nothing.
//
// Tuning: clip=2.5 without feedback. Feedback needs ω < 1, so
// feedback(terngrad(clip=0,bucket=8)): prefer qsgd there.
//
// Cost: 1.6 + 32/bucket bits an element; a pass for scales, one draw for four
// elements.
//
// Payload: all scales, then the trits, the first of a byte in its lowest digit.
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
	c := Claims{Size: 4*buckets + tritLen(b.Len()), Exact: true, Homogeneous: true}
	if f.Clip == 0 {
		c.Unbiased, c.Omega = true, float64((math.Sqrt(float64(bucket))-1)/2)
		c.Delta = max(0, 1-c.Omega)
	}
	if f.Shared {
		return sharedClaims(c, b, buckets, b.Len(), 1)
	}
	return c
}

// Doubt: in buckets so short that terngrad without clipping is a contraction, none
// is known on which it is not one with it.
func (f TernGrad) Doubt(b Block) string {
	if bucket, _ := bucketsOf(f.Bucket, b.Len()); f.Clip > 0 && bucket < 9 {
		return "no bound on what clipping takes off has been proved for short buckets"
	}
	return ""
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

func tritLen(d int) int { return codec.TritLen(d) }

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
	dst = slices.Grow(dst, 4*c.buckets+tritLen(c.d))[:at+4*c.buckets]
	key, scale := c.key.With(uint64(s.N)), float32(0)
	var codes [tritChunk]byte
	for lo := 0; lo < c.d; lo += tritChunk {
		hi := min(lo+tritChunk, c.d)
		for from := lo; from < hi; {
			k := from / c.bucket
			end := min((k+1)*c.bucket, c.d)
			if from == k*c.bucket {
				if scale = c.family.scale(g[from:end]); !(scale <= math.MaxFloat32) {
					return dst[:at], ErrNotFinite
				}
				formatF32.put(dst[:at+4*k], scale)
			}
			to := min(hi, end)
			codec.Levels(codes[from-lo:to-lo], g[from:to], codec.NewScale(1, 24, float64(scale)), 1, key, uint64(from))
			from = to
		}
		dst = appendTrits(dst, codes[:hi-lo])
	}
	return dst, nil
}

// tritChunk is how many codes are packed at a time: whole bytes, and whole groups
// for what makes them.
const tritChunk = 5 * 512

// appendTrits appends codes of 0, 1, 2 for −, 0, +.
func appendTrits(dst, codes []byte) []byte {
	at, n := len(dst), tritLen(len(codes))
	dst = slices.Grow(dst, n)[:at+n]
	codec.PackTrits(dst[at:], codes)
	return dst
}

// scale is max|x|, or clip·σ if that is less, but not less than |mean|; NaN or Inf
// if x has one. Sums are taken piece by piece, so that x is read once.
func (f TernGrad) scale(x []float32) float32 {
	if f.Clip == 0 {
		return f32.MaxAbs(x)
	}
	const piece = 4096
	n, m := float64(len(x)), float32(0)
	var sum, square float64
	for lo := 0; lo < len(x); lo += piece {
		part := x[lo:min(lo+piece, len(x))]
		m = max(m, f32.MaxAbs(part))
		sum += f32.Sum(part)
		square += f32.SumSq(part)
	}
	mean := sum / n
	sigma := math.Sqrt(max(0, square/n-float64(mean*mean)))
	if cut := float32(max(f.Clip*sigma, math.Abs(mean))); m <= math.MaxFloat32 && cut < m {
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
	if last := len(trits) - 1; codec.MaxByte(trits) >= 243 || last >= 0 && int(trits[last]) >= pow3[c.d-5*last] {
		return Corruptf("a byte holds no trits")
	}
	var codes [tritChunk]byte
	for lo := 0; lo < c.d; lo += tritChunk {
		hi := min(lo+tritChunk, c.d)
		codec.UnpackTrits(codes[:hi-lo], trits[lo/5:(hi+4)/5])
		for at := lo; at < hi; {
			k := at / c.bucket
			end := min(hi, (k+1)*c.bucket)
			codec.AddLevels(dst[at:end], scale, codes[at-lo:end-lo], 2, 1, 0, float64(formatF32.get(scales, k)))
			at = end
		}
	}
	return nil
}

var pow3 = [6]int{1, 3, 9, 27, 81, 243}

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
