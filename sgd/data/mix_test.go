package data

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// flat is a store whose sample i has the value i everywhere.
type flat struct {
	n  int
	sh sgd.Shape
	mixes
}

type mixes struct{ m mixing }

func (f flat) mixing() mixing   { return f.m }
func (f flat) len() int         { return f.n }
func (f flat) form() sgd.Sample { return sgd.Sample{Shape: f.sh, Classes: f.n} }
func (f flat) read(i int, _ jitter, to Item) error {
	for k := range to.X {
		to.X[k] = float32(i)
	}
	to.Y[0] = int32(i)
	return nil
}

// Neighbours of an epoch are mixed with each other, and the share of a label is that
// of the values that are its sample's. The last of an odd number stays as it is, and
// so do all without augmentation.
func TestMixedSamplesHoldWhatTheirLabelsSay(t *testing.T) {
	t.Parallel()
	sh := sgd.Shape{C: 2, H: 9, W: 12}
	for name, m := range map[string]mixing{"mixup": {0.4, 0}, "cutmix": {0, 1}, "both": {0.3, 1}} {
		const n = 41
		src := dataset(flat{n, sh, mixes{m}}, flat{n, sh, mixes{}}, Options{Seed: 5, Augment: true}, false).Train
		blended, cut := 0, 0
		for e := range 5 {
			b := batch(t, src, uint64(e*n), n)
			for i := range n {
				own, other, share := float64(b.Y[i]), float64(b.Other[i]), float64(b.Share[i])
				if i == n-1 {
					if share != 1 || b.Other[i] != b.Y[i] {
						t.Errorf("%s: the last of an odd number is mixed", name)
					}
				} else if b.Other[i] != b.Y[i^1] || b.Share[i] != b.Share[i^1] || share < 0 || share > 1 {
					t.Fatalf("%s: sample %d is mixed with %d by %v, its neighbour is %d", name, i, b.Other[i], share, b.Y[i^1])
				}
				mean, pure := 0.0, true
				for _, v := range b.X[i*sh.Len() : (i+1)*sh.Len()] {
					mean += float64(v) / float64(sh.Len())
					pure = pure && (float64(v) == own || float64(v) == other)
				}
				if want := share*own + (1-share)*other; math.Abs(mean-want) > 1e-3 {
					t.Fatalf("%s: sample %d has the mean %v, its labels say %v", name, i, mean, want)
				}
				if pure {
					cut++
				} else {
					blended++
				}
			}
		}
		if name == "mixup" && cut > 30 || name == "cutmix" && blended > 0 || name == "both" && (cut < 40 || blended < 40) {
			t.Errorf("%s: %d blended, %d cut", name, blended, cut)
		}
	}
	plain := dataset(flat{8, sh, mixes{mixing{1, 1}}}, flat{8, sh, mixes{}}, Options{}, false)
	for _, s := range []sgd.Source{plain.Train, plain.Test} {
		if b := batch(t, s, 0, 8); len(b.Share) != 0 || len(b.Other) != 0 {
			t.Error("mixed without augmentation")
		}
	}
}

// Beta(a, a) has mean 1/2 and variance 1/(4(2a + 1)).
func TestBeta(t *testing.T) {
	t.Parallel()
	for _, a := range []float64{0.1, 0.2, 0.5, 1, 2, 4} {
		const n = 40000
		mean, square := 0.0, 0.0
		for i := range n {
			v := beta(rng.New(1, "beta").With(uint64(i)), a)
			mean += v / n
			square += v * v / n
		}
		if variance, want := square-mean*mean, 1/(4*(2*a+1)); math.Abs(mean-0.5) > 0.01 || math.Abs(variance-want) > 0.03*want {
			t.Errorf("Beta(%g, %g): mean %.4f, variance %.4f, want %.4f", a, a, mean, variance, want)
		}
	}
}
