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

var _ = Families.Add("qsgd", "stochastic uniform levels, unbiased", QSGD{Bits: 4, Bucket: 512, Norm: "max"})

// QSGD rounds every bucket at random to 2s+1 even levels, s = 2^(bits−1) − 1.
//
//	C(g)ᵢ = N·sign(gᵢ)·ξᵢ/s,  ξᵢ = ⌊rᵢ⌋ + Bernoulli(rᵢ − ⌊rᵢ⌋),  rᵢ = s·|gᵢ|/N
//	N = max|g| or ‖g‖₂ of the bucket
//
// Alistarh et al. 2017 (arXiv 1610.02132), eq. 3; buckets and max norm as in
// their section 5. Unbiased. With n the bucket's length,
//
//	max: ω = (√(1 + (n−1)/s²) − 1)/2, attained by one element N, the others p·N/s
//	l2:  ω = √n/s − 1 if n ≥ 4s², attained by a flat vector; else n/(4s²)
//
// (the paper's lemma 3.1 has min(n/s², √n/s) for l2). Both follow from the
// variance Σ f(1−f)·(N/s)², f the fraction of r, maximised for given ‖g‖.
//
// Departures: fixed width in place of Elias codes; the norm is float32.
//
// Tuning: bits=4, bucket=512; feedback needs ω < 1, so
// feedback(qsgd(bits=4,bucket=256)) or more bits. With l2 and whole layers ω is
// in the hundreds and feedback diverges: hence the refusal. r is a float32
// product, in fixed point with 24 fraction bits, and so is what is added to it
// before it is cut: each element is without bias but for the rounding of
// float32. A draw of 64 bits serves four elements. Two of them have the same 32
// bits, halves exchanged, so each is uniform and they are unrelated beyond 2⁻¹⁶
// of a level, which neither the mean nor ω can tell (codec.Levels).
//
// Cost: bits + 32/bucket bits an element; one pass.
//
// Payload: all norms, then all codes, packed.
type QSGD struct {
	Bits   int    `spec:",show" doc:"bits an element, 2 to 8"`
	Bucket int    `doc:"elements that share a norm; 0: the whole block"`
	Norm   string `doc:"max or l2"`
}

// Validate checks the options.
func (f QSGD) Validate() error {
	if f.Bits < 2 || f.Bits > 8 {
		return fmt.Errorf(`option "bits": want 2 to 8, not %d`, f.Bits)
	}
	if f.Bucket < 0 {
		return fmt.Errorf(`option "bucket": want a length, or 0 for the whole block, not %d`, f.Bucket)
	}
	return oneOf("norm", f.Norm, "max", "l2")
}

func (f QSGD) levels() int { return 1<<uint(f.Bits-1) - 1 }

// Claims: the bounds above; a contraction when ω < 1.
func (f QSGD) Claims(b Block) Claims {
	bucket, buckets := bucketsOf(f.Bucket, b.Len())
	n, s := float64(bucket), float64(f.levels())
	omega := n / (4 * s * s)
	switch {
	case word(f.Norm, "max") == "max":
		omega = maxNormOmega(n, s)
	case n >= 4*s*s:
		omega = math.Sqrt(n)/s - 1
	}
	return Claims{
		Unbiased: true, Omega: omega, Delta: max(0, 1-omega),
		Size: 4*buckets + bits.PackedLen(b.Len(), f.Bits), Exact: true, Homogeneous: true,
	}
}

// maxNormOmega is ω of random rounding to s levels of the largest of n magnitudes.
func maxNormOmega(n, s float64) float64 {
	return float64((math.Sqrt(1+max(0, n-1)/(s*s)) - 1) / 2)
}

// maxNormWorst is what the other n−1 magnitudes are where that is attained, the
// largest being 1.
func maxNormWorst(n, s float64) float64 {
	a := s * s / max(1, n-1)
	return (math.Sqrt(float64(a*a)+a) - a) / s
}

// Witness attains the bound in every full bucket: see the head of the file.
func (f QSGD) Witness(b Block) []float32 {
	bucket, _ := bucketsOf(f.Bucket, b.Len())
	n, s := float64(bucket), float64(f.levels())
	first, other := 1.0, 1.0 // l2, n ≥ 4s²: flat
	switch {
	case word(f.Norm, "max") == "max":
		other = maxNormWorst(n, s)
	case n < 4*s*s: // one large, the others halfway between levels 0 and 1
		first, other = math.Sqrt(float64(s*s)-float64((n-1)/4)), 0.5
	}
	x := make([]float32, b.Len())
	for i := range x[:len(x)/bucket*bucket] {
		x[i] = float32(other)
		if i%bucket == 0 {
			x[i] = float32(first)
		}
	}
	return x
}

// New makes a codec without state.
func (f QSGD) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	c := &qsgd{d: b.Len(), bits: f.Bits, s: f.levels(), l2: word(f.Norm, "max") == "l2", key: stream("qsgd", b, true)}
	c.bucket, c.buckets = bucketsOf(f.Bucket, b.Len())
	return c, nil
}

type qsgd struct {
	d, bits, s      int
	bucket, buckets int
	l2              bool
	key             rng.Key
}

// chunk is how many codes are packed at a time: whole bytes at any width, few
// enough to stay in cache with what they are made of.
const chunk = 2048

func (c *qsgd) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.d)
	at := len(dst)
	dst = slices.Grow(dst, 4*c.buckets+bits.PackedLen(c.d, c.bits))[:at+4*c.buckets]
	key, norm := c.key.With(uint64(s.N)), float32(0)
	var codes [chunk]byte
	for lo := 0; lo < c.d; lo += chunk {
		hi := min(lo+chunk, c.d)
		for from := lo; from < hi; {
			k := from / c.bucket
			end := min((k+1)*c.bucket, c.d)
			if from == k*c.bucket {
				if norm = c.norm(g[from:end]); !(norm <= math.MaxFloat32) {
					return dst[:at], ErrNotFinite
				}
				formatF32.put(dst[:at+4*k], norm)
			}
			to := min(hi, end)
			codec.Levels(codes[from-lo:to-lo], g[from:to], codec.NewScale(c.s, 24, float64(norm)), c.s, key, uint64(from))
			from = to
		}
		dst = bits.AppendPacked(dst, codes[:hi-lo], c.bits)
	}
	return dst, nil
}

// norm is what the levels of a bucket are fractions of, NaN or Inf if x has one.
func (c *qsgd) norm(x []float32) float32 {
	if c.l2 {
		return float32(math.Sqrt(f32.SumSq(x)))
	}
	return f32.MaxAbs(x)
}

func (c *qsgd) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	if want := 4*c.buckets + bits.PackedLen(c.d, c.bits); len(p) != want {
		return Corruptf("%d bytes, want %d", len(p), want)
	}
	norms, packed := p[:4*c.buckets], p[4*c.buckets:]
	if err := checkNorms(norms); err != nil {
		return err
	}
	if !bits.PackedOK(packed, c.d, c.bits) {
		return Corruptf("a code is beyond the last level, or padding is not zero")
	}
	var codes [chunk]byte
	for lo := 0; lo < c.d; lo += chunk {
		hi := min(lo+chunk, c.d)
		from := lo / 8 * c.bits
		bits.Unpack(codes[:hi-lo], packed[from:from+bits.PackedLen(hi-lo, c.bits)], c.bits)
		for at := lo; at < hi; {
			k := at / c.bucket
			end := min(hi, (k+1)*c.bucket)
			unit := float64(formatF32.get(norms, k)) / float64(c.s)
			codec.AddLevels(dst[at:end], scale, codes[at-lo:end-lo], c.bits, c.s, 0, unit)
			at = end
		}
	}
	return nil
}
