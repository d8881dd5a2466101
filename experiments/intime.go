package experiments

import (
	"sync/atomic"
	"time"
)

// CheckpointTime is how often a run whose checkpoint_every is 0 keeps a checkpoint,
// where that changes nothing: in the modes in which all workers are in step, whose
// ranks tell their states in passing, and on real clocks.
const CheckpointTime = 5 * time.Minute

var begun = time.Now()

// monotonic is the time since this process began. Nobody can set it: what is due is
// decided by it, and the wall clock is only told.
func monotonic() time.Duration { return time.Since(begun) }

// inTime says when a checkpoint is due, once for each.
type inTime struct {
	every time.Duration
	next  atomic.Int64 // by the clock of monotonic
	asked atomic.Bool  // one was due, and is not told yet
	last  atomic.Int64 // when due was called last
	rest  atomic.Int64 // none is due before, however long updates are
}

func newInTime(every time.Duration) *inTime {
	t := &inTime{every: every}
	t.next.Store(int64(monotonic() + every))
	return t
}

// due says so once, to whoever asks first. Where updates are so long that a stop breaks
// them off, a checkpoint is due after each.
func (t *inTime) due() bool { return t.dueAt(int64(monotonic())) }

func (t *inTime) dueAt(now int64) bool {
	at := t.next.Load()
	last := t.last.Swap(now)
	long := last > 0 && now-last >= int64(HurryTime) && now >= t.rest.Load()
	due := (now >= at || long) && t.next.CompareAndSwap(at, now+int64(t.every))
	if due {
		t.asked.Store(true)
	}
	return due
}

// told says whether a checkpoint that was written is one that was due.
func (t *inTime) told() bool { return t.asked.Swap(false) }

// written notes that a checkpoint was, and how long that took: no more than a
// twentieth of the time goes into them.
func (t *inTime) written(took time.Duration) {
	now := monotonic()
	t.next.Store(int64(now + max(t.every, 20*took)))
	t.rest.Store(int64(now + 20*took))
}
