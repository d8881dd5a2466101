// Package lane carries the frames of two processes, and what they say of their ends, as
// records of a row of bytes: through memory that both share, or over a TCP connection. What
// does not belong in that row (heartbeats, the news of a death) goes elsewhere, and so does
// the end of the lane. Who writes and who waits does so on its own goroutine while that needs
// no wait for the other process; the lane's goroutines do the rest.
package lane

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
)

var le = binary.LittleEndian

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the CRC-32C of what sum is of, and b behind it.
func Sum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// Frame is the kind of a record that is a frame. Others are their owners' messages.
const Frame = 'F'

// Owner is the link that a lane belongs to.
type Owner interface {
	// Expects says whether a frame has business here, by its header.
	Expects(h *comm.Header) error
	// Claim looks for a sink for a frame that begins; an error refuses it.
	Claim(h *comm.Header, size, billed int, since time.Time) (c comm.Claim, ok bool, err error)
	// Deliver takes a whole frame.
	Deliver(in *Inbox) error
	// Notice takes a message.
	Notice(kind byte, b []byte) error
	// Sent counts a frame that was written.
	Sent(kind comm.Kind, body int)
	// Lost ends the link as the other process is not understood, or its road is cut.
	Lost(cause string)
	// Stopped is closed when the link is to be taken down, Ended when the other process
	// needs nothing more or is dead.
	Stopped() <-chan struct{}
	Ended() <-chan struct{}
	// Sleeps is told how many waits, 1 or −1 more, are asleep; Asleep is how many are.
	Sleeps(more int)
	Asleep() int
}

// Limits are bounds of a lane.
type Limits struct {
	Frame    int           // bytes of a body that are accepted
	Message  int           // bytes of a message
	Queue    int           // bytes that wait to be sent
	Deadline time.Duration // of who waits for room
	Lease    time.Duration // after which a road that is cut ends the link
}

// Lane is one end. Its queue is for frames that must not wait, and for messages.
//
// What passes is a row of records: kind, a manner, two zeros, u32 length of what follows
// (of a frame: of its header), the payload, zeros up to a multiple of eight. After a frame's
// header comes its body, with zeros up to a multiple of eight, and where the manner is 1 the
// CRC-32C of header and body as a u64.
type Lane struct {
	*Queue
	owner  Owner
	road   Road
	limits Limits
	turn   chan struct{} // holds a token: who takes it may write
	rest   chan struct{} // hands the turn, with rec, to the lane's goroutine
	rec    record        // is of who has the turn
	busy   atomic.Bool   // somebody waits for room
	intake
}

// Road is what a lane's records pass through: memory or a socket. Its writing methods are
// for who has the lane's turn.
type Road interface {
	source
	// try writes what can be written of a record without waiting. It has begun if a byte
	// of it is written, and is done if all are.
	try(rec *record) (begun, done bool)
	// write writes the rest of a record, waiting as often as it takes.
	write(rec *record) error
	// taken is how much the peer, or the kernel on its behalf, has taken.
	taken() uint64
	// count notes bytes of records that were written, or read; carried is what the road has
	// carried so far, bodies apart.
	count(sent, read int)
	carried() (sent, read comm.Carried)
	// alone says that the road may end while the link's stream goes on.
	alone() bool
	// close ends all waits on both sides; it may be called more than once and by anybody.
	close()
	// end gives the road back when nobody uses it any more.
	end()
}

const (
	recordHead = 8
	frameHead  = recordHead + comm.HeaderSize
	slice      = 64 << 10 // how much of what has come is acted on at once
)

// record is a frame, or a message of the link's own, on its way out.
type record struct {
	frame comm.Frame // of a frame; released once all is written
	isMsg bool
	size  int // of all
	parts [][]byte
	three [3][]byte // parts when none is written
	head  [frameHead]byte
	tail  [8 + sumTail]byte
}

// sumTail is the length of a checksum behind a body.
const sumTail = 8

// setFrame makes the record that of a frame with a body of so many bytes.
func (rec *record) setFrame(f comm.Frame, checked bool) {
	size := len(f.Body)
	rec.frame, rec.isMsg = f, false
	rec.setHead(&f, size)
	tail := pad(size)
	if checked {
		rec.head[1] = 1
		clear(rec.tail[:tail])
		le.PutUint64(rec.tail[tail:], uint64(Sum(Sum(0, rec.head[recordHead:]), f.Body)))
		tail += sumTail
	} else {
		clear(rec.tail[:tail])
	}
	rec.lay(rec.head[:], f.Body, rec.tail[:tail])
}

// setHead writes what comes before a body of so many bytes.
func (rec *record) setHead(f *comm.Frame, size int) {
	rec.head[0], rec.head[1] = Frame, 0
	le.PutUint32(rec.head[4:], comm.HeaderSize)
	comm.AppendHeader(rec.head[:recordHead], &f.Header, f.Billed, size)
}

// setMessage makes the record that of a message of the link's own.
func (rec *record) setMessage(msg []byte) {
	body := msg[1:]
	rec.frame, rec.isMsg = comm.Frame{}, true
	rec.head[0], rec.head[1] = msg[0], 0
	le.PutUint32(rec.head[4:], uint32(len(body)))
	clear(rec.tail[:8])
	rec.lay(rec.head[:recordHead], body, rec.tail[:pad(len(body))])
}

func (rec *record) lay(head, body, tail []byte) {
	rec.size = len(head) + len(body) + len(tail)
	rec.three = [3][]byte{head, body, tail}
	rec.parts = rec.three[:]
}

// left is how many bytes are not written.
func (rec *record) left() (n int) {
	for _, part := range rec.parts {
		n += len(part)
	}
	return n
}

// New makes a lane over a road. checked says that frames carry checksums.
func New(o Owner, r Road, checked bool, limits Limits) *Lane {
	n := &Lane{Queue: NewQueue(limits.Queue), owner: o, road: r, limits: limits, turn: make(chan struct{}, 1), rest: make(chan struct{}, 1)}
	n.intake.begin(n, checked)
	n.turn <- struct{}{}
	return n
}

// Busy says that something waits for room.
func (n *Lane) Busy() bool { return n.busy.Load() }

// Taken is how many bytes the other process, or the kernel on its behalf, has taken.
func (n *Lane) Taken() uint64 { return n.road.taken() }

// Carried is what the lane has carried, bodies by kind apart.
func (n *Lane) Carried() (sent, read comm.Carried) { return n.road.carried() }

// Cut ends all waits at both ends. It may be called more than once and by anybody.
func (n *Lane) Cut() { n.road.close() }

// pad is how many zeros follow n bytes.
func pad(n int) int { return -n & 7 }

// claimTurn takes the turn to write, ahead of whatever is sent later. ok is false if something
// queued comes first or, unless it may wait, if there is no turn now.
func (n *Lane) claimTurn(ctx context.Context, wait bool) (ok bool, err error) {
	select {
	case <-n.turn:
	default:
		if !wait {
			return false, nil
		}
		select {
		case <-n.turn:
		case <-n.owner.Stopped():
			return false, ErrClosed
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	if n.Waiting() {
		n.leave()
		return false, nil
	}
	return true, nil
}

// leave gives the turn back.
func (n *Lane) leave() { n.turn <- struct{}{} }

// Send takes f over, and releases it when it is written, if it can begin to leave at once.
func (n *Lane) Send(f comm.Frame) bool {
	if ok, _ := n.claimTurn(context.Background(), false); !ok {
		return false
	}
	n.rec.setFrame(f, n.in.Checked)
	begun, done := n.road.try(&n.rec)
	switch {
	case done:
		n.wrote()
		n.leave()
	case begun:
		n.rest <- struct{}{} // with the turn
	default:
		n.leave()
	}
	return begun
}

// wrote counts a record, and releases what it carried.
func (n *Lane) wrote() {
	rec := &n.rec
	if rec.isMsg {
		n.road.count(rec.size, 0)
	} else {
		n.booked(rec.frame.Header.Kind, rec.size, len(rec.frame.Body))
	}
	n.drop()
}

// booked counts a frame of so many bytes in all, and its body.
func (n *Lane) booked(kind comm.Kind, size, body int) {
	n.road.count(size, 0)
	n.owner.Sent(kind, body)
}

// drop releases what the record carried.
func (n *Lane) drop() {
	f := n.rec.frame
	n.rec.frame, n.rec.three, n.rec.parts = comm.Frame{}, [3][]byte{}, nil
	f.Release()
}

// Serve writes what is queued, and the rest of what was begun, until the link is taken down.
func (n *Lane) Serve() {
	for {
		begun := false
		select {
		case <-n.rest:
			begun = true
		case <-n.Wake:
			select {
			case <-n.turn:
			case <-n.rest:
				begun = true
			case <-n.owner.Stopped():
				return
			}
		case <-n.owner.Stopped():
			return
		}
		if !n.drain(begun) {
			return // the link has ended, which has been told
		}
	}
}

// drain writes the rest of a record, if it was begun, and all that is queued. It gives the
// turn back.
func (n *Lane) drain(begun bool) bool {
	defer n.leave()
	n.busy.Store(true)
	defer n.busy.Store(false)
	for {
		if !begun {
			it, ok := n.Queue.Take()
			if !ok {
				return true
			}
			if it.Msg != nil {
				n.rec.setMessage(it.Msg)
			} else {
				n.rec.setFrame(it.Frame, n.in.Checked)
			}
		}
		begun = false
		if err := n.road.write(&n.rec); err != nil {
			n.drop()
			return false
		}
		n.wrote()
	}
}

// End gives the road back. The link must have been taken down, and Serve must have
// returned.
func (n *Lane) End() {
	n.road.close()
	<-n.drained
	select {
	case <-n.turn: // for good
	case <-n.rest: // likewise
		n.drop()
	}
	n.reading.Lock() // likewise
	n.road.end()
}
