package grpcnet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// What the links of all processes carried is known when nothing more is sent. So
// every process, its programs over, first closes its links with all others but
// the coordinator, and then tells the coordinator what it has sent. The bytes
// that still go to the coordinator are counted where they arrive.

// counts are bytes of the bodies of frames on their way in or out.
type counts struct {
	body [comm.NumKinds]atomic.Uint64
}

// sums are what a process knows of a run's bytes.
type sums struct {
	sent counts // the rest is in the process's traffic

	// At the coordinator, by process.
	mu   sync.Mutex
	told map[int]comm.Carried // what others say that they have sent
	seen map[int]comm.Carried // what others say that they got from a process that was lost to them
}

// countSize is the length of what follows the kind of a msgCount: the process
// that the bytes are from, as a u32, and as a u64 each bytes through sockets and
// through memory, and of bodies by kind.
const countSize = 4 + 8*(2+comm.NumKinds)

func countMessage(from int, c comm.Carried) []byte {
	b := le.AppendUint32([]byte{msgCount}, uint32(from))
	b = le.AppendUint64(b, c.Wire)
	b = le.AppendUint64(b, c.Shared)
	for _, n := range c.Body {
		b = le.AppendUint64(b, n)
	}
	return b
}

// settle waits until every other process has closed its links or, at others than
// the coordinator, closes the links but one and tells the coordinator what they
// carried.
func (r *run) settle(ctx context.Context) {
	if r.lead == r.self {
		r.eachLink(func(l *link) { l.await(ctx, l.stop); l.await(ctx, l.conn.closed) })
		return
	}
	lead := r.links[r.lead].Load()
	apart := func(do func(*link)) {
		r.eachLink(func(l *link) {
			if l != lead {
				do(l)
			}
		})
	}
	apart((*link).takeDown)
	apart(func(l *link) { l.await(ctx, l.served); l.await(ctx, l.conn.closed) })
	if lead == nil {
		return
	}
	sent := r.own()
	there := lead.sent() // is counted where it arrives
	sent.Wire -= there.Wire
	sent.Shared -= there.Shared
	apart(func(l *link) {
		if l.died() {
			lead.queue.Tell(countMessage(l.peer, l.received(true)))
		}
	})
	lead.queue.Tell(countMessage(r.self, sent))
	lead.await(ctx, lead.noted)
}

// await waits for a sign of the other process, as long as that is heard.
func (l *link) await(ctx context.Context, done <-chan struct{}) {
	t := time.NewTicker(l.run.cfg.Heartbeat)
	defer t.Stop()
	var over <-chan struct{} // no answer comes any more
	if done == l.noted {
		over = l.stop
	}
	for since := monotonic(); ; {
		select {
		case <-done:
			return
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if monotonic()-max(since, time.Duration(l.conn.heard.Load())) > l.run.cfg.Lease {
			return
		}
	}
}

// died says whether the other process was lost before its last word came. It may
// have ended in order all the same, and then tells by itself.
func (l *link) died() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == dead
}

// received is what came in from the other process, with the bodies if it has not
// told of them.
func (l *link) received(bodies bool) (c comm.Carried) {
	c.Wire = l.conn.read.Load()
	if l.lane != nil {
		_, read := l.lane.Carried()
		c.Add(read)
	}
	for k := range c.Body {
		if bodies {
			c.Body[k] = l.taken.body[k].Load()
		}
	}
	return c
}

// sent is what went out to the other process, without bodies by kind.
func (l *link) sent() (c comm.Carried) {
	c.Wire = l.conn.wrote.Load()
	if l.lane != nil {
		sent, _ := l.lane.Carried()
		c.Add(sent)
	}
	return c
}

// handleCount takes what another process tells the coordinator.
func (l *link) handleCount(b []byte) error {
	if len(b) != countSize {
		return fmt.Errorf("counts of %d bytes, want %d", len(b), countSize)
	}
	from := int(le.Uint32(b))
	if from < 0 || from >= len(l.run.table) {
		return fmt.Errorf("counts of process %d, there are %d", from, len(l.run.table))
	}
	c := comm.Carried{Wire: le.Uint64(b[4:]), Shared: le.Uint64(b[12:])}
	for k := range c.Body {
		c.Body[k] = le.Uint64(b[20+8*k:])
	}
	s := &l.run.sums
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil {
		s.told, s.seen = map[int]comm.Carried{}, map[int]comm.Carried{}
	}
	if from != l.peer {
		c.Add(s.seen[from])
		s.seen[from] = c
		return nil
	}
	s.told[from] = c
	l.queue.Tell([]byte{msgNoted})
	return nil
}

// own is what this process has sent, and what it got from processes that others have
// replaced.
func (r *run) own() (c comm.Carried) {
	t := r.wire.Count()
	c.Wire, c.Shared = t.WireSent, t.SharedSent
	for k := range c.Body {
		c.Body[k] = r.sums.sent.body[k].Load()
	}
	r.sums.mu.Lock()
	defer r.sums.mu.Unlock()
	c.Add(r.lives.past)
	return c
}

// all is what this process knows of what all have sent.
func (r *run) all() comm.Carried {
	c := r.own()
	if r.lead != r.self {
		return c
	}
	r.sums.mu.Lock()
	defer r.sums.mu.Unlock()
	for p := range r.links {
		told, ok := r.sums.told[p]
		if !ok {
			told = r.sums.seen[p]
		}
		c.Add(told)
		if l := r.links[p].Load(); l != nil {
			c.Add(l.received(!ok))
		}
	}
	return c
}
