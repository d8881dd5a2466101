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
	"github.com/gradlab/gradlab/comm/lane"
	"github.com/gradlab/gradlab/comm/tcp"
)

// link is one end of what connects two processes: a stream and, but for links=grpc, a lane
// beside it. A receiver and a sender goroutine serve either; receivers never
// send, or two full windows could wait for one another.
type link struct {
	run    *run
	peer   int    // line of the other process in the table
	life   uint32 // its incarnation
	stream stream
	conn   *conn
	trip   time.Duration // there and back, when both linked
	queue  *lane.Queue   // what leaves by the stream
	order  *lane.Queue   // frames and farewells, which must keep their order: queue, or the lane's
	lane   *lane.Lane    // nil: all goes by the stream
	taken  counts        // what came in
	in     lane.Inbox
	msg    mem.BufferSlice

	mu    sync.Mutex // orders deliveries and the peer's death
	state linkState

	stop     chan struct{} // closed when the link is to be taken down
	stopOnce sync.Once
	ended    chan struct{} // closed when the peer needs nothing more from us, or is dead
	endOnce  sync.Once
	served   chan struct{} // closed when serve has returned
	noted    chan struct{} // closed when the coordinator has our counts
	noteOnce sync.Once
	fence    atomic.Int64 // how long the peer was silent when we gave it up

	// For liveness: when the peer was last heard, and the sender's progress.
	busy     atomic.Bool // the sender is inside a SendMsg
	taking   atomic.Bool // the receiver is at work on a message
	seen     time.Duration
	flow     [2]progress // of the stream and of the lane
	lastHear int64
}

type linkState int

const (
	alive    linkState = iota
	finished           // the peer said that it has ended
	dead
)

// newLink makes a link over a stream and, if there is one, a road of its own for frames.
func newLink(r *run, peer int, s stream, c *conn, w *way) *link {
	now := monotonic()
	l := &link{
		run: r, peer: peer, stream: s, conn: c, queue: lane.NewQueue(r.cfg.QueueBytes),
		stop: make(chan struct{}), ended: make(chan struct{}), served: make(chan struct{}), noted: make(chan struct{}),
		seen: now, flow: [2]progress{{at: now}, {at: now}},
	}
	l.in = lane.Inbox{Max: r.cfg.MaxFrame, Checked: r.cfg.checked(c), Claim: l.Claim}
	l.order = l.queue
	if c.Conn != nil {
		l.trip = tcp.RoundTrip(c.Conn)
	}
	if l.lane = w.lane(l); l.lane != nil {
		l.order = l.lane.Queue
	}
	return l
}

func newLinks(n int) []atomic.Pointer[link] { return make([]atomic.Pointer[link], n) }

// grace is how long a dead link may take to say its last word.
const grace = 250 * time.Millisecond

// serve runs the link until it is taken down. The stream must be closed when it
// returns; what still waits on it ends then.
func (l *link) serve() error {
	defer close(l.served)
	sent := make(chan struct{})
	l.run.tasks.Go(func() { defer close(sent); l.send() })
	l.run.tasks.Go(l.receive)
	var beside sync.WaitGroup
	if l.lane != nil {
		beside.Go(l.lane.Serve)
		beside.Go(l.lane.Receive)
	}
	<-l.stop
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-sent:
	case <-t.C:
	}
	if l.lane != nil {
		l.lane.Cut()
		beside.Wait()
		l.lane.End()
	}
	if s := l.fence.Load(); s != 0 {
		return status.Errorf(codes.Aborted, "fenced after %v of silence", time.Duration(s))
	}
	return nil
}

// Sent, Stopped, Ended, Sleeps, Asleep and Lost are a lane's owner's.
func (l *link) Sent(kind comm.Kind, body int) { l.run.sums.sent.body[kind].Add(uint64(body)) }

func (l *link) Stopped() <-chan struct{} { return l.stop }
func (l *link) Ended() <-chan struct{}   { return l.ended }
func (l *link) Sleeps(more int)          { l.run.Sleeps(more) }
func (l *link) Asleep() int              { return int(l.run.sleeping.Load()) }

func (l *link) Lost(cause string) {
	l.lost(cause)
	l.takeDown()
}

// Gone and Why implement comm.Holder: a stream that ends in the middle of a
// message never says that its bytes are read no more.
func (l *link) Gone() <-chan struct{} { return l.stop }

func (l *link) Why() error {
	if g := l.run.gone[l.run.table[l.peer].Ranks[0]].Load(); g != nil {
		return g.err
	}
	return errEnded
}

func (l *link) takeDown() { l.stopOnce.Do(func() { close(l.stop) }) }

// send writes what is queued, and heartbeats.
func (l *link) send() {
	beat := time.NewTicker(l.run.cfg.Heartbeat)
	defer beat.Stop()
	write := func(it lane.Item) bool {
		l.busy.Store(true)
		defer l.busy.Store(false)
		var err error
		if it.Msg != nil {
			err = sendBytes(l.stream, it.Msg)
		} else {
			kind, size := it.Frame.Header.Kind, len(it.Frame.Body)
			if err = writeFrame(l.stream, it.Frame, l.in.Checked); err == nil {
				l.Sent(kind, size)
			}
		}
		return err == nil // the receiver learns why
	}
	for {
		if it, ok := l.queue.Take(); ok {
			if !write(it) {
				return
			}
			continue
		}
		select {
		case <-l.queue.Wake:
		case <-beat.C:
			if !write(lane.Item{Msg: []byte{msgBeat}}) {
				return
			}
		case <-l.stop:
			for it, ok := l.queue.Take(); ok && write(it); it, ok = l.queue.Take() {
			}
			return
		}
	}
}

// receive takes what comes in until the stream ends.
func (l *link) receive() {
	defer l.takeDown()
	defer l.in.Drop()
	for {
		if err := l.stream.RecvMsg(&l.msg); err != nil {
			if l.lane != nil {
				l.lane.Finish()
			}
			l.broken(err)
			return
		}
		l.taking.Store(true)
		err := l.handle(cursor{s: l.msg})
		l.taking.Store(false)
		l.msg.Free()
		if err != nil {
			l.lost(fmt.Sprintf("sent what is not understood: %v", err))
			return
		}
	}
}

// handle acts on one message.
func (l *link) handle(c cursor) error {
	first := c.next(1)
	if first == nil {
		return errors.New("an empty message")
	}
	kind := first[0]
	if kind == msgFrame || kind == msgChunk {
		if l.lane != nil {
			return errors.New("a frame beside the lane")
		}
		done, err := message(&l.in, kind, &c)
		if err != nil || !done {
			return err
		}
		return l.Deliver(&l.in)
	}
	var b [4 + maxCause]byte
	return l.Notice(kind, b[:c.fill(b[:])])
}

// Notice acts on what the other process says about itself.
func (l *link) Notice(kind byte, b []byte) error {
	switch kind {
	case msgBeat:
		return nil
	case msgEnd:
		return l.handleEnd()
	case msgCount:
		return l.handleCount(b)
	case msgNoted:
		l.noteOnce.Do(func() { close(l.noted) })
		return nil
	case msgEnded:
		l.endOnce.Do(func() { close(l.ended) })
		return nil
	case msgBye, msgAbort, msgBereft, msgAgain:
		if len(b) < 4 {
			return errors.New("a farewell from nobody")
		}
		rank := int(int32(le.Uint32(b)))
		if !slices.Contains(l.run.table[l.peer].Ranks, rank) {
			return fmt.Errorf("a farewell from rank %d, which is not there", rank)
		}
		e := &comm.PeerError{Rank: rank, Cause: "has finished", Ended: kind == msgBye, Incarnation: l.life}
		if kind != msgBye {
			e.Cause, e.Lost = string(b[4:]), kind != msgAbort
		}
		if kind == msgAgain {
			if l.peer != l.run.lead {
				return errors.New("a call to meet again from who does not coordinate")
			}
			l.toldAgain(rank, e.Cause)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.state == alive {
			l.run.ends(&goneRank{err: e, quiet: kind == msgBye, bereft: kind == msgBereft})
		}
		return nil
	case msgFenced:
		var silent time.Duration
		if len(b) >= 8 {
			silent = time.Duration(le.Uint64(b))
		}
		l.fencedBy(silent)
		return nil
	}
	return fmt.Errorf("a message of kind %#02x", kind)
}

// Expects implements lane.Owner.
func (l *link) Expects(h *comm.Header) error {
	if l.run.hosts[int(h.To)] == nil || !slices.Contains(l.run.table[l.peer].Ranks, int(h.From)) {
		return fmt.Errorf("a frame from rank %d to rank %d on this link", h.From, h.To)
	}
	return nil
}

// Claim looks for a sink that waits for a frame that begins.
func (l *link) Claim(h *comm.Header, size, billed int, since time.Time) (c comm.Claim, ok bool, err error) {
	if err := l.Expects(h); err != nil {
		return c, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != alive { // given up meanwhile: nothing of it may count
		return c, false, nil
	}
	c, ok = l.run.hosts[int(h.To)].Box.Claim(*h, size, billed, since)
	return c, ok, nil
}

// Deliver hands a whole frame to its rank.
func (l *link) Deliver(in *lane.Inbox) error {
	h, size := in.Frame()
	to := l.run.hosts[int(h.To)]
	l.taken.body[h.Kind].Add(uint64(size))
	to.moves.Add(1)
	if in.Ended() {
		return nil
	}
	f := in.Take()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != alive { // given up meanwhile: nothing of it may count
		f.Release()
		return nil
	}
	to.put(f, in.Since())
	return nil
}

// handleEnd notes that nothing more will come.
func (l *link) handleEnd() error {
	l.mu.Lock()
	if l.state == alive {
		l.state = finished
		for _, rank := range l.run.table[l.peer].Ranks {
			l.run.markGone(&comm.PeerError{Rank: rank, Cause: "ended without a word", Lost: true, Incarnation: l.life}, false)
		}
	}
	l.mu.Unlock()
	l.order.Close()
	l.queue.Tell([]byte{msgEnded})
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
		l.fencedBy(0)
	case s.Code() == codes.Canceled: // all that a server is told
		l.lost("connection lost")
	default:
		l.lost("connection lost: " + s.Message())
	}
}

// fencedBy heeds a peer's word that it counts this process as dead. The coordinator
// holds the lease of every process, so its word ends this one. Any other peer holds
// none: it has given up one link, and to this process it is the peer that is gone.
// Whoever was away knows it by its own clock.
func (l *link) fencedBy(silent time.Duration) {
	if l.run.overslept() {
		return
	}
	if l.peer == l.run.lead { // before programs hear of the loss, which is only what follows
		l.run.fenced(l.run.table[l.peer].name(), silent)
	}
	l.lost("counts this process as dead")
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
		l.run.markGone(&comm.PeerError{Rank: rank, Cause: cause, Lost: true, Incarnation: l.life}, false)
	}
	l.mu.Unlock()
	if !l.run.leaving.Load() {
		l.run.cfg.Logf("grpcnet: %s is gone: %s", p.name(), cause)
	}
	l.order.Close()
	if l.lane != nil {
		l.lane.Cut()
	}
	if silent > 0 {
		l.fence.Store(int64(silent))
		l.queue.Tell(le.AppendUint64([]byte{msgFenced}, uint64(silent)))
	}
	l.endOnce.Do(func() { close(l.ended) })
	l.takeDown()
}
