package compress_test

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/compress"
)

// What several memories keep is told together: of a sum that is being made and the feedback
// inside, or of the codecs of slices.
func TestResidualNormOfSeveral(t *testing.T) {
	c, err := compress.Families.MustParse("accumulate(feedback(topk(keep=0.25)),every=2)").New(on(4))
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []float64{math.Sqrt(30), math.Sqrt(4 + 16 + 36), math.Sqrt(4 + 16 + 36 + 30), math.Sqrt(16 + 64 + 64)} {
		if _, err := c.Append(nil, []float32{1, 2, 3, 4}, compress.Step{N: n}); err != nil {
			t.Fatal(err)
		}
		if got := compress.ResidualNorm(c); math.Abs(got-want) > 1e-6 {
			t.Errorf("after %d gradients: residual %v, want %v", n+1, got, want)
		}
	}
	if got := compress.ResidualNorm(1); got != 0 {
		t.Errorf("what keeps nothing has a residual of %v", got)
	}
}
