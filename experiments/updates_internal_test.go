package experiments

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// An update that takes long is estimated after its first micro-batch, shown as it goes on,
// and broken off between two of them by a stop; one that ends soon is brought to its end.
func TestLongUpdate(t *testing.T) {
	t.Parallel()
	var now time.Duration
	var notes []string
	var done, of int
	stop := false
	u := &updates{long: HurryTime, workers: 2, steps: 10, stopping: func() bool { return stop }, now: func() time.Duration { return now },
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
	for i := range 8 {
		for w := range 2 {
			if err := pass(w, 2, i, time.Second); err != nil { // 16 s
				t.Errorf("a stop within an update of 16 s, micro-batch %d: %v", i, err)
			}
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
