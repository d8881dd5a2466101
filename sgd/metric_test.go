package sgd_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// A metric has a column of its own, which says which metric it is of.
func TestColumnsOfMetrics(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range append(sgd.KnownMetrics(), sgd.Metric{Name: "mae", Unit: "mm", LessIsBetter: true}, sgd.Metric{Name: "best_accuracy"}) {
		for _, c := range []string{m.Column(), m.BestColumn(), m.StepColumn()} {
			if seen[c] {
				t.Errorf("two columns %s", c)
			}
			seen[c] = true
		}
		if of, ok := sgd.MetricOf(m.Column()); !ok || of.Name != m.Name {
			t.Errorf("%s is the column of %+v", m.Column(), of)
		}
	}
	for _, column := range []string{"step", "mae", "metric.", "metric.a b", "seconds", ""} {
		if m, ok := sgd.MetricOf(column); ok {
			t.Errorf("%q is the column of %+v", column, m)
		}
	}
}

// Metrics that could not be told apart, or not be written, are refused.
func TestMetricsAreChecked(t *testing.T) {
	t.Parallel()
	mae := sgd.Metric{Name: "mae", LessIsBetter: true}
	if err := sgd.CheckMetrics([]sgd.Metric{sgd.Loss, mae, sgd.Accuracy}); err != nil {
		t.Error(err)
	}
	for want, all := range map[string][]sgd.Metric{
		"letters, digits": {{Name: "a/b"}}, `called ""`: {{}}, `not "first"`: {{Name: sgd.First}}, "no _step at the end": {{Name: "mae_step"}},
		"metric mae is there twice": {mae, sgd.Loss, mae}, "give yours another": {{Name: "loss"}}, "at most 64": make([]sgd.Metric, 65), "at most 16 bytes": {{Name: "x", Unit: strings.Repeat("m", 17)}},
		"that can be printed": {{Name: "x", Unit: "\n"}},
	} {
		if err := sgd.CheckMetrics(all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", all, err, want)
		}
	}
}

// Better goes by the direction, and NaN is never better.
func TestBetter(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, m := range []sgd.Metric{sgd.Accuracy, sgd.Loss} {
		if m.Better(2, 1) == m.LessIsBetter || m.Better(1, 2) != m.LessIsBetter || m.Better(1, 1) || m.Better(nan, 1) || m.Better(nan, nan) || !m.Better(1, nan) {
			t.Errorf("%s: the order is wrong", m.Name)
		}
	}
}

// The perplexity is that of the mean loss, and bits a byte go by the bytes of a token.
func TestFunctionsOfTheLoss(t *testing.T) {
	t.Parallel()
	of := sgd.Sample{Bytes: 4}
	if got := sgd.Perplexity.Of(math.Log(7)); math.Abs(got-7) > 1e-12 || sgd.Loss.Of(7) != 7 || sgd.Perplexity.LossFactor(of) != 1 {
		t.Errorf("perplexity %g", got)
	}
	if got := math.Log(256) * sgd.BitsPerByte.LossFactor(of); math.Abs(got-2) > 1e-12 || sgd.BitsPerByte.LossFactor(sgd.Sample{}) != 0 || sgd.Accuracy.LossFactor(of) != 0 {
		t.Errorf("%g bits a byte", got)
	}
}

// The standard error of a mean is that of the samples' values, whatever the batches were.
func TestErrorOfScores(t *testing.T) {
	t.Parallel()
	var s sgd.Score
	for _, x := range []float64{1, 2, 4, 5} {
		s.Add(sgd.Score{N: 1, Sums: []float64{x}, Squares: []float64{x * x}})
	}
	if got, want := s.Error(0), math.Sqrt(10./3/4); math.Abs(got-want) > 1e-12 {
		t.Errorf("%g, want %g", got, want)
	}
	if s.Add(sgd.Score{N: 1, Sums: []float64{3}}); s.Error(0) != 0 {
		t.Errorf("%g of squares that are not all known", s.Error(0))
	}
}

// Scores of batches add up to that of all their samples.
func TestScoresAddUp(t *testing.T) {
	t.Parallel()
	var s sgd.Score
	s.Add(sgd.Score{N: 1, Sums: []float64{1, 2}})
	s.Add(sgd.Score{N: 3, Sums: []float64{3, 4}})
	if s.N != 4 || s.Mean(0) != 1 || s.Mean(1) != 1.5 {
		t.Errorf("%+v", s)
	}
}
