package train_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
)

func micros(n int) option { return func(j *train.Job) { j.Accumulate = n } }

// sampled is a model that notes how many samples its passes were of.
type sampled struct {
	sgd.Model
	mu   *sync.Mutex
	seen map[int]bool
}

func (m sampled) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	m.mu.Lock()
	m.seen[b.N] = true
	m.mu.Unlock()
	return m.Model.Grad(ctx, p, b)
}

// Micro-batches sum to the batch: on every synchronous road, and under overlap, the
// run comes to what it comes to without, up to rounding, and no pass is larger than a
// micro-batch. Its bits are the same on the virtual cluster and on real clocks.
func TestAccumulate(t *testing.T) {
	t.Parallel()
	few := func(j *train.Job) { j.Updates = 40 }
	for _, name := range []string{"server, 3 shards", "server, parts", "ring", "ring, overlap", "gather"} {
		t.Run(name, func(t *testing.T) {
			opts := append(slices.Clone(roads[name]), few)
			whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
			for _, n := range []int{2, 3, 8} {
				seen := map[int]bool{}
				note := func(j *train.Job) { j.Model = sampled{j.Model, &sync.Mutex{}, seen} }
				o, _ := runOn(t, simulated(0), job(t, append(opts, micros(n), note)...), nil)
				if d := distance(whole.Params, o.Params); d > 1e-5 || d == 0 && n == 3 {
					t.Errorf("accumulate=%d: relative distance to the whole batch is %g", n, d)
				}
				for size := range seen {
					if size < 8/n || size > (8+n-1)/n {
						t.Errorf("accumulate=%d: a pass of %d samples", n, size)
					}
				}
				l, _ := runOn(t, &local.Net{}, job(t, append(opts, micros(n))...), nil)
				if l.SHA256 != o.SHA256 {
					t.Errorf("accumulate=%d: sim and local differ in their bits", n)
				}
			}
		})
	}
}

// Overlap changes when things happen and not what they come to, also of micro-batches.
func TestAccumulateOverlaps(t *testing.T) {
	t.Parallel()
	few := func(j *train.Job) { j.Updates = 20 }
	for _, plain := range [][]option{{mode("gather")}, {}} {
		a, _ := runOn(t, simulated(0), job(t, append(slices.Clone(plain), few, micros(4))...), nil)
		b, _ := runOn(t, simulated(0), job(t, append(slices.Clone(plain), few, micros(4), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} })...), nil)
		if a.SHA256 != b.SHA256 {
			t.Error("with overlap the bits are others")
		}
	}
}

// A worker with micro-batches is as many workers with a batch each to a batch norm,
// whatever is ghost in a micro-batch.
func TestAccumulateNorms(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	shape := sgd.Shape{C: 3, H: 8, W: 8}
	for _, ghost := range []int{0, 2} {
		net, err := nn.New(sgd.Sample{Shape: shape, Classes: 10}, 0, nn.Conv{Out: 6, Kernel: 3, Pad: 1}, nn.BatchNorm{Ghost: ghost}, nn.ReLU{}, nn.GlobalAvgPool{}, nn.Dense{Out: 10})
		if err != nil {
			t.Fatal(err)
		}
		opts := []option{mode("reduce"), func(j *train.Job) {
			j.Model, j.Updates = net, 12
			j.Data = sgd.Dataset{Train: clusters{1000, shape, 3, false}, Test: clusters{50, shape, 3, true}}
		}}
		on := func(workers, batch, n int, more ...option) *train.Observer {
			o, _ := runOn(t, simulated(0), job(t, append(slices.Concat(opts, more), func(j *train.Job) {
				j.Workers, j.Batch, j.Accumulate = workers, batch, n
			})...), nil)
			return o
		}
		four, one := on(4, 8, 1), on(1, 32, 4)
		if d := distance(four.Params, one.Params); d > 1e-5 {
			t.Errorf("ghost=%d: four workers and four micro-batches are %g apart", ghost, d)
		}
		if d := distance(four.Params, on(1, 32, 1).Params); (d > 1e-3) != (ghost == 0) {
			t.Errorf("ghost=%d: the whole batch is %g apart", ghost, d)
		}
	}
}

// A pass of micro-batches takes as long as one of all samples. With overlap gradients
// leave in the backward pass of the last one alone.
func TestAccumulateTakesAsLong(t *testing.T) {
	t.Parallel()
	const updates = 6
	end := func(opts ...option) time.Duration {
		o, _ := runOn(t, simulated(0), job(t, append(opts, func(j *train.Job) {
			j.Updates, j.Timing.Law, j.Timing.FLOPS = updates, nil, 1e6
		})...), nil)
		last := 0.0
		for _, r := range o.Reports {
			last = max(last, r.Seconds)
		}
		return time.Duration(last * 1e9)
	}
	for _, m := range []string{"reduce", "server"} {
		if a, b := end(mode(m)), end(mode(m), micros(8)); a != b {
			t.Errorf("mode %s without overlap: %v at once, %v in micro-batches", m, a, b)
		}
	}
	lapped := func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 400} }
	none, all, parts := end(mode("reduce")), end(mode("reduce"), lapped), end(mode("reduce"), lapped, micros(8))
	if !(all <= parts && parts <= none && all < none) {
		t.Errorf("reduce takes %v, with overlap %v, of micro-batches %v", none, all, parts)
	}
}

// A run that goes on from a checkpoint ends as one that was not stopped; and what
// cannot be cut is refused.
func TestAccumulateResumes(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for _, opts := range [][]option{{mode("reduce")}, {}, {policy("asp"), with("feedback(topk(keep=0.2))")}} {
		resumes(t, 1, append(opts, micros(3), func(j *train.Job) { j.Updates, j.CheckpointEvery = 24, 5 })...)
	}
	for _, n := range []int{-1, 9} {
		if err := unchecked(micros(n)).Check(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("accumulate=%d", n)) {
			t.Errorf("accumulate=%d of 8 samples: %v", n, err)
		}
	}
}
