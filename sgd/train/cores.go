package train

import (
	"sync"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// cores is what the ranks of a process share.
type cores struct {
	gate    *compute.Gate
	task    compute.Task
	latest  assembly
	tariffs map[bill]*wire.Tariff // guarded by mu

	shelf   *shelf // see Shared
	lasting *shelf // see Lasting
	first   *Job   // what is on it is made for

	mu    sync.Mutex
	start []float32 // see Job.initial
}

func newCores(j *Job) *cores {
	workers := j.Workers
	if j.Here > 0 {
		workers = j.Here
	}
	return coresAt(j, compute.NewGate(workers, j.Threads, j.Plan().Beside || j.NormWorkers() > 1))
}

func coresAt(j *Job, g *compute.Gate) *cores {
	return &cores{gate: g, task: j.task(g), shelf: &shelf{}, lasting: &shelf{}, first: j}
}

// task is what the gradients of the job have in common.
func (j *Job) task(g *compute.Gate) compute.Task {
	return compute.Task{
		Gate: g, Model: func(side int) sgd.Model { return j.sized(side).model },
		Batch: j.Batch, Accumulate: max(1, j.Accumulate), Zero: j.NonFinite == "zero", Between: j.between,
	}
}

// between calls Between, which may be set after Prepare.
func (j *Job) between(worker, step, done, of int) error {
	if j.Between == nil {
		return nil
	}
	return j.Between(worker, step, done, of)
}

// micros is in how many micro-batches samples are computed.
func (j *Job) micros(samples sgd.Draw) int {
	t := compute.Task{Batch: j.Batch, Accumulate: max(1, j.Accumulate)}
	return t.Micros(samples)
}

// again is the cores for those who go on as workers of v: the same gate, and what is Lasting.
func (c *cores) again(v *Job) *cores {
	next := coresAt(v, c.gate)
	next.lasting, next.first = c.lasting, c.first
	return next
}

// shelf is what ranks of a process share, by key.
type shelf struct {
	mu   sync.Mutex
	kept map[any]any
}

func onShelf[T any](s *shelf, key any, mk func() (T, error)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.kept[key]; ok {
		return v.(T), nil
	}
	v, err := mk()
	if err == nil {
		if s.kept == nil {
			s.kept = map[any]any{}
		}
		s.kept[key] = v
	}
	return v, err
}

// Shared is what the ranks of a process share under a key: the first to ask makes it.
// Keys are of types of the caller's own. In an elastic run each epoch of membership has
// its own.
func Shared[T any](j *Job, key any, mk func() (T, error)) (T, error) {
	return onShelf(j.cores.shelf, key, mk)
}

// Lasting is Shared over all epochs of membership of a run; it is made for the run's job.
func Lasting[T any](j *Job, key any, mk func(run *Job) (T, error)) (T, error) {
	return onShelf(j.cores.lasting, key, func() (T, error) { return mk(j.cores.first) })
}

// seat is a worker's place at the cores.
type seat struct {
	job *Job
	at  compute.Seat
}

// take waits for a core and returns a desk; give gives both back.
func (s *seat) take() *compute.Desk {
	return s.at.Take(s.job.cores.gate, s.job.Model, s.job.Data.Train)
}

func (s *seat) give(d *compute.Desk) { s.at.Give(s.job.cores.gate, d) }

// Initial is the parameters that every rank begins with, to be read only.
func (j *Job) Initial() []float32 { return j.initial() }

// initial is the parameters that every rank begins with, to be read only: all
// ranks of a process share them until they begin. None, in a run without weights.
func (j *Job) initial() []float32 {
	if j.Weightless {
		return nil
	}
	c := j.cores
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.start == nil {
		c.start = make([]float32, j.Model.Layout().Size())
		j.Model.Init(c.start, j.Seed)
	}
	return c.start
}

// begun leaves the initial parameters to those who hold them.
func (c *cores) begun() {
	c.mu.Lock()
	c.start = nil
	c.mu.Unlock()
}
