package grpcnet

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/gradlab/gradlab/comm"
)

// link is one end of the stream between two processes. A receiver and a sender
// goroutine serve it; the receiver never sends, or two full windows could wait
// for one another.
type link struct {
	run    *run
	peer   int // line of the other process in the table
	stream stream
	conn   *conn
	queue  *queue
	in     assembler

	mu    sync.Mutex // orders deliveries and the peer's death
	state linkState

	stop     chan struct{} // closed when the link is to be taken down
	stopOnce sync.Once
	ended    chan struct{} // closed when the peer needs nothing more from us, or is dead
	endOnce  sync.Once
	fence    atomic.Int64 // how long the peer was silent when we gave it up

	// For liveness: when the peer was last heard, and the sender's progress.
	busy     atomic.Bool // the sender is inside a SendMsg
	taking   atomic.Bool // the receiver is at work on a message
	seen     time.Duration
	moved    time.Duration
	movedAt  uint64
	lastHear int64
}

type linkState int

const (
	alive    linkState = iota
	finished           // the peer said that it has ended
	dead
)

func newLink(r *run, peer int, s stream, c *conn) *link {
	now := monotonic()
	return &link{
		run: r, peer: peer, stream: s, conn: c, queue: newQueue(r.cfg.QueueBytes),
		in: assembler{max: r.cfg.MaxFrame}, stop: make(chan struct{}), ended: make(chan struct{}),
		seen: now, moved: now,
	}
}

func newLinks(n int) []atomic.Pointer[link] { return make([]atomic.Pointer[link], n) }

// grace is how long a dead link may take to say its last word.
const grace = 250 * time.Millisecond

// serve runs the link until it is taken down. The stream must be closed when it
// returns; what still waits on it ends then.
func (l *link) serve() error {
	sent := make(chan struct{})
	l.run.tasks.Go(func() { defer close(sent); l.send() })
	l.run.tasks.Go(l.receive)
	<-l.stop
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-sent:
	case <-t.C:
	}
	if s := l.fence.Load(); s != 0 {
		return status.Errorf(codes.Aborted, "fenced after %v of silence", time.Duration(s))
	}
	return nil
}

func (l *link) takeDown() { l.stopOnce.Do(func() { close(l.stop) }) }

// send writes what is queued, and heartbeats.
func (l *link) send() {
	beat := time.NewTicker(l.run.cfg.Heartbeat)
	defer beat.Stop()
	write := func(it item) bool {
		l.busy.Store(true)
		defer l.busy.Store(false)
		var err error
		if it.msg != nil {
			err = sendBytes(l.stream, it.msg)
		} else {
			err = writeFrame(l.stream, it.frame)
		}
		return err == nil // the receiver learns why
	}
	for {
		if it, ok := l.queue.take(); ok {
			if !write(it) {
				return
			}
			continue
		}
		select {
		case <-l.queue.wake:
		case <-beat.C:
			if !write(item{msg: []byte{msgBeat}}) {
				return
			}
		case <-l.stop:
			for it, ok := l.queue.take(); ok && write(it); it, ok = l.queue.take() {
			}
			return
		}
	}
}

// receive takes what comes in until the stream ends.
func (l *link) receive() {
	defer l.takeDown()
	defer func() {
		l.mu.Lock()
		l.in.drop()
		l.mu.Unlock()
	}()
	for {
		var m mem.BufferSlice
		if err := l.stream.RecvMsg(&m); err != nil {
			l.broken(err)
			return
		}
		l.taking.Store(true)
		err := l.handle(m)
		l.taking.Store(false)
		m.Free()
		if err != nil {
			l.lost(fmt.Sprintf("sent what is not understood: %v", err))
			return
		}
	}
}

// handle acts on one message.
func (l *link) handle(m mem.BufferSlice) error {
	c := cursor{s: m}
	kind := c.next(1)
	if kind == nil {
		return errors.New("an empty message")
	}
	switch kind[0] {
	case msgFrame:
		return l.deliver(l.in.start(&c))
	case msgChunk:
		return l.deliver(l.in.more(&c))
	case msgBeat:
		return nil
	case msgEnd:
		return l.handleEnd()
	case msgEnded:
		l.endOnce.Do(func() { close(l.ended) })
		return nil
	}
	b := make([]byte, 8+maxCause)
	b = b[:c.fill(b)]
	switch kind[0] {
	case msgBye, msgAbort:
		if len(b) < 4 {
			return errors.New("a farewell from nobody")
		}
		rank := int(int32(le.Uint32(b)))
		if !slices.Contains(l.run.table[l.peer].Ranks, rank) {
			return fmt.Errorf("a farewell from rank %d, which is not there", rank)
		}
		e := &comm.PeerError{Rank: rank, Cause: "has finished"}
		if kind[0] == msgAbort {
			e.Cause = string(b[4:])
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.state == alive {
			l.run.markGone(e, kind[0] == msgBye)
		}
		return nil
	case msgFenced:
		var silent time.Duration
		if len(b) >= 8 {
			silent = time.Duration(le.Uint64(b))
		}
		l.run.fenced(l.run.table[l.peer].name(), silent)
		return nil
	}
	return fmt.Errorf("a message of kind %#02x", kind[0])
}

// deliver hands a whole frame to its rank.
func (l *link) deliver(f comm.Frame, whole bool, err error) error {
	if err != nil || !whole {
		return err
	}
	to := l.run.hosts[int(f.Header.To)]
	if to == nil || !slices.Contains(l.run.table[l.peer].Ranks, int(f.Header.From)) {
		f.Release()
		return fmt.Errorf("a frame from rank %d to rank %d on this link", f.Header.From, f.Header.To)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != alive { // given up meanwhile: nothing of it may count
		f.Release()
		return nil
	}
	to.put(f)
	return nil
}

// handleEnd notes that nothing more will come.
func (l *link) handleEnd() error {
	l.mu.Lock()
	if l.state == alive {
		l.state = finished
		for _, rank := range l.run.table[l.peer].Ranks {
			l.run.markGone(&comm.PeerError{Rank: rank, Cause: "ended without a word"}, false)
		}
	}
	l.mu.Unlock()
	l.queue.close()
	l.queue.tell([]byte{msgEnded})
	l.endOnce.Do(func() { close(l.ended) })
	return nil
}

// broken judges the end of the stream.
func (l *link) broken(err error) {
	l.run.overslept()
	s := status.Convert(err)
	switch {
	case err == io.EOF:
		l.lost("closed the connection without a goodbye")
	case s.Code() == codes.Aborted:
		l.lost("counts this process as dead")
		l.run.fenced(l.run.table[l.peer].name(), 0)
	case s.Code() == codes.Canceled: // all that a server is told
		l.lost("connection lost")
	default:
		l.lost("connection lost: " + s.Message())
	}
}

// lost declares the peer dead, for every rank that has not said goodbye.
func (l *link) lost(cause string) { l.kill(cause, 0) }

func (l *link) kill(cause string, silent time.Duration) {
	l.mu.Lock()
	if l.state != alive {
		l.mu.Unlock()
		return
	}
	l.state = dead
	p := &l.run.table[l.peer]
	for _, rank := range p.Ranks {
		l.run.markGone(&comm.PeerError{Rank: rank, Cause: cause}, false)
	}
	l.mu.Unlock()
	if !l.run.leaving.Load() {
		l.run.cfg.Logf("grpcnet: %s is gone: %s", p.name(), cause)
	}
	l.queue.close()
	if silent > 0 {
		l.fence.Store(int64(silent))
		l.queue.tell(le.AppendUint64([]byte{msgFenced}, uint64(silent)))
	}
	l.endOnce.Do(func() { close(l.ended) })
	l.takeDown()
}
