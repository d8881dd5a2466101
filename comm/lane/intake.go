package lane

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
	"github.com/gradlab/gradlab/comm/tcp"
)

// source is where the bytes of a lane come from. Look, Consume and Again are for one
// goroutine at a time; another one may be in Wait meanwhile.
type source interface {
	// Look returns bytes that have come and lie together, none if there are none, and
	// io.EOF at the end. They are the caller's until Consume gives back the first n.
	Look() ([]byte, error)
	Consume(n int)
	// Wait waits until Look would find something: bytes, or the end.
	Wait()
	// Again says whether who found nothing, in that many looks, should look again.
	Again(looks int) bool
	// Leave is told by who looked and goes, perhaps with bytes that are left: Wait returns
	// for those.
	Leave()
	// Finish lets Wait end once all that was written before the other side's end is read.
	Finish()
}

// intake is the receiving end of a lane. Whoever waits for a frame of the peer reads
// for a moment by itself, so that nobody has to be woken when it comes. A goroutine
// of the lane reads all the rest.
type intake struct {
	reading sync.Mutex // guards what follows, and reading from memory
	lane    *Lane
	from    source
	into    comm.Source // from, if that can put bytes where they are to lie
	in      Inbox
	sum     uint32 // of the frame under way, where records are checked
	summed  int    // bytes of its body that are in it
	check   []byte // what there is of the sum that it is to have
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

func (n *intake) begin(l *Lane, checked bool) {
	n.lane, n.from, n.want = l, l.road, recordHead
	n.into, _ = l.road.(comm.Source)
	n.in = Inbox{Max: l.limits.Frame, Checked: checked, Claim: l.owner.Claim}
	if checked { // no sink is fed before the checksum is seen: a sum cannot be taken back
		n.in.Claim = func(h *comm.Header, _, _ int, _ time.Time) (c comm.Claim, ok bool, err error) {
			return c, false, l.owner.Expects(h)
		}
	}
	n.rouse, n.drained = make(chan struct{}, 1), make(chan struct{})
}

// Receive takes what comes in until the lane ends.
func (n *intake) Receive() {
	defer n.over()
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

// over tells that nothing more is read. If the road has ended alone, so has the link, unless
// the stream says meanwhile how it has.
func (n *intake) over() {
	close(n.drained)
	if !n.lane.road.alone() {
		return
	}
	t := time.NewTimer(n.lane.limits.Lease)
	defer t.Stop()
	select {
	case <-n.lane.owner.Stopped():
	case <-t.C:
		n.lane.owner.Lost(fmt.Sprintf("the connection of its frames was lost: %v", n.err))
	}
}

// rests lets waits read for a while, unless one of them sleeps.
func (n *intake) rests(nap *time.Timer) bool {
	n.resting.Store(true)
	defer n.resting.Store(false)
	if n.lane.owner.Asleep() > 0 {
		return false
	}
	nap.Reset(rest)
	select {
	case <-nap.C:
	case <-n.rouse:
	}
	return true
}

// Rouse ends the rest of the lane's goroutine.
func (n *intake) Rouse() {
	if n.resting.Load() {
		select {
		case n.rouse <- struct{}{}:
		default:
		}
	}
}

// Fetch reads what is there until w is over, and if it may wait, until nothing has
// come for a moment.
func (n *intake) Fetch(w *comm.Receipt, wait bool) {
	n.fetched.Add(1)
	if !n.reading.TryLock() {
		return
	}
	defer n.reading.Unlock()
	for looks := 0; n.read(w) == nil && wait && !w.Over() && n.from.Again(looks); looks++ {
	}
	n.from.Leave()
}

// directly is the least rest of a body that is read to where it is to lie.
const directly = 4 << 10

// read takes what is there, no more than ends w. Callers hold reading.
func (n *intake) read(w *comm.Receipt) error {
	for n.err == nil && !(w != nil && w.Over()) {
		var some bool
		if some, n.err = n.readSome(w); !some {
			break
		}
	}
	switch {
	case n.err == nil:
		return nil
	case errors.Is(n.err, io.EOF), errors.Is(n.err, shm.ErrClosed), errors.Is(n.err, tcp.ErrLost): // the stream says why
	default:
		n.lane.owner.Lost(fmt.Sprintf("sent what is not understood: %v", n.err))
	}
	n.in.Drop()
	return n.err
}

// readSome takes what one look finds.
func (n *intake) readSome(w *comm.Receipt) (some bool, err error) {
	if n.into != nil && n.in.open && n.in.Left() >= directly {
		if k, ok, err := n.in.Fill(n.into); ok {
			if err == nil && k > 0 {
				n.tallied()
				err = n.deliver()
			}
			return k > 0, err
		}
	}
	b, err := n.from.Look()
	if err != nil || len(b) == 0 {
		return false, err
	}
	b = b[:min(len(b), slice)]
	used := 0
	for used < len(b) && err == nil && !(w != nil && w.Over()) {
		var k int
		k, err = n.take(b[used:])
		used += k
	}
	n.from.Consume(used)
	return true, err
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
		k = n.in.Add(b)
		n.tally(b[:k])
	case n.zeros > 0:
		k = min(len(b), n.zeros)
		n.zeros -= k
	default:
		k = min(len(b), sumTail-len(n.check))
		n.check = append(n.check, b[:k]...)
	}
	if err != nil {
		return k, err
	}
	return k, n.deliver()
}

// tally adds bytes of a body to its checksum.
func (n *intake) tally(b []byte) {
	if n.in.Checked {
		n.sum = Sum(n.sum, b)
		n.summed += len(b)
	}
}

// tallied adds what was put into the inbox's buffer to the checksum.
func (n *intake) tallied() {
	if n.in.Checked && n.in.buf != nil {
		n.tally(n.in.buf.B[n.summed:n.in.got])
	}
}

// deliver hands a frame on if all of it is there.
func (n *intake) deliver() error {
	if !n.in.open || n.in.got < n.in.size || n.zeros > 0 {
		return nil
	}
	total := frameHead + n.in.size + pad(n.in.size)
	if n.in.Checked {
		if len(n.check) < sumTail {
			return nil
		}
		if want := le.Uint64(n.check); want != uint64(n.sum) {
			return fmt.Errorf("frame checksum %08x, computed %08x", want, n.sum)
		}
		total += sumTail
	}
	n.count(total)
	return n.lane.owner.Deliver(&n.in)
}

// start acts on the beginning of a record.
func (n *intake) start() error {
	kind, size := n.text[0], int(le.Uint32(n.text[4:]))
	total := recordHead + size + pad(size)
	manner := byte(0)
	if n.in.Checked && kind == Frame {
		manner = 1
	}
	switch {
	case n.text[1] != manner || n.text[2]|n.text[3] != 0:
		return fmt.Errorf("a record of kind %#02x in manner %d, %d, %d", kind, n.text[1], n.text[2], n.text[3])
	case kind == Frame && size != comm.HeaderSize:
		return fmt.Errorf("a frame header of %d bytes", size)
	case kind != Frame && size > n.lane.limits.Message:
		return fmt.Errorf("a record of kind %#02x, %d bytes", kind, size)
	case len(n.text) < total:
		n.want = total
		return nil
	}
	body := n.text[recordHead:][:size]
	n.text, n.want = n.text[:0], recordHead
	if kind != Frame {
		n.count(total)
		return n.lane.owner.Notice(kind, body)
	}
	err := n.in.Begin(body)
	n.zeros, n.check, n.sum = pad(n.in.size), n.check[:0], 0
	n.tally(body)
	n.summed = 0
	return err
}

func (n *intake) count(size int) {
	n.lane.road.count(0, size)
}

// Finish reads what the peer wrote before its end.
func (n *intake) Finish() {
	n.from.Finish()
	<-n.drained
}
