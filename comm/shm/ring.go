// Package shm moves bytes between two processes of one host through memory that
// both of them map: a ring in each direction, and a pipe on which one side rings
// for the other when that has gone to sleep.
//
// What the other process writes into the memory is not believed: its counters
// are checked against our own before anything is read by them, and where we stand
// is never read back.
package shm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"unsafe"

	"github.com/gradlab/gradlab/internal/spin"
)

// ErrCorrupt is returned when the other side's counters cannot be.
var ErrCorrupt = errors.New("shared memory holds what cannot be")

// ErrClosed ends waits on a link that was closed.
var ErrClosed = errors.New("the link is closed")

// The counters of one direction, at these places of its control block, each on
// cache lines of its own. Both count bytes since the beginning.
const (
	atHead   = 0   // u64, the writer's: bytes written
	atTail   = 128 // u64, the reader's: bytes read
	atAsleep = 256 // u32, 1 while the reader sleeps
	atWanted = 384 // u64, the tail that the sleeping writer waits for, 0 while it is awake
	control  = 512
)

// ring is one direction as one side sees it.
type ring struct {
	data   []byte
	head   *atomic.Uint64
	tail   *atomic.Uint64
	asleep *atomic.Uint32
	wanted *atomic.Uint64
	bell   *bell        // tells the other side
	ear    *ear         // is told by the other side
	closed *atomic.Bool // of the link
	spin   spin.Spin
}

func newRing(ctl, data []byte, b *bell, e *ear, closed *atomic.Bool) ring {
	word := func(at int) unsafe.Pointer { return unsafe.Pointer(&ctl[at]) }
	return ring{
		spin: spin.New(yield), data: data, bell: b, ear: e, closed: closed,
		head: (*atomic.Uint64)(word(atHead)), tail: (*atomic.Uint64)(word(atTail)),
		asleep: (*atomic.Uint32)(word(atAsleep)), wanted: (*atomic.Uint64)(word(atWanted)),
	}
}

// span is the part of n bytes from position at that lies together.
func (r *ring) span(at uint64, n int) []byte {
	from := int(at % uint64(len(r.data)))
	return r.data[from:min(from+n, len(r.data))]
}

// Writer is the sending end of a direction. It is for one goroutine at a time.
type Writer struct {
	ring
	at    uint64 // bytes written
	shown uint64 // of them published
	freed uint64 // bytes the reader was last seen to have read
}

// Cap is the size of the ring.
func (w *Writer) Cap() int { return len(w.data) }

// Taken is how many bytes the other side says it has read. Safe for concurrent
// use.
func (w *Writer) Taken() uint64 { return w.tail.Load() }

// Room is how many bytes can be written at once.
func (w *Writer) Room() (int, error) {
	tail := w.tail.Load()
	if tail < w.freed || tail > w.shown {
		return 0, fmt.Errorf("%w: %d bytes were read, %d before, of %d written", ErrCorrupt, tail, w.freed, w.shown)
	}
	w.freed = tail
	return len(w.data) - int(w.at-tail), nil
}

// Wait waits until there is room for n bytes, at most Cap. It ends early with
// the cause of ctx, or when the link is closed or the other side has gone.
func (w *Writer) Wait(ctx context.Context, n int) error {
	if n > len(w.data) {
		return fmt.Errorf("room for %d bytes in a ring of %d", n, len(w.data))
	}
	for looks := 0; ; looks++ {
		room, err := w.Room()
		switch {
		case w.closed.Load():
			return ErrClosed
		case err != nil || room >= n:
			return err
		case w.Hidden() > 0:
			w.Publish() // the reader makes room of what it sees
			continue
		case w.spin.Again(looks):
			continue
		}
		w.wanted.Store(w.at + uint64(n) - uint64(len(w.data)))
		room, err = w.Room()
		if err == nil && room < n {
			err = w.ear.listen(ctx)
		}
		w.wanted.Store(0)
		if err != nil {
			return err
		}
	}
}

// Next is the free space that lies together at the end of what was written, of
// at most n bytes. It is the caller's until Wrote.
func (w *Writer) Next(n int) []byte {
	return w.span(w.at, min(n, len(w.data)-int(w.at-w.freed)))
}

// Wrote says that the next n bytes are written. The reader sees them from the next
// Publish on.
func (w *Writer) Wrote(n int) { w.at += uint64(n) }

// Hidden is how many bytes were written and not published.
func (w *Writer) Hidden() int { return int(w.at - w.shown) }

// Publish shows the reader all that was written.
func (w *Writer) Publish() {
	w.shown = w.at
	w.head.Store(w.at)
	if w.asleep.Load() == 1 && w.asleep.CompareAndSwap(1, 0) {
		w.bell.ring()
	}
}

// Reader is the receiving end of a direction. Look, Again and Consume are for one goroutine
// at a time. Another one may be in Wait meanwhile.
type Reader struct {
	ring
	at       atomic.Uint64 // bytes read
	finished atomic.Bool
	eager    spin.Spin // of who looks without Wait
}

// Wait waits until there is something to look at: bytes, or the end.
func (r *Reader) Wait() {
	for looks := 0; !r.news(); looks++ {
		if r.spin.Again(looks) {
			continue
		}
		r.asleep.Store(1)
		var err error
		if !r.news() {
			err = r.ear.listen(context.Background())
		}
		r.asleep.Store(0)
		if errors.Is(err, io.EOF) { // what was written before still counts
			r.finished.Store(true)
		}
	}
}

// news says whether Look would find something.
func (r *Reader) news() bool {
	return r.head.Load() != r.at.Load() || r.closed.Load() || r.finished.Load()
}

// Look returns the bytes that have come and lie together, none if there are none;
// they are the caller's until Consume. At the end, that is when all was read and the
// other side has gone or Finish was called, it returns io.EOF.
func (r *Reader) Look() ([]byte, error) {
	over := r.finished.Load() // nothing is written after that
	at := r.at.Load()
	n := r.head.Load() - at
	switch {
	case r.closed.Load():
		return nil, ErrClosed
	case n > uint64(len(r.data)):
		return nil, fmt.Errorf("%w: %d bytes are unread in a ring of %d", ErrCorrupt, n, len(r.data))
	case n == 0 && over:
		return nil, io.EOF
	}
	return r.span(at, int(n)), nil
}

// Again says whether who found nothing, in that many looks, should look again rather
// than leave it to another goroutine's Wait. It is for who may Look.
func (r *Reader) Again(looks int) bool { return r.eager.Again(looks) }

// Consume gives the first n bytes of what Look returned back to the writer.
func (r *Reader) Consume(n int) {
	at := r.at.Load() + uint64(n)
	r.at.Store(at)
	r.tail.Store(at)
	if want := r.wanted.Load(); want != 0 && at >= want && r.wanted.CompareAndSwap(want, 0) {
		r.bell.ring()
	}
}

// Finish lets Wait end once all that was written is read. Safe for concurrent
// use.
func (r *Reader) Finish() {
	r.finished.Store(true)
	r.ear.interrupt()
}
