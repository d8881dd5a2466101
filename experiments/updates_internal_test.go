package experiments

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// An update that takes long is estimated after its first micro-batch, shown as it goes on,
// and broken off between two of them by a stop; one that ends soon is brought to its end.
func TestLongUpdate(t *testing.T) {
	t.Parallel()
	var now time.Duration
	var notes []string
	var done, of int
	stop, again := false, false
	u := &updates{long: HurryTime, workers: 2, here: 2, steps: 10, stopping: func() bool { return stop }, again: func() bool { return again }, now: func() time.Duration { return now },
		note: func(s string) { notes = append(notes, s) }, show: func(d, o int) { done, of = d, o }}
	pass := func(worker, step, i int, takes time.Duration) error {
		t.Helper()
		err := u.between(worker, step, i, 8)
		now += takes
		return err
	}
	for i := range 8 {
		for w := range 2 {
			if err := pass(w, 0, i, 10*time.Second); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "a step has 8 micro-batches on each of 2 workers and takes about 2m40s here, the run about 26m40s") {
		t.Errorf("%q", notes)
	}
	if done != 15 || of != 16 {
		t.Errorf("%d of %d micro-batches are shown, want 15 of 16", done, of)
	}
	pass(0, 1, 0, 10*time.Second)
	stop = true
	if err := pass(1, 1, 0, 10*time.Second); !errors.Is(err, errWithin) {
		t.Errorf("a stop within an update of 160 s: %v", err)
	}
	again = true
	if err := pass(1, 1, 1, 10*time.Second); !errors.Is(err, errWithinAgain) {
		t.Errorf("a stop that asks for another start: %v", err)
	}
	for i := range 8 {
		for w := range 2 {
			if err := pass(w, 2, i, time.Second); err != nil { // 16 s
				t.Errorf("a stop within an update of 16 s, micro-batch %d: %v", i, err)
			}
		}
	}
}

// A rank that breaks an update off is known by its text to those that it ends, however many
// ranks lie between, and so is whether the run is to be started again.
func TestBrokenOffElsewhere(t *testing.T) {
	t.Parallel()
	through := func(err error) error {
		for rank := range 2 {
			err = fmt.Errorf("rank %d: %w", 7, &comm.PeerError{Rank: rank, Cause: fmt.Sprintf("worker %d, gradient of step 3: %v", rank, err)})
		}
		return err
	}
	for _, c := range []struct {
		err        error
		off, again bool
	}{
		{errWithin, true, false}, {errWithinAgain, true, true}, {through(errWithin), true, false}, {through(errWithinAgain), true, true},
		{nil, false, false}, {errors.New("it says: stopped within an update"), false, false}, {through(errors.New("stopped within an update, it said")), false, false},
	} {
		if off, again := brokenOff(c.err); off != c.off || again != c.again {
			t.Errorf("%v: broken off %v, to be started again %v", c.err, off, again)
		}
	}
}

// A checkpoint is due after every update that takes so long that a stop breaks it off.
func TestDueAfterLongUpdates(t *testing.T) {
	t.Parallel()
	d := newInTime(time.Hour)
	now := int64(monotonic())
	if d.dueAt(now) || d.dueAt(now+int64(time.Second)) {
		t.Error("due after a short update")
	}
	if now += int64(time.Second + HurryTime); !d.dueAt(now) || !d.told() {
		t.Error("not due after a long update")
	}
	d.written(time.Minute)
	if d.dueAt(now + int64(HurryTime)) {
		t.Error("due again before writing is a twentieth of the time")
	}
}
