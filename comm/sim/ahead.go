package sim

import (
	"cmp"
	"container/heap"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// ahead computes Works before their virtual time is up, on spare cores, those
// first whose results are due first. It stays only a few results ahead: what
// waits to be computed holds what it is computed from, which many may share, and
// what is computed holds a result of its own. A Work whose time comes before its
// turn is computed there and then, one that is broken off before is never.
//
// When a Work is computed, and by whom, changes wall time only.
type ahead struct {
	cores chan struct{} // holds a token for every Work being computed
	limit int           // results under way or waiting for their time

	mu    sync.Mutex
	seq   uint64
	queue queue
	busy  int // of the limit
}

// errand is one Work.
type errand struct {
	run   func() error
	due   time.Duration
	seq   uint64
	begun bool       // or given up
	done  chan error // has the outcome, once begun by a spare core
}

func newAhead(cores int) *ahead {
	a := &ahead{cores: make(chan struct{}, cores)}
	if cores > 1 { // else the loop has the only one
		a.limit = 2 * cores
	}
	return a
}

// submit has run computed by the virtual instant due.
func (a *ahead) submit(due time.Duration, run func() error) *errand {
	e := &errand{run: run, due: due}
	if a.limit == 0 {
		return e
	}
	e.done = make(chan error, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seq++
	e.seq = a.seq
	heap.Push(&a.queue, e)
	a.fill()
	return e
}

// fill begins what there is room for. The lock is held.
func (a *ahead) fill() {
	for len(a.queue) > 0 {
		if !a.queue[0].begun {
			if a.busy == a.limit {
				return
			}
			a.busy++
			e := a.queue[0]
			e.begun = true
			go func() { e.done <- a.compute(e) }()
		}
		heap.Pop(&a.queue)
	}
}

// compute runs an errand on a core.
func (a *ahead) compute(e *errand) (err error) {
	a.cores <- struct{}{}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
		<-a.cores
	}()
	return e.run()
}

// join returns the outcome of an errand.
func (a *ahead) join(e *errand) error {
	if a.take(e) {
		return a.compute(e)
	}
	return a.finish(e)
}

// drop gives an errand up; it is not computing any more afterwards.
func (a *ahead) drop(e *errand) {
	if !a.take(e) {
		_ = a.finish(e)
	}
}

// take keeps the spare cores from an errand; ok is false if one has begun it.
func (a *ahead) take(e *errand) (ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ok, e.begun = !e.begun, true
	return ok
}

// finish waits for an errand that a spare core has begun.
func (a *ahead) finish(e *errand) error {
	err := <-e.done
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy--
	a.fill()
	return err
}

// queue is a heap of errands, those due first on top.
type queue []*errand

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].due, q[j].due), cmp.Compare(q[i].seq, q[j].seq)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(e any)   { *q = append(*q, e.(*errand)) }
func (q *queue) Pop() any {
	n := len(*q) - 1
	e := (*q)[n]
	(*q)[n] = nil
	*q = (*q)[:n]
	return e
}
