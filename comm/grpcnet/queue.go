package grpcnet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// errQueueClosed ends a push to a peer that is gone; errQueueFull one that
// waited for too long.
var (
	errQueueClosed = errors.New("queue closed")
	errQueueFull   = errors.New("queue full")
)

// maxQueued bounds the number of frames that wait, whatever their size.
const maxQueued = 4096

// queue holds what a link still has to send, in order. Frames wait for room;
// messages of the link itself do not.
type queue struct {
	maxBytes int
	wake     chan struct{} // one token: there is something to take

	mu     sync.Mutex
	items  []item
	first  int
	frames int
	bytes  int
	closed bool
	hopers []*hoper // who wait for room
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

// item is a frame or a message of the link's own.
type item struct {
	frame comm.Frame
	msg   []byte
}

func newQueue(maxBytes int) *queue {
	return &queue{maxBytes: maxBytes, wake: make(chan struct{}, 1)}
}

// push adds a frame, waiting for room no longer than wait, which t counts. On an
// error the frame is still the caller's.
func (q *queue) push(ctx context.Context, f comm.Frame, wait time.Duration, t *comm.Traffic) error {
	ok, err := q.try(f, nil)
	if ok || err != nil {
		return err
	}
	h := hopers.Get().(*hoper)
	h.late.Reset(wait)
	began := monotonic()
	defer func() {
		t.Block(monotonic()-began, 0)
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
			err = errQueueFull
		}
		q.forget(h)
		return err
	}
}

// try adds a frame if there is room. If not, h, unless it is nil, is told once
// there may be.
func (q *queue) try(f comm.Frame, h *hoper) (ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return false, errQueueClosed
	case q.frames == 0 || (q.bytes+len(f.Body) <= q.maxBytes && q.frames < maxQueued):
		q.frames++
		q.bytes += len(f.Body)
		q.add(item{frame: f})
		return true, nil
	case h != nil:
		q.hopers = append(q.hopers, h)
	}
	return false, nil
}

// forget tells h nothing any more.
func (q *queue) forget(h *hoper) {
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

// tell adds a message of the link's own. It never waits.
func (q *queue) tell(msg []byte) {
	q.mu.Lock()
	q.add(item{msg: msg})
	q.mu.Unlock()
}

// add appends and wakes the sender. Callers hold mu.
func (q *queue) add(it item) {
	q.items = append(q.items, it)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// waiting says whether there is something to take.
func (q *queue) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.first < len(q.items)
}

// take returns the next item, if there is one.
func (q *queue) take() (item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first == len(q.items) {
		return item{}, false
	}
	it := q.items[q.first]
	q.items[q.first] = item{}
	q.first++
	switch {
	case q.first == len(q.items):
		q.items, q.first = q.items[:0], 0
	case q.first >= 64 && q.first*2 >= len(q.items): // a queue that is never empty must not crawl on
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	if it.msg == nil {
		q.frames--
		q.bytes -= len(it.frame.Body)
		q.signal()
	}
	return it, true
}

// signal lets those who wait for room look again. Callers hold mu.
func (q *queue) signal() {
	for i, h := range q.hopers {
		h.room <- struct{}{} // it is empty: who was told is no longer among them
		q.hopers[i] = nil
	}
	q.hopers = q.hopers[:0]
}

// close refuses further frames and forgets those that wait. The link's own
// messages are kept.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	kept := q.items[:0]
	for _, it := range q.items[q.first:] {
		if it.msg != nil {
			kept = append(kept, it)
		} else {
			it.frame.Release()
		}
	}
	clear(q.items[len(kept):])
	q.items, q.first, q.frames, q.bytes = kept, 0, 0, 0
	q.signal()
}
