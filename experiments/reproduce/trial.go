package reproduce

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/stats"
)

// trial is one configuration, repeated over seeds.
type trial struct {
	accuracy map[uint64]float64 // at the end, by seed
	runs     []*experiments.Result
}

// try makes a run for each of the seeds 1 … n.
func (l *Lab) try(ctx context.Context, name string, n int, keys ...string) (*trial, error) {
	t := &trial{accuracy: map[uint64]float64{}}
	for seed := range n {
		k := fmt.Sprintf("seed=%d", seed+1)
		r, err := l.run(ctx, name+","+k, append(keys[:len(keys):len(keys)], k)...)
		if err != nil {
			return nil, err
		}
		t.accuracy[uint64(seed+1)] = r.Accuracy
		t.runs = append(t.runs, r)
	}
	l.logf("%s: accuracy %s", name, t)
	return t, nil
}

// of summarises what value says of each run.
func (t *trial) of(value func(*experiments.Result) float64) stats.Summary {
	var x []float64
	for _, r := range t.runs {
		x = append(x, value(r))
	}
	return stats.Summarize(x)
}

func accuracyOf(r *experiments.Result) float64 { return r.Accuracy }

func (t *trial) mean() float64 { return t.of(accuracyOf).Mean }

// String words the mean accuracy and its 95 % interval.
func (t *trial) String() string {
	s := t.of(accuracyOf)
	return fmt.Sprintf("%.4f ± %.4f", s.Mean, s.Half)
}

// beats says whether t is more accurate than o on the same seeds, beyond the
// 95 % interval of the difference.
func (t *trial) beats(o *trial) bool {
	d := stats.Paired(o.accuracy, t.accuracy)
	return d.Mean-d.Half > 0
}
