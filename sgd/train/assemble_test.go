package train_test

import (
	"context"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// wherefrom is a model that notes where the parameters lie that passes read in
// each step of so many samples.
type wherefrom struct {
	sgd.Model
	samples uint64
	mu      *sync.Mutex
	seen    map[place]bool
}

type place struct {
	step uint64
	at   *float32
}

func (m wherefrom) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	m.mu.Lock()
	m.seen[place{b.First / m.samples, &p.Params[0]}] = true
	m.mu.Unlock()
	return m.Model.Grad(ctx, p, b)
}

// Workers who compute on the same versions read the same memory, however these
// came to them, and the bits are those of workers with parameters of their own.
func TestWorkersShareParameters(t *testing.T) {
	t.Parallel()
	const workers = 12
	shards := func(j *train.Job) { j.Servers = 3 }
	overlap := func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 256} }
	for name, opts := range map[string][]option{
		"one shard":           nil,
		"shards":              {shards},
		"shards, asp":         {shards, policy("asp")},
		"shards, ksync":       {shards, policy("ksync(k=3)")},
		"overlap":             {overlap},
		"shards, overlap":     {shards, overlap},
		"fp16":                {down("fp16")},
		"barrier":             {shards, mode("server(barrier=true)")},
		"downpour":            {mode("downpour"), policy("softsync(n=12)")},
		"downpour, shards":    {mode("downpour"), policy("softsync(n=12)"), shards},
		"downpour, fetch 3":   {mode("downpour(n_fetch=3)"), policy("asp")},
		"downpour, 2 shards":  {mode("downpour(n_fetch=4,n_push=2)"), policy("asp"), func(j *train.Job) { j.Servers = 2 }},
		"downpour, alongside": {mode("downpour(n_fetch=2)"), policy("asp"), shards, func(j *train.Job) { j.Overlap = train.Buckets{} }},
	} {
		t.Run(name, func(t *testing.T) {
			var hashes [3]string
			for i := range hashes {
				m := wherefrom{mu: new(sync.Mutex), seen: map[place]bool{}}
				j := job(t, append(opts, func(j *train.Job) {
					j.Workers, j.Updates, j.Timing.Law = workers, 20, nil
					if i == 1 {
						j.Here = 1 // as if all were processes of their own
					}
					m.Model, m.samples = j.Model, uint64(j.Workers*j.Batch)
					j.Model = m
				})...)
				o, _ := runOn(t, &sim.Net{Cores: []int{2, 2, 1}[i]}, j, nil)
				hashes[i] = o.SHA256
				if i == 0 && j.Policy.Traits(workers).Synchronous && len(m.seen) > j.Updates {
					t.Errorf("in %d steps %d workers read parameters at %d places", j.Updates, workers, len(m.seen))
				}
			}
			if hashes[0] != hashes[1] {
				t.Errorf("with shared parameters the bits differ: %s, %s", hashes[0], hashes[1])
			}
			if hashes[0] != hashes[2] {
				t.Errorf("on two cores the bits differ: %s, %s", hashes[0], hashes[2])
			}
		})
	}
}

// whither is a model that notes where gradients and parameters lie.
type whither struct {
	sgd.Model
	batch, workers int
	grads          map[[2]int]*float32 // by worker and step
	there          *int                // passes over parameters that lie where the worker's last gradient did
}

func (m whither) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	at := int(b.First) / m.batch
	worker, step := at%m.workers, at/m.workers
	m.grads[[2]int{worker, step}] = &p.Grad[0]
	if &p.Params[0] == m.grads[[2]int{worker, step - 1}] {
		*m.there++
	}
	return m.Model.Grad(ctx, p, b)
}

// Servers without a barrier make the next parameters in the memory of a gradient, several
// servers each in its part of it, and its worker reads them there.
func TestParametersInTheGradientsPlace(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{
		"one shard":       nil,
		"shards":          {func(j *train.Job) { j.Servers = 3 }},
		"shards, overlap": {func(j *train.Job) { j.Servers, j.Overlap = 3, train.Buckets{} }},
	} {
		t.Run(name, func(t *testing.T) {
			m := whither{grads: map[[2]int]*float32{}, there: new(int)}
			j := job(t, append(opts, policy("asp"), func(j *train.Job) {
				j.Workers, j.Updates = 4, 40
				m.Model, m.batch, m.workers = j.Model, j.Batch, j.Workers
				j.Model = m
			})...)
			runOn(t, &sim.Net{Cores: 1}, j, nil)
			if want := j.Updates - j.Workers; *m.there < want/2 || len(m.grads) < j.Updates {
				t.Errorf("%d of %d passes read parameters where the gradient before had been, want most of %d", *m.there, len(m.grads), want)
			}
		})
	}
}
