package train_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// point is where a worker took the gradient of a step: a mark of the parameters.
type point struct {
	worker, step int
	params       [sha256.Size]byte
}

func markOf(params []float32) [sha256.Size]byte { return sha256.Sum256(f32.AppendBytes(nil, params)) }

// pointing is a model that notes the points of its gradients. Batches tell worker and
// step.
type pointing struct {
	sgd.Model
	workers, batch int
	mu             *sync.Mutex
	points         *[]point
}

func (m pointing) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	at := int(b.First) / m.batch
	m.mu.Lock()
	*m.points = append(*m.points, point{at % m.workers, at / m.workers, markOf(p.Params)})
	m.mu.Unlock()
	return m.Model.Grad(ctx, p, b)
}

// guarded is a net on which a program that panics ends with an error.
type guarded struct{ comm.Net }

func guard(p comm.Program) comm.Program {
	return func(ctx context.Context, h comm.Host) (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %v", r)
			}
		}()
		return p(ctx, guardedHost{h})
	}
}

func (g guarded) Run(ctx context.Context, programs []comm.Program) error {
	var safe []comm.Program
	for _, p := range programs {
		safe = append(safe, guard(p))
	}
	return g.Net.Run(ctx, safe)
}

type guardedHost struct{ comm.Host }

func (h guardedHost) Go(name string, p comm.Program) { h.Host.Go(name, guard(p)) }

// trial is a run of a mode on the virtual cluster, and all that was seen of it.
type trial struct {
	job     *train.Job
	traits  train.Traits
	obs     *train.Observer
	last    *train.State
	reports map[int]train.RankReport
	events  []event
	points  []point
}

// fit is a job of the mode: ways are tried in turn, of which it takes one at least.
func fit(m train.Mode, opts ...option) (*train.Job, error) {
	var errs []error
	for _, p := range []string{"bsp", "asp"} {
		for _, g := range []string{"ring", "one_peer"} {
			j := unchecked(append([]option{optimizer("sgd"), policy(p), graph(g), func(j *train.Job) { j.Mode = m }}, opts...)...)
			err := j.Check()
			if err == nil {
				return j, nil
			}
			errs = append(errs, err)
		}
	}
	return nil, errors.Join(errs...)
}

// rounds is an option: so many updates if everybody has a part in each, as many for
// each worker otherwise.
func rounds(n int) option {
	return func(j *train.Job) {
		if j.Updates = n; j.PerUpdate() < j.Workers {
			j.Updates *= j.Workers
		}
	}
}

// try runs a job on a net; nil is the virtual cluster of other tests.
func try(j *train.Job, net comm.Net, from *train.State) (*trial, error) {
	if net == nil {
		net = simulated(0)
	}
	r := &trial{job: j, traits: j.Mode.Traits(j), reports: map[int]train.RankReport{}}
	j.Model = pointing{j.Model, j.Workers, j.Batch, new(sync.Mutex), &r.points}
	j.Prepare()
	s := &sink{}
	r.obs = &train.Observer{Job: j, Sink: s, Start: from}
	programs, err := safely(func() ([]comm.Program, error) { return j.Programs(r.obs) })
	if err != nil {
		return nil, err
	}
	net = guarded{net}
	t := &tape{Net: net}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := t.Run(ctx, programs); err != nil {
		return nil, err
	}
	for _, rep := range r.obs.Reports {
		r.reports[rep.Rank] = rep
	}
	r.events, r.last = t.events, s.last
	return r, nil
}

// safely calls f, a panic of which is an error.
func safely[T any](f func() (T, error)) (out T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f()
}

// tried is fit and try.
func tried(m train.Mode, opts ...option) (*trial, error) {
	j, err := safely(func() (*train.Job, error) { return fit(m, append([]option{rounds(12)}, opts...)...) })
	if err != nil {
		return nil, err
	}
	return try(j, nil, nil)
}

// passes counts the gradients that each worker took.
func (r *trial) passes() (each []int, sum int) {
	each = make([]int, r.job.Workers)
	for _, e := range r.events {
		if e.deed == computes && e.rank < r.job.Workers {
			each[e.rank]++
			sum++
		}
	}
	return each, sum
}

// sent lists the frames that look picks among those sent.
func (r *trial) sent(look func(event) bool) (out []event) {
	for _, e := range r.events {
		if e.deed == sends && look(e) {
			out = append(out, e)
		}
	}
	return out
}

// dying is the virtual cluster on which a worker dies at an instant.
func dying(rank int, at float64) comm.Net {
	n := simulated(0).(*sim.Net)
	n.Deaths = []sim.Death{{Rank: rank, At: time.Duration(at * 1e9)}}
	return n
}

var errTrait = errors.New("claims")

// unkept is the error of a claim that is not kept, or of one that is missing.
func unkept(format string, a ...any) error {
	return fmt.Errorf("%w "+format, append([]any{errTrait}, a...)...)
}
