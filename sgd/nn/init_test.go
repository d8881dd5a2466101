package nn

import (
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
)

// deviation is the root of the mean square of x.
func deviation(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return math.Sqrt(s / float64(len(x)))
}

// With init=goyal and zero_gamma=true every ResNet starts as Goyal et al. 2017
// have it: convolutions N(0, 2/(k²·out)), the classifier N(0, 0.01²), the last scale
// of every block 0, the others 1. With init=he it starts as it always did.
func TestGoyalInit(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("draws millions of weights")
	}
	blocks := map[string]int{"resnet20": 9, "resnet18": 8, "resnet18(stem=cifar)": 8, "resnet50": 16}
	for name, n := range blocks {
		with := func(options string) string {
			if front, ok := strings.CutSuffix(name, ")"); ok {
				return front + "," + options + ")"
			}
			return name + "(" + options + ")"
		}
		for _, laws := range []string{"he", "goyal"} {
			m, err := Models.MustParse(with("zero_gamma=true,init=" + laws)).New(sgd.Sample{Shape: sgd.Shape{C: 3, H: 32, W: 32}, Classes: 1000})
			if err != nil {
				t.Fatal(err)
			}
			layout := m.Layout()
			params := make([]float32, layout.Size())
			m.Init(params, 1)
			zeros, channels := 0, 3
			for i, s := range layout.Spans {
				x := layout.View(params, i)
				want := -1.0
				switch {
				case strings.HasPrefix(s.Name, "conv") && s.Role == sgd.Weight:
					side := map[int]float64{3 * 9: 3, 3 * 49: 7}[s.Cols]
					if side == 0 {
						if side = 3; s.Cols%9 != 0 {
							side = 1
						}
					}
					if want = math.Sqrt(2 / float64(s.Cols)); laws == "goyal" {
						want = math.Sqrt(2 / (side * side * float64(s.Rows)))
					}
					channels = s.Rows
				case strings.HasPrefix(s.Name, "dense") && s.Role == sgd.Weight:
					if want = math.Sqrt(6/float64(s.Rows+s.Cols)) / math.Sqrt(3); laws == "goyal" {
						want = 0.01
					}
				case strings.HasSuffix(s.Name, ".scale"):
					if want = 1; x[0] == 0 {
						want = 0
						zeros++
					}
				}
				if got := deviation(x); want >= 0 && math.Abs(got-want) > want*6/math.Sqrt(2*float64(len(x))) {
					t.Errorf("%s, init=%s: %s deviates by %.5f, want %.5f", name, laws, s.Name, got, want)
				}
			}
			if zeros != n || channels == 3 {
				t.Errorf("%s: %d scales start at 0, want %d", name, zeros, n)
			}
		}
		// Spec text and first weights of what was there before are as they were.
		if got := Models.Spec(Models.MustParse(name)); got != name {
			t.Errorf("%s prints as %s", name, got)
		}
		if _, err := Models.Parse(with("init=xavier")); err == nil || !strings.Contains(err.Error(), "he or goyal") {
			t.Errorf("%s(init=xavier): %v", name, err)
		}
	}
	for _, name := range []string{"resnet18", "resnet50"} {
		if _, err := Models.Parse(name + "(stem=mnist)"); err == nil || !strings.Contains(err.Error(), "imagenet or cifar") {
			t.Errorf("%s(stem=mnist): %v", name, err)
		}
		if got := Models.Spec(Models.MustParse(name + "(stem=imagenet)")); got != name {
			t.Errorf("%s with the stem it had prints as %s", name, got)
		}
	}
}
