package reproduce

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// sample is one configuration and its runs over seeds. The group is there once
// the runs have been made.
type sample struct {
	name string
	*store.Group
}

// plan is a set of configurations, each over the same seeds, that are run
// together: as many runs at once as there are cores.
type plan struct {
	lab     *Lab
	first   int // seed
	seeds   int
	samples []*sample
	keys    [][]string // of each sample
}

// plan begins an empty one, with seeds 1 … n.
func (l *Lab) plan(n int) *plan { return &plan{lab: l, first: 1, seeds: n} }

// add enters a configuration. The sample is there once the plan has been made.
func (p *plan) add(name string, keys ...string) *sample {
	s := &sample{name: name}
	p.samples, p.keys = append(p.samples, s), append(p.keys, keys)
	return s
}

// make runs everything. After an error no more runs begin, and those under way
// come to their end, or to their checkpoint if that is what was asked for.
func (p *plan) make(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	var failed atomic.Bool
	made := make([][]*experiments.Result, len(p.samples))
	for i, s := range p.samples {
		made[i] = make([]*experiments.Result, p.seeds)
		for k := range p.seeds {
			seed := p.first + k
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
				p.lab.logf("%s: accuracy %.4f", label, r.Values["accuracy"])
				made[i][k] = r
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, s := range p.samples {
		if err := s.group(made[i]); err != nil {
			return err
		}
	}
	return nil
}

// group makes one group of results over seeds.
func (s *sample) group(results []*experiments.Result) error {
	runs, err := store.Made(results)
	if err != nil {
		return err
	}
	groups := store.Groups(runs)
	if len(groups) != 1 || len(groups[0].Runs) != len(results) {
		return fmt.Errorf("%s: %d runs are not one configuration over as many seeds", s.name, len(results))
	}
	s.Group = groups[0]
	return nil
}

// seeds makes one configuration with seeds 1 … n.
func (l *Lab) seeds(ctx context.Context, n int, name string, keys ...string) (*sample, error) {
	p := l.plan(n)
	s := p.add(name, keys...)
	return s, p.make(ctx)
}

// percent is the test accuracy at the end.
var percent = store.FieldOf("accuracy in per cent", store.Number, func(r *experiments.Result) float64 { return 100 * r.Values["accuracy"] })

// accuracy is the test accuracy at the end, in per cent.
func (s *sample) accuracy() stats.Summary { return s.Summary(percent) }

// bySeed is the test accuracy at the end in per cent, by seed.
func (s *sample) bySeed() map[uint64]float64 { return s.BySeed(percent) }

// of describes what f says of the results.
func (s *sample) of(f func(*experiments.Result) float64) stats.Summary {
	return s.Summary(store.FieldOf("", store.Number, f))
}

// first is the result of the first seed.
func (s *sample) first() *experiments.Result { return s.Runs[0].Result }

// plusMinus writes a mean with its 95 % interval.
func plusMinus(s stats.Summary) string {
	if s.N < 2 {
		return fmt.Sprintf("%.2f", s.Mean)
	}
	return fmt.Sprintf("%.2f ± %.2f", s.Mean, s.Half)
}

// curve is the mean test accuracy in per cent over seeds, against the virtual
// clock.
func (s *sample) curve() (x, y []float64, err error) {
	c, err := s.Curve(func(_ *store.Run, e record.Eval) float64 { return e.Seconds }, record.Goal{Metric: sgd.Accuracy})
	for i := range c.Y {
		c.Y[i] *= 100
	}
	return c.X, c.Y, err
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
