package reproduce

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/stats"
)

// sample is one configuration over seeds.
type sample struct {
	name string
	runs []*experiments.Result
}

// seeds makes one configuration with seeds 1 … n.
func (l *Lab) seeds(ctx context.Context, n int, name string, keys ...string) (*sample, error) {
	s := &sample{name: name}
	for seed := 1; seed <= n; seed++ {
		label := fmt.Sprintf("%s, seed %d", name, seed)
		r, err := l.run(ctx, label, append(slices.Clone(keys), fmt.Sprintf("seed=%d", seed))...)
		if err != nil {
			return nil, err
		}
		l.logf("%s: accuracy %.4f", label, r.Accuracy)
		s.runs = append(s.runs, r)
	}
	return s, nil
}

// accuracy is the test accuracy at the end, in per cent.
func (s *sample) accuracy() stats.Summary {
	return s.of(func(r *experiments.Result) float64 { return 100 * r.Accuracy })
}

func (s *sample) of(f func(*experiments.Result) float64) stats.Summary {
	var x []float64
	for _, r := range s.runs {
		x = append(x, f(r))
	}
	return stats.Summarize(x)
}

// bySeed is the test accuracy at the end in per cent, by seed.
func (s *sample) bySeed() map[uint64]float64 {
	m := map[uint64]float64{}
	for i, r := range s.runs {
		m[uint64(i+1)] = 100 * r.Accuracy
	}
	return m
}

// reach is how long it took to a test accuracy on the virtual clock; never is
// +Inf.
func (s *sample) reach(target float64) stats.Reach {
	var x []float64
	for _, r := range s.runs {
		at := math.Inf(1)
		for _, e := range r.Evals {
			if e.Accuracy >= target {
				at = e.Seconds
				break
			}
		}
		x = append(x, at)
	}
	return stats.Reaching(x)
}

// plusMinus writes a mean with its 95 % interval.
func plusMinus(s stats.Summary) string {
	if s.N < 2 {
		return fmt.Sprintf("%.2f", s.Mean)
	}
	return fmt.Sprintf("%.2f ± %.2f", s.Mean, s.Half)
}

// curve is the mean test accuracy over seeds against the virtual clock, at the
// evaluations that all seeds have.
func (s *sample) curve() (x, y []float64) {
	for i := 0; ; i++ {
		sum, at := 0.0, 0.0
		for _, r := range s.runs {
			if i >= len(r.Evals) {
				return x, y
			}
			sum += r.Evals[i].Accuracy
			at += r.Evals[i].Seconds
		}
		x, y = append(x, at/float64(len(s.runs))), append(y, 100*sum/float64(len(s.runs)))
	}
}
