package config

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// A plateau is five evaluations without a better value, in the direction of the metric; what
// is not finite is no better one.
func TestPlateauByDirection(t *testing.T) {
	t.Parallel()
	for _, m := range []sgd.Metric{mae, margin} {
		sign := 1.0
		if m.LessIsBetter {
			sign = -1
		}
		c := Default()
		c.Until = UntilPlateau
		settled := func(values ...float64) bool {
			var evals []record.Eval
			for _, x := range values {
				v, err := record.NewValues([]sgd.Metric{m}, sgd.Score{N: 2, Sums: []float64{2 * sign * x}})
				if err != nil {
					t.Fatal(err)
				}
				evals = append(evals, record.Eval{Values: v})
			}
			return c.IsSettled(record.Goal{Metric: m}, evals)
		}
		inf := math.Inf(1)
		if settled(1, 2, 3, 3, 3, 2) || settled(1, 2, 3, 3, 3, 3, 3, 4) || settled() || !settled(1, 3, 3, 3, 3, 3, 3) || !settled(3, inf, -inf, math.NaN(), inf, 2) {
			t.Errorf("%s: a plateau is found where none is, or not where one is", m.Name)
		}
	}
}
