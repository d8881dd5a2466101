package train

import (
	"runtime"
	"sync"

	"github.com/gradlab/gradlab/internal/par"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// cores is what the ranks of a process share: the gate that bounds how many
// passes compute at once, and the memory of those passes, which so grows with
// cores and not with workers.
type cores struct {
	gate    chan struct{} // holds a token for every pass under way
	threads int           // of a pass; 0: whatever the others leave idle
	own     bool          // every worker has memory of its own
	common  func() (*common, error)
	asks    func() ([]wire.Need, error) // of a run without weights
	latest  assembly
	tariffs map[bill]*wire.Tariff // guarded by mu

	sharing sync.Mutex  // guards kept
	kept    map[any]any // see Shared

	mu    sync.Mutex
	free  []*desk
	start []float32 // see Job.initial
}

// newCores opens the gate to as many passes as the cores have room for. Passes
// without a bound of their own need one core each: internal/par lends a pass the
// goroutines that others leave idle, and no more, so a worker that waits leaves
// its core to those who do not.
func newCores(j *Job) *cores {
	workers := j.Workers
	if j.Here > 0 {
		workers = j.Here
	}
	n := max(1, runtime.GOMAXPROCS(0)/max(1, j.Threads))
	return &cores{
		gate: make(chan struct{}, n), threads: j.Threads,
		// A pass that overlaps waits for peers with its memory half full.
		own:    workers <= n || j.Overlap || j.normWorkers() > 1,
		common: sync.OnceValues(func() (*common, error) { return newCommon(j) }),
		asks:   sync.OnceValues(j.asks),
	}
}

// again is the cores for those who go on as workers of v: the same gate, the same
// parameters of ranks without servers.
func (c *cores) again(v *Job) *cores {
	next := newCores(v)
	next.gate, next.own, next.common = c.gate, c.own, c.common
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

// enter waits until a core is free and leave gives it back. Nobody may wait for
// another rank in between: see away.
func (c *cores) enter() { c.gate <- struct{}{} }
func (c *cores) leave() { <-c.gate }

// away runs f, which may wait for another rank, without the core.
func (c *cores) away(f func() error) error {
	c.leave()
	defer c.enter()
	return f()
}

// limit is the number of goroutines that work for a worker may use.
func (c *cores) limit() int {
	if c.threads > 0 {
		return c.threads
	}
	return par.Threads()
}

// desk is the memory of a pass.
type desk struct {
	scratch sgd.Scratch
	batches *loader
	scan    *scan
	hearing                                  // of the lengths of gradients
	sum     func(key int, v []float64) error // see sgd.Pass; nil: none
	part    []float32                        // the gradient of a micro-batch behind the first
	spoilt  bool                             // the gradient had NaN or Inf, made zero
	soft    bool                             // they are made zero, whatever the job says of them
}

// another is room for a further gradient of n values.
func (d *desk) another(n int) []float32 {
	if len(d.part) != n {
		d.part = make([]float32, n)
	}
	return d.part
}

func (j *Job) newDesk(src sgd.Source) *desk {
	return &desk{scratch: j.Model.NewScratch(), batches: newLoader(src), scan: newScan()}
}

// seat is a worker's place at the cores.
type seat struct {
	job *Job
	own *desk // made at the first pass; nil: any desk that is free
}

// take waits for a core and returns a desk; give gives both back.
func (s *seat) take() *desk {
	c := s.job.cores
	c.enter()
	if s.own != nil {
		return s.own
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.free); n > 0 {
		d := c.free[n-1]
		c.free = c.free[:n-1]
		return d
	}
	d := s.job.newDesk(s.job.Data.Train)
	if c.own {
		s.own = d
	}
	return d
}

func (s *seat) give(d *desk) {
	c := s.job.cores
	if s.own == nil {
		c.mu.Lock()
		c.free = append(c.free, d)
		c.mu.Unlock()
	}
	c.leave()
}

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
