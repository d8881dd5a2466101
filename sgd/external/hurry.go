package external

import (
	"errors"
	"net"
	"sync"
	"time"
)

// ErrHurried says that a program did not answer in the time that Hurry gave it.
var ErrHurried = errors.New("it had not answered in the time that a program has once a run is asked to stop")

// Hurry gives every program of this process at most so long for each answer, from now on: a
// pass that waits longer for one ends in ErrHurried. It is for a run that is to stop, which
// would otherwise wait for a program that hangs. With 0 programs have as long as their
// Options.Limit says, again.
func Hurry(within time.Duration) { hurry.begin(within) }

var hurry = hurried{waits: map[*patience]bool{}}

// hurried is how long the programs of this process have for an answer.
type hurried struct {
	mu     sync.Mutex
	within time.Duration // 0: there is no hurry
	waits  map[*patience]bool
}

// patience is how long the engine waits for an answer of one process.
type patience struct {
	conn  net.Conn
	limit time.Duration // 0: for ever
}

func (h *hurried) begin(within time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.within = within
	for p := range h.waits {
		h.set(p)
	}
}

func (h *hurried) add(p *patience) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits[p] = true
}

func (h *hurried) remove(p *patience) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waits, p)
}

// again begins the time of an answer.
func (h *hurried) again(p *patience) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(p)
}

// set sets when the wait for an answer ends. Callers hold mu.
func (h *hurried) set(p *patience) {
	within := p.limit
	if h.within > 0 && (within == 0 || h.within < within) {
		within = h.within
	}
	end := time.Time{}
	if within > 0 {
		end = time.Now().Add(within)
	}
	_ = p.conn.SetDeadline(end)
}

// why is the error of a wait that has ended.
func (h *hurried) why(p *patience) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.within > 0 && (p.limit == 0 || h.within < p.limit) {
		return ErrHurried
	}
	return nil
}
