package lane

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// ErrClosed ends a push to a peer that is gone; ErrFull one that
// waited for too long.
var (
	ErrClosed = errors.New("queue closed")
	ErrFull   = errors.New("queue full")
)

// maxQueued bounds the number of frames that wait, whatever their size.
const maxQueued = 4096

// Queue holds what a link still has to send, in order. Frames wait for room;
// messages of the link itself do not.
type Queue struct {
	// Wake holds a token when there is something to take.
	Wake chan struct{}

	maxBytes int
	mu       sync.Mutex
	items    []Item
	first    int
	frames   int
	bytes    int
	closed   bool
	hopers   []*hoper // who wait for room
}

// hoper waits for room in a queue.
type hoper struct {
	room chan struct{} // has a token when there may be some
	late *time.Timer
}

var hopers = sync.Pool{New: func() any {
	h := &hoper{make(chan struct{}, 1), time.NewTimer(time.Hour)}
	h.late.Stop()
	return h
}}

// Item is a frame or a message of the link's own.
type Item struct {
	Frame comm.Frame
	Msg   []byte // nil: it is a frame
}

// NewQueue makes a queue for maxBytes of bodies; a single larger frame passes.
func NewQueue(maxBytes int) *Queue {
	return &Queue{maxBytes: maxBytes, Wake: make(chan struct{}, 1)}
}

// Push adds a frame, waiting for room no longer than wait, which t counts. On an
// error the frame is still the caller's.
func (q *Queue) Push(ctx context.Context, f comm.Frame, wait time.Duration, t *comm.Traffic) error {
	ok, err := q.try(f, nil)
	if ok || err != nil {
		return err
	}
	h := hopers.Get().(*hoper)
	h.late.Reset(wait)
	began := time.Now()
	defer func() {
		t.Block(time.Since(began), 0)
		h.late.Stop()
		hopers.Put(h)
	}()
	for {
		if ok, err := q.try(f, h); ok || err != nil {
			return err
		}
		select {
		case <-h.room:
			continue
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-h.late.C:
			err = ErrFull
		}
		q.forget(h)
		return err
	}
}

// try adds a frame if there is room. If not, h, unless it is nil, is told once
// there may be.
func (q *Queue) try(f comm.Frame, h *hoper) (ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return false, ErrClosed
	case q.frames == 0 || (q.bytes+len(f.Body) <= q.maxBytes && q.frames < maxQueued):
		q.frames++
		q.bytes += len(f.Body)
		q.add(Item{Frame: f})
		return true, nil
	case h != nil:
		q.hopers = append(q.hopers, h)
	}
	return false, nil
}

// forget tells h nothing any more.
func (q *Queue) forget(h *hoper) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.hopers, h); i >= 0 {
		q.hopers = slices.Delete(q.hopers, i, i+1)
	}
	select {
	case <-h.room:
	default:
	}
}

// Tell adds a message of the link's own. It never waits.
func (q *Queue) Tell(msg []byte) {
	q.mu.Lock()
	q.add(Item{Msg: msg})
	q.mu.Unlock()
}

// add appends and wakes the sender. Callers hold mu.
func (q *Queue) add(it Item) {
	q.items = append(q.items, it)
	select {
	case q.Wake <- struct{}{}:
	default:
	}
}

// Waiting says whether there is something to take.
func (q *Queue) Waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.first < len(q.items)
}

// Take returns the next Item, if there is one.
func (q *Queue) Take() (Item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first == len(q.items) {
		return Item{}, false
	}
	it := q.items[q.first]
	q.items[q.first] = Item{}
	q.first++
	switch {
	case q.first == len(q.items):
		q.items, q.first = q.items[:0], 0
	case q.first >= 64 && q.first*2 >= len(q.items): // a queue that is never empty must not crawl on
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	if it.Msg == nil {
		q.frames--
		q.bytes -= len(it.Frame.Body)
		q.signal()
	}
	return it, true
}

// signal lets those who wait for room look again. Callers hold mu.
func (q *Queue) signal() {
	for i, h := range q.hopers {
		h.room <- struct{}{} // it is empty: who was told is no longer among them
		q.hopers[i] = nil
	}
	q.hopers = q.hopers[:0]
}

// Close refuses further frames and forgets those that wait. The link's own
// messages are kept.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	kept := q.items[:0]
	for _, it := range q.items[q.first:] {
		if it.Msg != nil {
			kept = append(kept, it)
		} else {
			it.Frame.Release()
		}
	}
	clear(q.items[len(kept):])
	q.items, q.first, q.frames, q.bytes = kept, 0, 0, 0
	q.signal()
}
