package nemesis

import (
	"errors"
	"fmt"
	"time"
)

// Kill ends a process at an instant, as SIGKILL does: what it has sent arrives, what is
// sent to it is lost, and it does not come back but by fault rejoin.
//
//	at t = at: the rank stops, and the others are told
//
// Paper: Jepsen's nemesis of the name (Kingsbury 2013).
// Tuning: with several servers an instant inside a push tears it.
// Cost: none while the run goes on.
type Kill struct {
	Rank string        `spec:",show" doc:"who: w0, s0, observer"`
	At   time.Duration `spec:",show" doc:"when, on the run's clock"`
}

var _ = Faults.Add("kill", "a process is killed", Kill{Rank: "w0"})

// Validate checks the options.
func (f Kill) Validate() error { return errors.Join(named(f.Rank), within(f.At, 0)) }

// Draw implements Fault.
func (f Kill) Draw(w World) ([]Fault, error) {
	_, err := w.rank(f.Rank)
	return []Fault{f}, err
}

// Act implements Actor.
func (f Kill) Act(w World) (Act, error) {
	r, err := w.rank(f.Rank)
	return Act{What: Killing, Rank: r, At: f.At}, err
}

// Rejoin starts the process of a worker that has ended again. It joins the run as a new
// member of it, which runs with elastic=on permit. Of a rank that lives it does nothing.
// When a server comes back, or a worker with a relay, all ranks meet again at that instant,
// and go back to the last checkpoint.
//
//	at t = at: the rank begins anew, with nothing of what it had
//
// Paper: elastic training as TorchElastic has it (PyTorch 1.9); we start one worker again,
// and not all.
// Tuning: kill(w1,at=1s)+rejoin(w1,at=2s) is a process that takes a second to come back.
// Cost: none while the run goes on.
type Rejoin struct {
	Rank string        `spec:",show" doc:"who: w0, s0, observer"`
	At   time.Duration `spec:",show" doc:"when, on the run's clock"`
}

var _ = Faults.Add("rejoin", "the process of a rank starts again", Rejoin{Rank: "w0"})

// Validate checks the options.
func (f Rejoin) Validate() error { return errors.Join(named(f.Rank), within(f.At, 0)) }

// Draw implements Fault.
func (f Rejoin) Draw(w World) ([]Fault, error) {
	_, err := w.rank(f.Rank)
	return []Fault{f}, err
}

// Act implements Actor.
func (f Rejoin) Act(w World) (Act, error) {
	r, err := w.rank(f.Rank)
	return Act{What: Joining, Rank: r, At: f.At}, err
}

// Pause stops a process for a while, as SIGSTOP and SIGCONT do, or a virtual machine that
// moves: nothing of it runs, what it computes takes so much longer, and what is sent to it
// waits. One that is away for longer than its lease counts as dead, by the coordinator's
// word, and finds that out when it wakes.
//
//	at ≤ t < at + for: the rank does nothing
//
// Paper: Jepsen's nemesis of the name (Kingsbury 2013).
// Tuning: for below the lease is a straggler, above it a death.
// Cost: none while the run goes on.
type Pause struct {
	Rank string        `spec:",show" doc:"who: w0, s0, observer"`
	At   time.Duration `spec:",show" doc:"when, on the run's clock"`
	For  time.Duration `spec:",show" doc:"for how long"`
}

var _ = Faults.Add("pause", "a process is stopped for a while", Pause{Rank: "w0", For: time.Second})

// Validate checks the options.
func (f Pause) Validate() error {
	if f.For <= 0 {
		return fmt.Errorf(`option "for": want a duration above 0, not %v`, f.For)
	}
	return errors.Join(named(f.Rank), within(f.At, f.For))
}

// Draw implements Fault.
func (f Pause) Draw(w World) ([]Fault, error) {
	_, err := w.rank(f.Rank)
	return []Fault{f}, err
}

// Act implements Actor.
func (f Pause) Act(w World) (Act, error) {
	r, err := w.rank(f.Rank)
	return Act{What: Pausing, Rank: r, At: f.At, For: f.For}, err
}

// horizon bounds instants, so that their sums do not overflow.
const horizon = 1 << 60

// within checks a stretch of time.
func within(at, length time.Duration) error {
	switch {
	case at < 0 || at > horizon:
		return fmt.Errorf(`option "at": want an instant of the run, such as 1.5s, not %v`, at)
	case length < 0 || length > horizon:
		return fmt.Errorf(`option "for": want a duration of 0 or more, 0 for the rest of the run, not %v`, length)
	}
	return nil
}
