package train

import (
	"sync"

	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// cores is what the ranks of a process share.
type cores struct {
	gate    *compute.Gate
	task    compute.Task
	common  func() (*common, error)
	asks    func() ([]wire.Need, error) // of a run without weights
	latest  assembly
	tariffs map[bill]*wire.Tariff // guarded by mu

	sharing sync.Mutex  // guards kept
	kept    map[any]any // see Shared

	mu    sync.Mutex
	start []float32 // see Job.initial
}

func newCores(j *Job) *cores {
	workers := j.Workers
	if j.Here > 0 {
		workers = j.Here
	}
	return coresAt(j, compute.NewGate(workers, j.Threads, j.Overlap || j.normWorkers() > 1))
}

func coresAt(j *Job, g *compute.Gate) *cores {
	return &cores{
		gate: g, task: j.task(g),
		common: sync.OnceValues(func() (*common, error) { return newCommon(j) }),
		asks:   sync.OnceValues(j.asks),
	}
}

// again is the cores for those who go on as workers of v: the same gate, the same
// parameters of ranks without servers.
func (c *cores) again(v *Job) *cores {
	next := coresAt(v, c.gate)
	next.common = c.common
	return next
}

// Shared is what the ranks of a process share under a key: the first to ask makes it.
// Keys are of types of the caller's own.
func Shared[T any](j *Job, key any, mk func() (T, error)) (T, error) {
	c := j.cores
	c.sharing.Lock()
	defer c.sharing.Unlock()
	if v, ok := c.kept[key]; ok {
		return v.(T), nil
	}
	v, err := mk()
	if err == nil {
		if c.kept == nil {
			c.kept = map[any]any{}
		}
		c.kept[key] = v
	}
	return v, err
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
