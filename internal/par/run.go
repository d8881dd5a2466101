package par

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// run is one call of Team.Run.
type run struct {
	team    *Team
	fn      func(piece, slot int)
	pieces  int64
	threads int64

	next     atomic.Int64 // the next piece to take
	left     atomic.Int64 // pieces neither done nor abandoned
	slots    atomic.Int64 // slots given away
	refs     atomic.Int64 // goroutines that know the run
	panicked atomic.Pointer[Panic]
	done     chan struct{} // receives one token when left reaches 0
}

// begin sets up the run for its caller, who has slot 0.
func (r *run) begin(pieces, threads int, fn func(piece, slot int)) {
	r.fn, r.pieces, r.threads = fn, int64(pieces), int64(threads)
	r.next.Store(0)
	r.left.Store(int64(pieces))
	r.slots.Store(1)
	r.refs.Store(1)
	r.panicked.Store(nil)
}

// open reports whether there is a piece to take and a slot for one more.
func (r *run) open() bool {
	return r.next.Load() < r.pieces && r.slots.Load() < r.threads
}

// work takes pieces until none is left.
func (r *run) work(slot int) {
	for {
		i := r.next.Add(1) - 1
		if i >= r.pieces {
			return
		}
		r.one(int(i), slot)
	}
}

// one runs a piece and crosses it off, whatever happens. A panic of the calling
// goroutine goes its way; that of a helper is kept for the caller.
func (r *run) one(piece, slot int) {
	returned := false
	defer func() {
		if !returned && slot != 0 {
			v := recover()
			if v == nil {
				v = "par: a piece called runtime.Goexit"
			}
			r.panicked.CompareAndSwap(nil, &Panic{v, debug.Stack()})
			r.abandon()
		}
		r.crossOff(1)
	}()
	r.fn(piece, slot)
	returned = true
}

// abandon crosses off all pieces that nobody has taken.
func (r *run) abandon() {
	if taken := r.next.Swap(r.pieces); taken < r.pieces {
		r.crossOff(r.pieces - taken)
	}
}

func (r *run) crossOff(n int64) {
	if r.left.Add(-n) == 0 {
		r.done <- struct{}{}
	}
}

// release drops one reference; the last one frees the run for use again.
func (r *run) release() {
	if r.refs.Add(-1) == 0 {
		r.fn = nil // keep nothing of the caller alive
		r.team.give(r)
	}
}

// Panic is what Run panics with when a piece panicked on another goroutine.
type Panic struct {
	Value any    // what the piece panicked with
	Stack []byte // where, as by debug.Stack
}

// Error returns the value and the stack of the piece.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// Unwrap returns the value if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}
