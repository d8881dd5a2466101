package sim

import (
	"cmp"
	"container/heap"
	"fmt"
	"runtime/debug"
	"slices"
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
	limit int           // errands begun that are due before the next one to begin

	mu    sync.Mutex // of all errands' begun, and of what follows
	seq   uint64
	queue queue
	begun []*errand // by spare cores, whose time has not come
}

// errand is one Work.
type errand struct {
	run   func() error
	due   time.Duration
	seq   uint64
	begun bool       // or taken out of the queue
	done  chan error // has the outcome, if a spare core began it
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
	if a.limit > 0 {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.seq++
		e.seq = a.seq
		heap.Push(&a.queue, e)
	}
	return e
}

// join returns the outcome of an errand whose time has come. What is due next is
// begun meanwhile: by now all that compute at this instant have said so.
func (a *ahead) join(e *errand) error {
	if a.take(e) {
		a.cores <- struct{}{}
		a.fill()
		return a.compute(e)
	}
	a.fill()
	return <-e.done
}

// drop gives an errand up; it is not being computed afterwards.
func (a *ahead) drop(e *errand) {
	if !a.take(e) {
		<-e.done
	}
}

// take makes an errand the caller's; ok is false if a spare core has begun it.
func (a *ahead) take(e *errand) (ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.begun, e); i >= 0 {
		a.begun = slices.Delete(a.begun, i, i+1)
		return false
	}
	e.begun = true
	return true
}

// fill begins what may be begun.
func (a *ahead) fill() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > 0 {
		if e := a.queue[0]; !e.begun {
			sooner := 0
			for _, o := range a.begun {
				if o.due <= e.due {
					sooner++
				}
			}
			if sooner >= a.limit {
				return
			}
			e.begun, e.done = true, make(chan error, 1)
			a.begun = append(a.begun, e)
			go func() {
				a.cores <- struct{}{}
				e.done <- a.compute(e)
			}()
		}
		heap.Pop(&a.queue)
	}
}

// compute runs an errand on a core that the caller has entered, and leaves it.
func (a *ahead) compute(e *errand) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
		<-a.cores
	}()
	return e.run()
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
