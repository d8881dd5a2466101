package store

import (
	"testing"

	"github.com/gradlab/gradlab/experiments/figure"
)

// An axis of scores begins where most curves do, unless the target is not above that.
func TestAxisBeginsWhereMostCurvesDo(t *testing.T) {
	t.Parallel()
	curves := []figure.Series{{Y: []float64{0.1, 0.9}}, {Y: []float64{0.8, 0.97}}, {Y: []float64{0.82, 0.96}, Hi: []float64{0.83, 0.98}}}
	if from, to := began(curves, 0.9); from < 0.78 || from > 0.8 || to < 0.98 || to > 1 {
		t.Errorf("from %v to %v", from, to)
	}
	if from, to := began(curves, 0.8); from != 0 || to != 0 {
		t.Errorf("from %v to %v", from, to)
	}
	if from, to := began(nil, 0.8); from != 0 || to != 0 {
		t.Errorf("of nothing from %v to %v", from, to)
	}
}
