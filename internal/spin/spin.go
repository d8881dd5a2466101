// Package spin says how long who waits for another process goes on looking before it
// sleeps.
package spin

import "time"

// To be woken takes longer than most answers, so who waits looks around first, letting
// others run in between. Where processes outnumber cores that keeps the others from
// theirs, and a system that takes yielding for a lack of interest gives cores back late.
const (
	Roomy   = 50 // looks in a wait where there is a core for each process
	Crowded = 3  // where there is not

	late    = time.Millisecond // a yield that took as long gave the core to a stranger
	fewest  = 16               // waits without a look, after such a yield
	longest = 1024
)

// Spin is how often one side looks before it sleeps. Beside processes that compute, a
// yield costs their whole turn, many milliseconds, where a sleeper is woken at once. So a
// yield that took long is followed by waits without any, twice as many each time.
type Spin struct {
	Patience int // looks in a wait
	pause    int // waits without a look that the last late yield was followed by
	left     int // of them
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
	switch {
	case looks >= s.Patience:
		return false
	case s.left > 0:
		s.left--
		return false
	}
	before := s.now()
	s.yield()
	if s.now()-before < late {
		s.pause /= 2
		return true
	}
	s.pause = min(max(fewest, 2*s.pause), longest)
	s.left = s.pause
	return true
}
