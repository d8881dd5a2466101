package par

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// board holds the runs that helpers may join.
var board struct {
	sync.Mutex
	runs   []*run
	posted atomic.Int64 // len(runs)
}

// helpers counts the goroutines of the pool. They live as long as the process.
var helpers struct {
	sync.Mutex
	n        atomic.Int64
	spinning atomic.Int64
	parked   atomic.Int64  // those nobody has claimed
	wake     chan struct{} // one token for each parked helper claimed
}

func init() { helpers.wake = make(chan struct{}, 1024) }

// needHelpers starts helpers up to n.
func needHelpers(n int) {
	if helpers.n.Load() >= int64(n) {
		return
	}
	helpers.Lock()
	defer helpers.Unlock()
	for ; helpers.n.Load() < int64(n); helpers.n.Add(1) {
		go helper()
	}
}

// wake sees to it that n helpers are looking for a run, as far as there are.
func wake(n int64) {
	for n -= helpers.spinning.Load(); n > 0 && claim(); n-- {
		helpers.wake <- struct{}{}
	}
}

// claim takes one parked helper off the count: it is then owed a token.
func claim() bool {
	for {
		n := helpers.parked.Load()
		if n == 0 {
			return false
		}
		if helpers.parked.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// park waits to be claimed, unless there is a run to join after all.
func park() (*run, int) {
	helpers.parked.Add(1)
	r, slot := join()
	if r == nil || !claim() {
		<-helpers.wake
	}
	return r, slot
}

// helper serves posted runs.
func helper() {
	defer helpers.n.Add(-1) // a piece may end the goroutine
	for {
		r, slot := look()
		if r == nil {
			r, slot = park()
		}
		if r != nil {
			serve(r, slot)
		}
	}
}

func serve(r *run, slot int) {
	defer r.release()
	defer running.Add(-1)
	r.work(slot)
}

// look looks for a run to join for spinTime; nil means there was none.
func look() (*run, int) {
	helpers.spinning.Add(1)
	defer helpers.spinning.Add(-1)
	for start := time.Now(); ; runtime.Gosched() {
		if r, slot := join(); r != nil || time.Since(start) > spinTime {
			return r, slot
		}
	}
}

// join joins the run posted last that is open, if one more may work.
func join() (*run, int) {
	if board.posted.Load() == 0 || running.Load() >= int64(Threads()) {
		return nil, 0
	}
	board.Lock()
	defer board.Unlock()
	for _, r := range slices.Backward(board.runs) {
		if r.open() {
			if running.Add(1) > int64(Threads()) {
				running.Add(-1)
				return nil, 0
			}
			r.refs.Add(1)
			return r, int(r.slots.Add(1) - 1)
		}
	}
	return nil, 0
}

func post(r *run) {
	board.Lock()
	defer board.Unlock()
	board.runs = append(board.runs, r)
	board.posted.Store(int64(len(board.runs)))
}

// takeDown takes a run off the board: nobody joins any more.
func takeDown(r *run) {
	board.Lock()
	defer board.Unlock()
	i := slices.Index(board.runs, r)
	board.runs = slices.Delete(board.runs, i, i+1)
	board.posted.Store(int64(len(board.runs)))
}
