// Package par spreads numbered pieces of work over the goroutines of one
// process-wide pool. Numeric kernels stand on it: a run costs well under a
// microsecond beyond the work, allocates nothing in steady state, and all runs
// of the process together keep to one bound on goroutines at work.
package par

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A caller posts its run, works on it, and takes it down when no piece is left;
// a helper joins a posted run only while fewer than Threads goroutines are at
// work. So a caller never waits for a helper to begin, and many callers at once
// run serially, side by side.
//
// Waking a parked goroutine can take longer than a matrix product does (100 µs
// on a virtual machine), so whoever runs out of work looks around for spinTime,
// letting other goroutines go first, before it parks.
const spinTime = 200 * time.Microsecond

var (
	threadLimit atomic.Int64 // 0: GOMAXPROCS
	running     atomic.Int64 // goroutines at work on posted runs
)

// SetThreads bounds the goroutines at work on runs of more than one thread, all
// callers together. n < 1 restores the default, GOMAXPROCS at the time of each
// run.
func SetThreads(n int) { threadLimit.Store(int64(max(n, 0))) }

// Threads returns the bound in force.
func Threads() int {
	if n := threadLimit.Load(); n > 0 {
		return int(n)
	}
	return runtime.GOMAXPROCS(0)
}

// Team runs pieces of work on several goroutines. The zero value is ready for
// use. A Team keeps what its runs need for the next one, and may run many times
// at once, also from within its own pieces. It must not be copied.
type Team struct {
	mu   sync.Mutex
	free []*run
}

// Run calls fn(piece, slot) once for every 0 ≤ piece < pieces, on up to threads
// goroutines, the calling one among them, and returns when all calls have. Which
// goroutine takes which piece is left to chance, so a piece must write only what
// is its own. A goroutine keeps its slot, 0 ≤ slot < max(threads, 1), for the
// whole of the run, and no two share one: what is indexed by slot needs no lock.
//
// No helper joins while Threads goroutines are at work on runs, callers counted,
// so a run among others may find no help; nor does a run that a piece starts
// while its siblings keep the others busy. With threads, pieces or Threads below
// two all calls are made in order on the calling goroutine.
//
// If a piece panics, pieces not begun are left out, and Run panics in its turn
// when those begun have ended: with the same value if the piece was on the
// calling goroutine, else with a *Panic.
func (t *Team) Run(pieces, threads int, fn func(piece, slot int)) {
	threads = min(threads, pieces, Threads())
	if threads <= 1 {
		for i := range pieces {
			fn(i, 0)
		}
		return
	}
	needHelpers(threads - 1)
	running.Add(1)
	r := t.take()
	r.begin(pieces, threads, fn)
	post(r)
	wake(min(int64(threads-1), int64(Threads())-running.Load()))
	// Deferred, because a piece may panic here: others are still at work on
	// memory of the caller.
	defer t.finish(r)
	r.work(0)
}

// finish waits for the pieces others have begun.
func (t *Team) finish(r *run) {
	r.abandon() // no piece is left, unless this goroutine panics
	takeDown(r)
	running.Add(-1)
	if board.posted.Load() > 0 {
		wake(1) // another run may now have help
	}
	await(r.done)
	p := r.panicked.Load()
	r.release()
	if p != nil {
		panic(p)
	}
}

// take returns a run that nobody knows of.
func (t *Team) take() *run {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		r := t.free[n-1]
		t.free = t.free[:n-1]
		return r
	}
	return &run{team: t, done: make(chan struct{}, 1)}
}

func (t *Team) give(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free = append(t.free, r)
}

// await receives from c, looking for spinTime before it parks.
func await(c chan struct{}) {
	for start := time.Now(); ; runtime.Gosched() {
		select {
		case <-c:
			return
		default:
		}
		if time.Since(start) > spinTime {
			<-c
			return
		}
	}
}
