package store

import (
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// measuring are runs of a model with a metric of its own, whose best values these are.
func measuring(m sgd.Metric, best ...float64) []*Run {
	var seeds []uint64
	for i := range best {
		seeds = append(seeds, uint64(i+1))
	}
	runs := seeded(seeds...)
	for i, r := range runs {
		res := *r.Result
		r.Metrics, r.Result = []sgd.Metric{m, sgd.Loss}, &res
		res.Metrics, res.Values, res.Best = r.Metrics, record.Values{m.Name: best[i]}, record.Bests{m.Name: {Value: best[i], Step: 1}}
	}
	return runs
}

// What runs are compared by and are to reach goes by their metrics: the first one unless they
// say another, a share of the best in its direction, and none that they do not have.
func TestTargetsGoByMetric(t *testing.T) {
	t.Parallel()
	less, more := sgd.Metric{Name: "err", Unit: "mm", LessIsBetter: true}, sgd.Metric{Name: "gain"}
	for _, c := range []struct {
		m    sgd.Metric
		of   float64
		want float64
	}{{less, 1.5, 3}, {more, 0.5, 4}} {
		runs := measuring(c.m, 4, 2, 8)
		if got := CommonTarget(runs); got != (record.Goal{Metric: c.m}) {
			t.Errorf("%s: compared by %+v", c.m.Name, got)
		}
		got, err := TargetOf(record.Goal{OfBest: true, Value: c.of}, runs)
		if err != nil || got != (record.Goal{Metric: c.m, Value: c.want}) {
			t.Errorf("%s: %+v, %v", c.m.Name, got, err)
		}
		for _, r := range runs {
			r.Config.Target = record.Goal{OfBest: true, Value: c.of}
		}
		if got := CommonTarget(runs); got.Value != c.want || got.OfBest {
			t.Errorf("%s: of the runs %+v", c.m.Name, got)
		}
		for _, wrong := range []record.Goal{{Metric: sgd.Accuracy, Value: 0.5}, {Metric: sgd.Metric{Name: c.m.Name, LessIsBetter: !c.m.LessIsBetter}, Value: 1}} {
			if _, err := TargetOf(wrong, runs); err == nil || !strings.Contains(err.Error(), c.m.Name) {
				t.Errorf("%s: %v", wrong, err)
			}
		}
		if s := table(t, runs); !strings.Contains(s, "last "+c.m.Name) || !strings.Contains(s, c.m.Best()) {
			t.Error(s)
		}
		f := fieldNamed(t, c.m.BestColumn())
		if got := Groups(runs)[0].Summary(f); got.Max != 8 || got.Min != 2 || fieldNamed(t, c.m.StepColumn()).Value(runs[0]) != uint64(1) {
			t.Errorf("%s: %+v", f.Name, got)
		}
	}
	// Runs with different metrics are compared by the first one that all have.
	mixed := append(measuring(less, 1), measuring(more, 1)...)
	if got := CommonTarget(mixed); got != (record.Goal{Metric: sgd.Loss}) {
		t.Errorf("mixed: %+v", got)
	}
}
