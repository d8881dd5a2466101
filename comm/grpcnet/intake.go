package grpcnet

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/shm"
)

// intake is the receiving end of a lane. Whoever waits for a frame of the peer reads
// for a moment by itself, so that nobody has to be woken when it comes. A goroutine
// of the lane reads all the rest.
type intake struct {
	reading sync.Mutex // guards what follows, and reading from memory
	link    *link
	from    *shm.Reader
	in      inbox
	text    []byte // what there is of a record's beginning, or of a whole one that is no frame
	want    int    // how long that will be
	zeros   int    // how many are still to come after a body
	err     error  // what ended it

	fetched atomic.Uint64 // times that a wait has read
	resting atomic.Bool   // the goroutine leaves reading to waits
	rouse   chan struct{} // ends its rest
	drained chan struct{} // closed when nothing more is read
}

// rest is how long the lane's goroutine leaves reading to waits that do it, unless
// somebody sleeps.
const rest = time.Millisecond

func (n *intake) begin(l *link, s *shm.Link) {
	n.link, n.from, n.want = l, &s.In, recordHead
	n.in = inbox{max: l.run.cfg.MaxFrame, claim: l.claim}
	n.rouse, n.drained = make(chan struct{}, 1), make(chan struct{})
}

// receive takes what comes in until the lane ends.
func (n *intake) receive() {
	defer close(n.drained)
	nap := time.NewTimer(rest)
	defer nap.Stop()
	seen := n.fetched.Load()
	for {
		free := n.reading.TryLock()
		if free {
			err := n.read(nil)
			n.reading.Unlock()
			if err != nil {
				return
			}
		}
		now := n.fetched.Load()
		switch {
		case now != seen && n.rests(nap):
			seen = now
		case free:
			n.from.Wait()
		default:
			runtime.Gosched()
		}
	}
}

// rests lets waits read for a while, unless one of them sleeps.
func (n *intake) rests(nap *time.Timer) bool {
	n.resting.Store(true)
	defer n.resting.Store(false)
	if n.link.run.sleeping.Load() > 0 {
		return false
	}
	nap.Reset(rest)
	select {
	case <-nap.C:
	case <-n.rouse:
	}
	return true
}

// wake ends the rest of the lane's goroutine.
func (n *intake) wake() {
	if n.resting.Load() {
		select {
		case n.rouse <- struct{}{}:
		default:
		}
	}
}

// fetch reads what is there until w is over, and if it may wait, until nothing has
// come for a moment.
func (n *intake) fetch(w *comm.Receipt, wait bool) {
	n.fetched.Add(1)
	if !n.reading.TryLock() {
		return
	}
	defer n.reading.Unlock()
	for looks := 0; n.read(w) == nil && wait && !w.Over() && n.from.Again(looks); looks++ {
	}
}

// read takes what is there, no more than ends w. Callers hold reading.
func (n *intake) read(w *comm.Receipt) error {
	for n.err == nil && !(w != nil && w.Over()) {
		b, err := n.from.Look()
		if n.err = err; err != nil || len(b) == 0 {
			break
		}
		b = b[:min(len(b), slice)]
		used := 0
		for used < len(b) && n.err == nil && !(w != nil && w.Over()) {
			k, err := n.take(b[used:])
			used, n.err = used+k, err
		}
		n.from.Consume(used)
	}
	switch {
	case n.err == nil:
		return nil
	case errors.Is(n.err, io.EOF), errors.Is(n.err, shm.ErrClosed): // the stream says why
	default:
		n.link.lost(fmt.Sprintf("sent what is not understood: %v", n.err))
		n.link.takeDown()
	}
	n.in.drop()
	return n.err
}

// take acts on the next bytes and returns how many it has used.
func (n *intake) take(b []byte) (k int, err error) {
	switch {
	case !n.in.open:
		k = min(len(b), n.want-len(n.text))
		n.text = append(n.text, b[:k]...)
		if len(n.text) == n.want {
			err = n.start()
		}
	case n.in.got < n.in.size:
		k = n.in.add(b)
	default:
		k = min(len(b), n.zeros)
		n.zeros -= k
	}
	if err != nil || !n.in.open || n.in.got < n.in.size || n.zeros > 0 {
		return k, err
	}
	n.count(frameHead + n.in.size + pad(n.in.size))
	return k, n.link.deliver(&n.in)
}

// start acts on the beginning of a record.
func (n *intake) start() error {
	kind, size := n.text[0], int(le.Uint32(n.text[4:]))
	total := recordHead + size + pad(size)
	switch {
	case kind == msgFrame && size != comm.HeaderSize:
		return fmt.Errorf("a frame header of %d bytes", size)
	case kind != msgFrame && (size > 4+maxCause || n.text[1]|n.text[2]|n.text[3] != 0):
		return fmt.Errorf("a record of kind %#02x, %d bytes", kind, size)
	case len(n.text) < total:
		n.want = total
		return nil
	}
	body := n.text[recordHead:][:size]
	n.text, n.want = n.text[:0], recordHead
	if kind != msgFrame {
		n.count(total)
		return n.link.notice(kind, body)
	}
	err := n.in.begin(body)
	n.zeros = pad(n.in.size)
	return err
}

func (n *intake) count(size int) {
	n.link.run.wire.Shared(0, size)
	n.link.taken.shared.Add(uint64(size))
}

// finish reads what the peer wrote before its end.
func (n *intake) finish() {
	n.from.Finish()
	<-n.drained
}
