package grpcnet

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/shm"
)

// lane carries a link's frames and farewells through memory that both processes
// share. The link's stream remains for heartbeats, and its end is the end of the
// lane.
//
// What passes is a row of records: kind, three zeros, u32 length of what follows
// (of a frame: of its header), the payload, zeros up to a multiple of eight.
// After a frame's header comes its body, with zeros up to a multiple of eight.
type lane struct {
	link    *link
	shm     *shm.Link
	queue   *queue        // what could not be written at once
	turn    chan struct{} // holds a token: who takes it may write
	busy    atomic.Bool   // somebody waits for room
	written atomic.Uint64 // bytes of records
	intake

	mu   sync.Mutex // guards shm against its end
	over bool
}

const (
	recordHead = 8
	frameHead  = recordHead + comm.HeaderSize
	laneBytes  = 1 << 20   // of the ring in a direction
	wholeLimit = 512 << 10 // a frame up to this size is written by who sends it
	slice      = 64 << 10  // how much of a body the other side is shown at once
)

func newLane(l *link, s *shm.Link) *lane {
	n := &lane{link: l, shm: s, queue: newQueue(l.run.cfg.QueueBytes), turn: make(chan struct{}, 1)}
	n.intake.begin(l, s)
	n.turn <- struct{}{}
	return n
}

// pad is how many zeros follow n bytes.
func pad(n int) int { return -n & 7 }

var zeros [8]byte

// enter takes the turn to write size bytes at once, ahead of whatever is sent
// later. ok is false if something queued comes first or, unless it may wait, if
// there is no turn or no room now.
func (n *lane) enter(ctx context.Context, size int, wait bool) (ok bool, err error) {
	select {
	case <-n.turn:
	default:
		if !wait {
			return false, nil
		}
		select {
		case <-n.turn:
		case <-n.link.stop:
			return false, errQueueClosed
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	defer func() {
		if !ok {
			n.leave()
		}
	}()
	if n.queue.waiting() {
		return false, nil
	}
	room, err := n.shm.Out.Room()
	if err == nil && room < size && !wait {
		return false, nil
	}
	if err == nil && room < size {
		n.busy.Store(true)
		n.link.run.Sleeps(1)
		err = n.shm.Out.Wait(ctx, size)
		n.link.run.Sleeps(-1)
		n.busy.Store(false)
	}
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	select { // memory tells of the peer's end first, the stream says why
	case <-n.link.ended:
	case <-ctx.Done():
	}
	return false, errQueueClosed
}

// leave gives the turn back.
func (n *lane) leave() { n.turn <- struct{}{} }

// sendFrom writes a frame whose body comes from src. It waits until the other
// process has made room, no longer than the net's deadline; t counts that.
func (n *lane) sendFrom(ctx context.Context, f comm.Frame, size int, src comm.Filler, t *comm.Traffic) (ok bool, err error) {
	if size > wholeLimit {
		return false, nil
	}
	total := frameHead + size + pad(size)
	if ok, err = n.enter(ctx, total, false); !ok {
		ctx, cancel := context.WithTimeoutCause(ctx, n.link.run.cfg.Deadline, errQueueFull)
		defer cancel()
		began := monotonic()
		ok, err = n.enter(ctx, total, true)
		t.Block(monotonic()-began, 0)
		if !ok {
			return false, err
		}
	}
	defer n.leave()
	n.head(f, size)
	for left := size; left > 0; {
		b := n.shm.Out.Next(min(left, slice))
		src.Fill(b)
		left -= len(b)
		n.fill(len(b))
	}
	n.put(zeros[:pad(size)])
	n.wrote(total)
	n.link.run.sums.sent.body[f.Header.Kind].Add(uint64(size))
	return true, nil
}

// send writes f if that is possible at once, and releases it then.
func (n *lane) send(f comm.Frame) bool {
	size := len(f.Body)
	total := frameHead + size + pad(size)
	if size > wholeLimit {
		return false
	}
	if ok, _ := n.enter(context.Background(), total, false); !ok {
		return false
	}
	defer n.leave()
	n.head(f, size)
	n.put(f.Body)
	n.put(zeros[:pad(size)])
	n.wrote(total)
	n.link.run.sums.sent.body[f.Header.Kind].Add(uint64(size))
	f.Release()
	return true
}

// head writes what comes before a body.
func (n *lane) head(f comm.Frame, size int) {
	var b [frameHead]byte
	b[0] = msgFrame
	le.PutUint32(b[4:], comm.HeaderSize)
	comm.AppendHeader(b[:recordHead], &f.Header, f.Billed, size)
	n.put(b[:])
}

// put copies b into room that is there.
func (n *lane) put(b []byte) {
	for len(b) > 0 {
		k := copy(n.shm.Out.Next(min(len(b), slice)), b)
		n.fill(k)
		b = b[k:]
	}
}

// fill notes that the next k bytes are written. A record is shown by slices, and its
// end by wrote: a small one, head and all, at once.
func (n *lane) fill(k int) {
	n.shm.Out.Wrote(k)
	if n.shm.Out.Hidden() >= slice {
		n.shm.Out.Publish()
	}
}

// serve writes what is queued until the link is taken down.
func (n *lane) serve() {
	for {
		select {
		case <-n.queue.wake:
		case <-n.link.stop:
			return
		}
		select {
		case <-n.turn:
		case <-n.link.stop:
			return
		}
		var err error
		for it, ok := n.queue.take(); ok && err == nil; it, ok = n.queue.take() {
			n.busy.Store(true)
			err = n.write(it)
			n.busy.Store(false)
		}
		n.leave()
		if err != nil {
			return // the link has ended, which has been told
		}
	}
}

// write writes an item of any size, waiting for room as often as it takes.
func (n *lane) write(it item) error {
	var b [frameHead]byte
	head := b[:recordHead]
	var body []byte
	if it.msg == nil {
		defer it.frame.Release()
		head, body = b[:], it.frame.Body
		b[0] = msgFrame
		le.PutUint32(b[4:], comm.HeaderSize)
		comm.AppendHeader(b[:recordHead], &it.frame.Header, it.frame.Billed, len(body))
	} else {
		b[0], body = it.msg[0], it.msg[1:]
		le.PutUint32(b[4:], uint32(len(body)))
	}
	for _, part := range [][]byte{head, body, zeros[:pad(len(body))]} {
		for len(part) > 0 {
			k := min(len(part), slice)
			if err := n.shm.Out.Wait(context.Background(), k); err != nil {
				return err
			}
			n.put(part[:k])
			part = part[k:]
		}
	}
	n.wrote(len(head) + len(body) + pad(len(body)))
	if it.msg == nil {
		n.link.run.sums.sent.body[it.frame.Header.Kind].Add(uint64(len(body)))
	}
	return nil
}

// wrote shows the end of a record, and counts it.
func (n *lane) wrote(size int) {
	n.shm.Out.Publish()
	n.link.run.wire.Shared(size, 0)
	n.written.Add(uint64(size))
}

// taken is how much the peer has read, for the watcher.
func (n *lane) taken() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return 0
	}
	return n.shm.Out.Taken()
}

// end gives the memory back when nobody uses it any more. The link must have
// been taken down, and serve must have returned.
func (n *lane) end() {
	n.shm.Close()
	<-n.drained
	<-n.turn         // for good
	n.reading.Lock() // likewise
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	n.shm.Unmap()
}
