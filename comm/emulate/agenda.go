package emulate

import (
	"container/heap"

	"github.com/gradlab/gradlab/comm"
)

// event is what happens at an instant: a frame is there, a rank is gone, or
// somebody wakes.
type event struct {
	at    instant
	order uint64 // events of one instant happen in the order they were planned
	frame comm.Frame
	gone  *comm.PeerError
	quiet bool
	wake  chan struct{}
}

// agenda holds events to come, the next one first.
type agenda struct {
	events []event
	count  uint64
}

func (a *agenda) plan(e event) {
	a.count++
	e.order = a.count
	heap.Push(a, e)
}

// due is when the next event happens.
func (a *agenda) due() (at instant, ok bool) {
	if len(a.events) == 0 {
		return 0, false
	}
	return a.events[0].at, true
}

// next takes an event that is due.
func (a *agenda) next(now instant) (e event, ok bool) {
	if at, any := a.due(); !any || at > now {
		return e, false
	}
	return heap.Pop(a).(event), true
}

func (a *agenda) Len() int { return len(a.events) }
func (a *agenda) Less(i, j int) bool {
	p, q := &a.events[i], &a.events[j]
	return p.at < q.at || p.at == q.at && p.order < q.order
}
func (a *agenda) Swap(i, j int) { a.events[i], a.events[j] = a.events[j], a.events[i] }
func (a *agenda) Push(x any)    { a.events = append(a.events, x.(event)) }
func (a *agenda) Pop() any {
	n := len(a.events) - 1
	e := a.events[n]
	a.events[n] = event{}
	a.events = a.events[:n]
	return e
}
