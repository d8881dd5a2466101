package experiments

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd/external"
	"github.com/gradlab/gradlab/sgd/train"
)

// stopFile in a run's folder asks the process that makes the run to stop it.
const stopFile = "stop"

// requeueWord in a stopFile says that the run is to be started again.
const requeueWord = "requeue\n"

// RequestStop asks for what the first Ctrl-C does: the run in this folder stops
// after a checkpoint, and the command that makes it ends. It does not wait.
func RequestStop(folder string) error { return requestStop(folder, "") }

// requestStop is RequestStop with a word to those who make the run.
func requestStop(folder, word string) error {
	var s Status
	if err := readJSON(filepath.Join(folder, "status.json"), &s); err != nil {
		return err
	}
	if s.State != "running" || !Busy(folder) {
		return fmt.Errorf("%s is not running", folder)
	}
	// Whole at once: who looks for it sees the word, too.
	path := filepath.Join(folder, stopFile)
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(part, []byte(word), permOf(folder)); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// forgetStop takes a request away with the run, and notes that there was one: the
// run may have had no step left to take it at.
func (f *folder) forgetStop(asked *atomic.Bool) {
	theirs := f.told.Load() && !f.heard.Load() // ranks that the launcher stopped said so, too
	if err := os.Remove(f.file(stopFile)); err == nil && asked != nil && !theirs {
		asked.Store(true)
	}
}

// stopLook is how often a run looks for a request to stop; it is asked at
// every step.
const stopLook = 100 * time.Millisecond

// stopping adds requests to stop, made through the folder, to another reason. Requeue,
// which may be nil, is set by one after which the run is to be started again.
func (f *folder) stopping(other func() bool, requeue *atomic.Bool) func() bool {
	var asked atomic.Bool
	var next atomic.Int64
	return func() bool {
		if asked.Load() || other != nil && other() {
			return true
		}
		now, at := int64(monotonic()), next.Load()
		if now < at || !next.CompareAndSwap(at, now+int64(stopLook)) {
			return false
		}
		if _, err := os.Stat(f.file(stopFile)); err == nil {
			if word, _ := regular.ReadFile(f.file(stopFile), 1024); requeue != nil && string(word) == requeueWord {
				requeue.Store(true)
			}
			if asked.Store(true); !f.told.Load() {
				f.heard.Store(true)
			}
		}
		return asked.Load()
	}
}

// stopped says how a run that has left a checkpoint goes on.
func stopped(job *train.Job, virtual bool, step int) error {
	rule := job.StopRule(virtual, step)
	switch {
	case rule == train.StopDrained:
		return Stopped("the checkpoint is written, --resume goes on. Workers do not wait for each other here and the clock is a real one, so that it goes on otherwise than it would have without a stop")
	case virtual && rule == train.StopAtStep && !job.ClockGoesOn(rule):
		return Stopped("the checkpoint is written, --resume goes on to the same bits. Frames were under way: the virtual clock goes on to within the time of one exchange, and exactly only from the marks that checkpoint_every sets")
	}
	return ErrStopped
}

// hurries lets programs have so long for each answer, 0 for HurryTime, from when a stop is
// asked for until end is called.
func hurries(asked func() bool, within time.Duration) (end func()) {
	ctx, cancel := UntilStopped(context.Background(), asked)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if <-ctx.Done(); asked() {
			external.Hurry(cmp.Or(within, HurryTime))
		}
	}()
	return func() {
		cancel()
		<-done
		external.Hurry(0)
	}
}

// hurried says what a stop leaves for which a program took too long, the last checkpoint
// being of step kept.
func hurried(err error, kept int) string {
	return fmt.Sprintf("%v\n--resume goes on %s and makes the steps since then again", err, since(kept))
}

// within says what a stop within an update leaves, the last checkpoint being of step kept.
func within(kept int) string {
	return fmt.Sprintf("stopped between the micro-batches of an update, the rest of which would have taken long; --resume goes on %s and makes the steps since then again", since(kept))
}

// unmarked says what a stop between marks leaves, the last checkpoint being of
// step kept.
func unmarked(kept int) string {
	return fmt.Sprintf("no mark of checkpoint_every lay ahead, so --resume goes on %s and makes the steps since then again, to the same bits", since(kept))
}

// since is where a run goes on whose last checkpoint is of step kept; 0: it has none.
func since(kept int) string {
	if kept > 0 {
		return fmt.Sprintf("from step %d", kept)
	}
	return "at the start"
}
