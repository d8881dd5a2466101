package reproduce

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/stats"
)

// sample is one configuration over seeds.
type sample struct {
	name string
	runs []*experiments.Result // by seed, from 1 on
}

// plan is a set of configurations, each over the same seeds, that are run
// together: as many runs at once as there are cores.
type plan struct {
	lab     *Lab
	seeds   int
	samples []*sample
	keys    [][]string
}

// plan begins an empty one, with seeds 1 … n.
func (l *Lab) plan(n int) *plan { return &plan{lab: l, seeds: n} }

// add enters a configuration. The sample is there once the plan has been made.
func (p *plan) add(name string, keys ...string) *sample {
	s := &sample{name: name, runs: make([]*experiments.Result, p.seeds)}
	p.samples, p.keys = append(p.samples, s), append(p.keys, keys)
	return s
}

// make runs everything. After an error no more runs begin, and those under way
// come to their end, or to their checkpoint if that is what was asked for.
func (p *plan) make(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	var failed atomic.Bool
	for i, s := range p.samples {
		for seed := 1; seed <= p.seeds; seed++ {
			group.Go(func() error {
				if failed.Load() {
					return nil
				}
				label := fmt.Sprintf("%s, seed %d", s.name, seed)
				r, err := p.lab.run(ctx, label, append(slices.Clone(p.keys[i]), fmt.Sprintf("seed=%d", seed))...)
				if err != nil {
					failed.Store(true)
					return err
				}
				p.lab.logf("%s: accuracy %.4f", label, r.Accuracy)
				s.runs[seed-1] = r
				return nil
			})
		}
	}
	return group.Wait()
}

// seeds makes one configuration with seeds 1 … n.
func (l *Lab) seeds(ctx context.Context, n int, name string, keys ...string) (*sample, error) {
	p := l.plan(n)
	s := p.add(name, keys...)
	return s, p.make(ctx)
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

// mean is the mean test accuracy at the end, as a fraction.
func (s *sample) mean() float64 { return s.accuracy().Mean / 100 }

// String words the mean accuracy, as a fraction, and its 95 % interval.
func (s *sample) String() string {
	a := s.accuracy()
	return fmt.Sprintf("%.4f ± %.4f", a.Mean/100, a.Half/100)
}

// beats says whether s is more accurate than o on the same seeds, beyond the
// 95 % interval of the difference.
func (s *sample) beats(o *sample) bool {
	d := stats.Paired(o.bySeed(), s.bySeed())
	return d.Mean-d.Half > 0
}
