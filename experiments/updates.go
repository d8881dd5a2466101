package experiments

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gradlab/gradlab/experiments/progress"
)

// errWithin ends a run that was asked to stop within an update that takes long.
var errWithin = errors.New("stopped within an update")

// within says what a stop within an update leaves, the last checkpoint being of step kept.
func within(kept int) string {
	return fmt.Sprintf("stopped between the micro-batches of an update, the rest of which would have taken long; --resume goes on %s and makes the steps since then again", since(kept))
}

// updates follows the micro-batches of updates that take long. It shows how many are
// made, estimates the run from the first, and breaks an update off for a stop.
type updates struct {
	long     time.Duration // a stop waits for the end of an update so long
	workers  int
	steps    int // of each worker in the run
	stopping func() bool
	now      func() time.Duration
	note     func(string)
	show     func(done, of int)

	mu    sync.Mutex
	begun int           // micro-batches of the present step, of all workers; 0: none yet
	step  int           // the present one: the furthest of any worker
	since time.Duration // when it began
	told  bool          // the estimate
	shown time.Duration // when progress was
}

// between is train.Job.Between: a micro-batch begins.
func (u *updates) between(_, step, _, of int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	if step > u.step || u.begun == 0 {
		u.step, u.since, u.begun = step, now, 0
	}
	if step != u.step {
		return nil
	}
	done, all := u.begun, of*u.workers // those that are being computed count as done
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
		return errWithin
	}
	return nil
}
