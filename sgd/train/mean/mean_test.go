package mean_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/mean"
	"github.com/gradlab/gradlab/sgd/train/traintest"
)

// asking is a mode whose workers ask their Means once, by ask.
type asking struct {
	replicas
	options mean.Options
	ask     func(ctx context.Context, r *train.Rank, m *mean.Mean, size int) error
}

func (a asking) Check(*train.Job) error { return nil }

func (a asking) Part(r *train.Rank) (train.Part, error) {
	peer, err := train.NewPeer(r, compress.Raw{})
	if err != nil {
		return nil, err
	}
	m, err := mean.New(r, a.options)
	if err != nil {
		return nil, err
	}
	return peer.Part(&asked{replica{peer, m}, a}), nil
}

type asked struct {
	replica
	mode asking
}

func (a *asked) Move(ctx context.Context) error {
	if err := a.Gradient(ctx, a.X.F()); err != nil {
		return err
	}
	return a.mode.ask(ctx, a.Rank, a.mean, len(a.X.F()))
}

// run makes one step of a mode, with changes to its job.
func run(t *testing.T, m asking, with ...func(*train.Job)) error {
	t.Helper()
	j, err := traintest.World(m)
	if err != nil {
		t.Fatal(err)
	}
	j.Updates = 1
	for _, change := range with {
		change(j)
	}
	j.Prepare()
	programs, err := j.Programs(&train.Observer{Job: j, Sink: deaf{}})
	if err != nil {
		return err
	}
	return (&sim.Net{Network: &sim.Fair{Bandwidth: 1e8, Latency: time.Microsecond}}).Run(t.Context(), programs)
}

// What is averaged is one bucket, by its own formula; the rest of the vector stays, and
// buckets are the whole vector.
func TestAverageIsOfOneBucket(t *testing.T) {
	t.Parallel()
	for _, gather := range []bool{false, true} {
		err := run(t, asking{options: mean.Options{Gather: gather, Bytes: 1}, ask: func(ctx context.Context, r *train.Rank, m *mean.Mean, size int) error {
			all := 0
			for k := range m.Buckets() {
				all += m.Range(k).Hi - m.Range(k).Lo
			}
			if m.Buckets() != 4 || all != size {
				return fmt.Errorf("%d buckets of %d values in all, want 4 of %d", m.Buckets(), all, size)
			}
			at := m.Range(2)
			x, want := make([]float32, size), make([]float32, size)
			w := r.Job().Workers
			for i := range x {
				x[i] = float32((r.ID() + 1) * (i + 1)) // sums of whole numbers are exact
				if want[i] = x[i]; i >= at.Lo && i < at.Hi {
					want[i] = float32(w*(w+1)/2*(i+1)) * (1 / float32(w))
				}
			}
			if _, err := m.Average(ctx, 2, x, 1, 0); err != nil {
				return err
			}
			if !slices.Equal(x, want) {
				return fmt.Errorf("worker %d: %v, want %v", r.ID(), x, want)
			}
			return nil
		}})
		if err != nil {
			t.Errorf("gather %v: %v", gather, err)
		}
	}
}

func TestMeanRefuses(t *testing.T) {
	t.Parallel()
	average := func(k, less, steps int) asking {
		return asking{ask: func(ctx context.Context, _ *train.Rank, m *mean.Mean, size int) error {
			_, err := m.Average(ctx, k, make([]float32, size-less), steps, 0)
			return err
		}}
	}
	bare := func(j *train.Job) { j.Topology = nil }
	for want, c := range map[string]struct {
		mode asking
		with []func(*train.Job)
	}{
		"bucket 1 of 1":                       {mode: average(1, 0, 1)},
		"bucket -1 of 1":                      {mode: average(-1, 0, 1)},
		"and the model has":                   {mode: average(0, 1, 1)},
		"stands for 0 steps":                  {mode: average(0, 0, 0)},
		"buckets of -4 bytes, want 0 or more": {mode: asking{options: mean.Options{Bytes: -4}}},
		"the job has none":                    {mode: average(0, 0, 1), with: []func(*train.Job){bare}},
	} {
		if err := run(t, c.mode, c.with...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	free := average(0, 0, 1)
	free.options.Gather = true
	if err := run(t, free, bare); err != nil {
		t.Errorf("gathered, without a topology: %v", err)
	}
}
