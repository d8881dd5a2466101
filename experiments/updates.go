package experiments

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/sgd/train"
)

// HurryTime is how long a program that computes a model has for each answer once the run is
// asked to stop, and how long a stop waits for the end of an update.
const HurryTime = 20 * time.Second

// errWithin ends a run that was asked to stop within an update that takes long, and
// errWithinAgain one that is also to be started again. Other processes know them by their
// texts.
var (
	errWithin      = errors.New("stopped within an update")
	errWithinAgain = fmt.Errorf("to be started again, %w", errWithin)
)

// brokenOff reports whether err is errWithin, of a rank of this process or of one whose end
// it follows from, and whether the run is to be started again.
func brokenOff(err error) (off, again bool) {
	gone := new(comm.PeerError)
	off = errors.Is(err, errWithin) || errors.As(err, &gone) && strings.HasSuffix(gone.Cause, errWithin.Error())
	return off, off && strings.Contains(err.Error(), errWithinAgain.Error())
}

// breaksOff reports whether a stop breaks off long updates of a run. Between processes it
// does where all workers stop at one step: elsewhere the others would go on without the
// worker that broke off first.
func breaksOff(c config.Config, job *train.Job) bool {
	if c.OnNet().Ranks == config.RanksHere {
		return true
	}
	return !job.Elastic && job.StopRule(c.Emulate, 0) == train.StopAtStep
}

// updates follows the micro-batches of updates that take long. It shows how many are
// made, estimates the run from the first, and breaks an update off for a stop.
type updates struct {
	long     time.Duration // a stop waits for the end of an update so long
	workers  int
	here     int // workers of this process
	steps    int // of each worker in the run
	stopping func() bool
	again    func() bool // reports whether the stop asks for another start
	now      func() time.Duration
	note     func(string)
	show     func(done, of int)

	mu    sync.Mutex
	ended error         // why the run has ended while workers here compute; nil: it has not
	begun int           // micro-batches of the present step, of the workers here; 0: none yet
	step  int           // the present one: the furthest of any worker
	since time.Duration // when it began
	told  bool          // the estimate
	shown time.Duration // when progress was
}

// newUpdates follows the updates of a job of which this process has so many workers.
func newUpdates(job *train.Job, here int, again func() bool) *updates {
	return &updates{long: HurryTime, workers: job.Workers, here: here, steps: job.Updates * job.PerUpdate() / job.Workers, stopping: job.Stopping, again: again,
		now: monotonic, note: func(string) {}, show: func(int, int) {}}
}

// end has the workers here break their updates off: the run has ended elsewhere.
func (u *updates) end(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = err
}

// between is train.Job.Between: a micro-batch begins.
func (u *updates) between(_, step, _, of int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended != nil {
		return u.ended
	}
	now := u.now()
	if step > u.step || u.begun == 0 {
		u.step, u.since, u.begun = step, now, 0
	}
	if step != u.step {
		return nil
	}
	done, all := u.begun, of*u.here // those that are being computed count as done
	if u.begun++; done == 0 {
		return nil
	}
	each := (now - u.since) / time.Duration(done)
	if whole := each * time.Duration(all); whole > u.long {
		if !u.told {
			u.told = true
			u.note(fmt.Sprintf("a step has %d micro-batches on each of %d workers and takes about %s here, the run about %s",
				of, u.workers, progress.Seconds(whole.Seconds()), progress.Seconds(float64(u.steps)*whole.Seconds())))
		}
		if now-u.shown >= time.Second {
			u.shown = now
			u.show(done, all)
		}
	}
	if each*time.Duration(all-done) > u.long && u.stopping() {
		if u.again() {
			return errWithinAgain
		}
		return errWithin
	}
	return nil
}
