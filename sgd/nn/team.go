package nn

import (
	"sync"
	"sync/atomic"
)

// A team runs numbered pieces of work on several goroutines. Which goroutine
// takes which piece is left to chance, so a piece must write only what is its
// own; what the pieces are must not depend on how many goroutines there are.
//
// Helpers are started per call from a func value kept in the team: that costs
// under a microsecond, allocates nothing, and leaves nobody parked.
type team struct {
	fn          func(piece, slot int)
	pieces      int
	next, slots atomic.Int64
	wg          sync.WaitGroup
	helper      func()
}

// run calls fn(i, slot) for all 0 ≤ i < pieces on up to workers goroutines and
// waits. No two calls at one time share a slot, and slot < workers.
func (t *team) run(pieces, workers int, fn func(piece, slot int)) {
	workers = min(workers, pieces)
	if workers <= 1 {
		for i := range pieces {
			fn(i, 0)
		}
		return
	}
	if t.helper == nil {
		t.helper = t.help
	}
	t.fn, t.pieces = fn, pieces
	t.next.Store(0)
	t.slots.Store(0)
	t.wg.Add(workers - 1)
	for range workers - 1 {
		go t.helper()
	}
	t.work(0)
	t.wg.Wait()
	t.fn = nil
}

func (t *team) help() {
	t.work(int(t.slots.Add(1)))
	t.wg.Done()
}

func (t *team) work(slot int) {
	for {
		i := int(t.next.Add(1)) - 1
		if i >= t.pieces {
			return
		}
		t.fn(i, slot)
	}
}
