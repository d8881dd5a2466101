package compute

import (
	"runtime"
	"sync"

	"github.com/gradlab/gradlab/internal/par"
	"github.com/gradlab/gradlab/sgd"
)

// Gate bounds how many passes of a process compute at once, and holds the memory of those
// passes, which so grows with cores and not with workers.
type Gate struct {
	tokens  chan struct{} // one for every pass under way
	threads int           // of a pass; 0: whatever the others leave idle
	own     bool          // every worker has a desk of its own

	mu   sync.Mutex
	free []*Desk
}

// NewGate opens the gate to as many passes of so many threads as the cores have room for.
// Passes without a bound of their own (0 threads) need one core each: internal/par lends a
// pass the goroutines that others leave idle, and no more, so a worker that waits leaves its
// core to those who do not. Each worker has a desk of its own where all may compute at once,
// and where passes wait for peers with their memory half full.
func NewGate(workers, threads int, waits bool) *Gate {
	n := max(1, runtime.GOMAXPROCS(0)/max(1, threads))
	return &Gate{tokens: make(chan struct{}, n), threads: threads, own: workers <= n || waits}
}

// Apart is a gate to the same cores for passes of another model, or of ones that wait for others
// in their middle: each worker has a desk of its own.
func (g *Gate) Apart() *Gate { return &Gate{tokens: g.tokens, threads: g.threads, own: true} }

// Enter waits until a core is free, and Leave gives it back. Nobody may wait for another
// rank in between: see Away.
func (g *Gate) Enter() { g.tokens <- struct{}{} }

// Leave gives back the core that Enter waited for.
func (g *Gate) Leave() { <-g.tokens }

// Away runs f, which may wait for another rank, without the core.
func (g *Gate) Away(f func() error) error {
	g.Leave()
	defer g.Enter()
	return f()
}

// Threads is the number of goroutines that work for a worker may use, at least 1.
func (g *Gate) Threads() int {
	if g.threads > 0 {
		return g.threads
	}
	return par.Threads()
}

// Seat is a worker's place at a gate.
type Seat struct {
	own *Desk // made at the first pass; nil: any desk that is free
}

// Take waits for a core and returns a desk, which is made if none is free.
func (s *Seat) Take(g *Gate, m sgd.Model, src sgd.Source) *Desk {
	g.Enter()
	if s.own != nil {
		return s.own
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.free); n > 0 {
		d := g.free[n-1]
		g.free = g.free[:n-1]
		return d
	}
	d := NewDesk(m, src)
	if g.own {
		s.own = d
	}
	return d
}

// Give gives back a desk and its core.
func (s *Seat) Give(g *Gate, d *Desk) {
	if s.own == nil {
		g.mu.Lock()
		g.free = append(g.free, d)
		g.mu.Unlock()
	}
	g.Leave()
}
