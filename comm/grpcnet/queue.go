package grpcnet

import (
	"context"
	"errors"
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
	room   chan struct{} // closed when room was made, nil if nobody waits
}

// item is a frame or a message of the link's own.
type item struct {
	frame comm.Frame
	msg   []byte
}

func newQueue(maxBytes int) *queue {
	return &queue{maxBytes: maxBytes, wake: make(chan struct{}, 1)}
}

// push adds a frame, waiting for room. On an error the frame is still the
// caller's.
func (q *queue) push(ctx context.Context, f comm.Frame, wait time.Duration) error {
	var timeout <-chan time.Time
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return errQueueClosed
		}
		if q.frames == 0 || (q.bytes+len(f.Body) <= q.maxBytes && q.frames < maxQueued) {
			q.frames++
			q.bytes += len(f.Body)
			q.add(item{frame: f})
			q.mu.Unlock()
			return nil
		}
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()
		if timeout == nil {
			t := time.NewTimer(wait)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout:
			return errQueueFull
		}
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
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
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
