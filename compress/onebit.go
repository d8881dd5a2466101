package compress

import (
	"math"
	"slices"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
)

var _ = Families.Add("onebit", "one bit an element and two means", OneBit{})

// OneBit sends one bit an element and two centroids.
//
//	C(g)ᵢ = m₊ if gᵢ ≥ 0, else m₋;  m± the mean of its group, 0 if empty
//
// Seide et al. 2014 (Interspeech), section 3.2: the decoded values that minimise
// the squared error for a threshold at zero. C is a projection, so ‖C(g)−g‖² =
// ‖g‖² − ‖C(g)‖² ≤ (1−1/d)‖g‖²; one non-zero element attains it.
//
// Departures: one pair of centroids a block, where the paper has one a column;
// −0 counts as negative.
//
// Tuning: feedback(onebit), as in the paper.
//
// Cost: 1 bit an element and 8 bytes.
//
// Payload: m₊, m₋, then the sign bits.
type OneBit struct{}

// Claims: Delta = 1/d, the worst case.
func (OneBit) Claims(b Block) Claims {
	d := b.Len()
	c := Claims{Size: bits.SignLen(d), Exact: true, Homogeneous: true, Delta: 1 / float64(max(1, d))}
	if d > 0 {
		c.Size += 8
	}
	return c
}

// Witness is a single non-zero element.
func (OneBit) Witness(b Block) []float32 { return oneHot(b.Len()) }

// New makes a codec without state.
func (OneBit) New(b Block) (Codec, error) { return oneBit{b.Len()}, nil }

type oneBit struct{ d int }

func (c oneBit) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	checkLen(len(g), c.d)
	if c.d == 0 {
		return dst, nil
	}
	at, n := len(dst), 8+bits.SignLen(c.d)
	dst = slices.Grow(dst, n)[:at+n]
	abs, sum := codec.Signs(dst[at+8:], g)
	if !(abs <= math.MaxFloat64) {
		return dst[:at], ErrNotFinite
	}
	minus := bits.Ones(dst[at+8:])
	plus := c.d - minus
	// Twice the sums of magnitudes of the groups: Σ|g| + Σg and Σ|g| − Σg. Where one
	// group outweighs the other the difference cancels, and each is summed apart.
	above, below := abs+sum, abs-sum
	if plus > 0 && minus > 0 && min(above, below) < abs*0x1p-8 {
		above, below = apart(g)
	}
	formatF32.put(formatF32.put(dst[:at], mean(above, plus)), -mean(below, minus))
	return dst, nil
}

// mean is twice/(2n), 0 for n = 0.
func mean(twice float64, n int) float32 {
	if n == 0 {
		return 0
	}
	return float32(twice / 2 / float64(n))
}

// apart is twice the sums of the magnitudes of the elements of either sign.
func apart(g []float32) (above, below float64) {
	for _, v := range g {
		if v > 0 {
			above += 2 * float64(v)
		} else {
			below -= 2 * float64(v)
		}
	}
	return above, below
}

func (c oneBit) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.d)
	if c.d == 0 {
		if len(p) != 0 {
			return Corruptf("%d bytes, want 0", len(p))
		}
		return nil
	}
	if len(p) < 8 || !bits.SignsOK(p[8:], c.d) {
		return Corruptf("%d bytes, want %d", len(p), 8+bits.SignLen(c.d))
	}
	plus, minus := formatF32.get(p, 0), formatF32.get(p, 1)
	if !(plus >= 0 && plus <= math.MaxFloat32) || !(minus <= 0 && minus >= -math.MaxFloat32) {
		return Corruptf("means %v and %v", plus, minus)
	}
	f32.AddSigns(dst, scale*plus, scale*minus, p[8:])
	return nil
}
