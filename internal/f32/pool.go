package f32

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Threads: a large product is cut into a grid of independent parts of C, and
// whoever is free takes the next part. The helpers are goroutines shared by
// all callers, parked when idle. The caller posts its job, works on it, and
// takes it down when no part is left; a helper joins a posted job only while
// fewer than Threads goroutines are at work. So a caller never waits for a
// helper to begin, and many callers at once run serially, side by side.
//
// Waking a parked goroutine can take longer than a product does (100 µs on a
// virtual machine), so whoever runs out of work looks around for spinTime,
// letting other goroutines go first, before it parks.

var (
	threadLimit atomic.Int64 // 0: GOMAXPROCS
	running     atomic.Int64 // goroutines at work on posted jobs
	board       struct {
		sync.Mutex
		jobs   []*job       // posted
		free   []*job       // for use again
		posted atomic.Int64 // len(jobs)
	}
	helpers struct {
		sync.Mutex
		n        atomic.Int64
		spinning atomic.Int64
		wake     chan struct{} // unbuffered: only a parked helper receives
	}
)

func init() { helpers.wake = make(chan struct{}) }

const spinTime = 200 * time.Microsecond

// SetThreads bounds the goroutines at work on matrix products, all callers
// together. n < 1 restores the default, GOMAXPROCS at the time of each call.
func SetThreads(n int) { threadLimit.Store(int64(max(n, 0))) }

// Threads returns the bound in force.
func Threads() int {
	if n := threadLimit.Load(); n > 0 {
		return int(n)
	}
	return runtime.GOMAXPROCS(0)
}

// job is a product cut into gm×gn parts.
type job struct {
	product
	gm, gn     int
	next, left atomic.Int64  // the next part to take; parts not finished
	refs       int           // goroutines that know the job; the board's lock
	done       chan struct{} // receives one token when left reaches 0
}

const (
	minParallel = 2 << 20 // multiply-adds below which waking a helper does not pay
	partSide    = 256     // parts beyond one a thread are at least this long and wide
	partsEach   = 4       // parts a thread, for balance, if that large
)

// worth reports whether the product is large enough to share.
func (p *product) worth() bool { return p.m*p.n*p.k >= minParallel }

// grid chooses the parts: at least one a thread if there are tiles enough.
func (j *job) grid(threads int) {
	um, un := (j.m+tileRows-1)/tileRows, (j.n+tileCols-1)/tileCols
	j.gm, j.gn = 1, 1
	for {
		parts, rows, cols := j.gm*j.gn, j.m/j.gm, j.n/j.gn
		byRow := rows > cols && j.gm < um || j.gn >= un
		side, units := cols, un/j.gn
		if byRow {
			side, units = rows, um/j.gm
		}
		if parts >= threads && (parts >= partsEach*threads || side < 2*partSide) || units < 2 {
			return
		}
		if byRow {
			j.gm++
		} else {
			j.gn++
		}
	}
}

// work takes parts until none is left.
func (j *job) work() {
	um, un := (j.m+tileRows-1)/tileRows, (j.n+tileCols-1)/tileCols
	for {
		t := int(j.next.Add(1)) - 1
		if t >= j.gm*j.gn {
			return
		}
		x, y := t/j.gn, t%j.gn
		j.run(um*x/j.gm*tileRows, min(j.m, um*(x+1)/j.gm*tileRows), un*y/j.gn*tileCols, min(j.n, un*(y+1)/j.gn*tileCols))
		if j.left.Add(-1) == 0 {
			j.done <- struct{}{}
		}
	}
}

// parallel computes p with the help of whoever is idle.
func parallel(p *product, threads int) {
	for helpers.n.Load() < int64(threads-1) {
		addHelper(threads - 1)
	}
	running.Add(1)
	j := post(p, threads)
	wanted := min(int64(min(threads, j.gm*j.gn)-1), int64(threads)-running.Load()) - helpers.spinning.Load()
wake:
	for range wanted {
		select {
		case helpers.wake <- struct{}{}:
		default: // nobody is parked
			break wake
		}
	}
	j.work()
	takeDown(j)
	await(j.done)
	running.Add(-1)
	release(j)
}

// await receives from c, looking for spinTime before it parks.
func await(c chan struct{}) {
	select {
	case <-c:
		return
	default:
	}
	for start := time.Now(); time.Since(start) < spinTime; {
		select {
		case <-c:
			return
		default:
			runtime.Gosched()
		}
	}
	<-c
}

func addHelper(limit int) {
	helpers.Lock()
	defer helpers.Unlock()
	if helpers.n.Load() < int64(limit) {
		helpers.n.Add(1)
		go helper()
	}
}

// helper serves posted jobs for the life of the process.
func helper() {
	for {
		if j := look(); j != nil {
			j.work()
			running.Add(-1)
			release(j)
		} else {
			<-helpers.wake
		}
	}
}

// look looks for a job to join for spinTime; nil means there was none.
func look() *job {
	helpers.spinning.Add(1)
	defer helpers.spinning.Add(-1)
	for start := time.Now(); ; runtime.Gosched() {
		if j := join(); j != nil || time.Since(start) > spinTime {
			return j
		}
	}
}

// join joins the job posted last that has parts left, if one more may work.
func join() *job {
	if board.posted.Load() == 0 || running.Load() >= int64(Threads()) {
		return nil
	}
	board.Lock()
	defer board.Unlock()
	for _, j := range slices.Backward(board.jobs) {
		if j.next.Load() < int64(j.gm*j.gn) {
			if running.Add(1) > int64(Threads()) {
				running.Add(-1)
				return nil
			}
			j.refs++
			return j
		}
	}
	return nil
}

// post puts a job for p on the board.
func post(p *product, threads int) *job {
	board.Lock()
	defer board.Unlock()
	var j *job
	if n := len(board.free); n > 0 {
		j, board.free = board.free[n-1], board.free[:n-1]
	} else {
		j = &job{done: make(chan struct{}, 1)}
	}
	j.product = *p
	j.grid(threads)
	j.next.Store(0)
	j.left.Store(int64(j.gm * j.gn))
	j.refs = 1
	board.jobs = append(board.jobs, j)
	board.posted.Add(1)
	return j
}

// takeDown takes a job off the board: nobody joins any more.
func takeDown(j *job) {
	board.Lock()
	defer board.Unlock()
	i := slices.Index(board.jobs, j)
	board.jobs = slices.Delete(board.jobs, i, i+1)
	board.posted.Add(-1)
}

// release drops one reference; the last one frees the job for use again.
func release(j *job) {
	board.Lock()
	defer board.Unlock()
	if j.refs--; j.refs == 0 {
		j.product = product{} // keep no matrix alive
		board.free = append(board.free, j)
	}
}
