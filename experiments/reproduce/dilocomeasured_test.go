package reproduce

import (
	"context"
	"math"
	"testing"

	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
)

// The file is read, what is fitted is what fit says, and a round is h steps and a ring.
func TestDiLoCoMeasured(t *testing.T) {
	t.Parallel()
	points, err := readDiLoCo([]int{50, 1000})
	if err != nil {
		t.Fatal(err)
	}
	fitted := 0
	for _, p := range points {
		if !(p.alone > 0.024 && p.alone < 0.028 && p.round > 0) {
			t.Errorf("%s: a step alone takes %g s, a round %g", p.name(), p.alone, p.round)
		}
		if p.fitted {
			fitted++
		}
	}
	if len(points) != 36 || fitted != 2 {
		t.Fatalf("%d points, %d fitted; want 36 and 2", len(points), fitted)
	}
	p := dilocoPoint{algorithm: "diloco", h: 8, link: 1000, alone: 0.025}
	c, err := DiLoCoMeasured{}.config(&Lab{}, p, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range [][2]string{{"constants.overhead", "0"}, {"device.law.sigma", "0"}, {"constants.step", "0s"}, {"network.latency", "0s"}} {
		if err := c.Set(kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ask.Blended(t.Context(), c, func(ctx context.Context, c config.Config) (float64, error) { return dilocoRound(ctx, c, p.h) })
	const ring = 2. * 3 / 4 * 4 * 30846720 / (0.5 * 125e6)
	if want := 8*0.025 + ring; err != nil || math.Abs(got/want-1) > 0.001 {
		t.Errorf("a round takes %g s, want %g: %v", got, want, err)
	}
	for _, bad := range [][]int{nil, {7}, {1000, 200}, {50, 200, 1000}} {
		if (DiLoCoMeasured{Fit: bad}).Validate() == nil {
			t.Errorf("fit=%v is taken", bad)
		}
	}
}
