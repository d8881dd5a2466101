// Package spin says how long who waits for another process goes on looking before it
// sleeps.
package spin

import "time"

// To be woken takes longer than most answers, so who waits looks around first, letting
// others run in between. Where processes outnumber cores that keeps the others from
// theirs, and a system that takes yielding for a lack of interest gives cores back late.
const (
	Bare    = 2000 // looks without a yield, some microseconds
	Roomy   = 50   // looks in a wait where there is a core for each process
	Crowded = 3    // where there is not

	late    = time.Millisecond // a yield that took as long gave the core to a stranger
	longest = 1024             // most waits that go without what did not pay
)

// Spin is how often one side looks before it sleeps. Beside processes that compute, a
// yield costs their whole turn, many milliseconds, where a sleeper is woken at once. So a
// yield that took long is followed by waits without any, twice as many each time. So are,
// by waits without them, bare looks that found nothing: the other side may be waiting for
// this very core.
type Spin struct {
	Bare     int // looks in a wait before the first yield
	Patience int // looks after them
	bare     doubt
	yields   doubt
	first    int  // looks before the first yield, in this wait
	trying   bool // none of them was in vain so far
	yield    func()
	now      func() time.Duration // on any clock that does not go back
}

// New returns a Spin with the patience Roomy. yield lets other processes have the core.
func New(yield func()) Spin {
	began := time.Now()
	return Spin{Patience: Roomy, yield: yield, now: func() time.Duration { return time.Since(began) }}
}

// Again lets others run and says that it is time for another look, or that it is time to
// sleep. looks counts those of this wait.
func (s *Spin) Again(looks int) bool {
	if looks == 0 {
		s.begin()
	}
	if looks < s.first {
		return true
	}
	if s.trying {
		s.trying = false
		s.bare.failed(1)
	}
	if looks-s.first >= s.Patience || s.yields.skips() {
		return false
	}
	before := s.now()
	s.yield()
	if s.now()-before < late {
		s.yields.paid()
	} else {
		s.yields.failed(16)
	}
	return true
}

// begin begins a wait.
func (s *Spin) begin() {
	if s.trying {
		s.bare.paid()
	}
	s.first = 0
	if s.trying = s.Bare > 0 && !s.bare.skips(); s.trying {
		s.first = s.Bare
	}
}

// doubt is whether to try what may not pay.
type doubt struct {
	pause int // waits without it that the last failure was followed by
	left  int // of them
}

func (d *doubt) failed(fewest int) {
	d.pause = min(max(fewest, 2*d.pause), longest)
	d.left = d.pause
}

func (d *doubt) paid() { d.pause /= 2 }

func (d *doubt) skips() bool {
	if d.left == 0 {
		return false
	}
	d.left--
	return true
}
