package comm

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Mailbox is the inbox of a rank on a real clock: an unbounded queue in which
// several activities wait for frames that match. A frame goes to the first
// waiter it matches; frames from one rank are taken in order of arrival.
type Mailbox struct {
	rank     int
	deadline time.Duration

	mu      sync.Mutex
	queue   []Frame
	waiters []*waiter
	gone    map[int]*PeerError
	news    []*PeerError // deaths not yet told to an AnyRank waiter
	closed  error
}

type waiter struct {
	from int
	tag  Tag
	ch   chan delivery
}

type delivery struct {
	f   Frame
	err error
}

// NewMailbox returns the inbox of rank. A Recv that waits longer than deadline
// (0: for ever) ends in ErrDeadline.
func NewMailbox(rank int, deadline time.Duration) *Mailbox {
	return &Mailbox{rank: rank, deadline: deadline, gone: map[int]*PeerError{}}
}

func matches(from int, tag Tag, h *Header) bool {
	return (from == AnyRank || int32(from) == h.From) && (tag == AnyTag || tag == h.Tag)
}

// Put delivers a frame. It never blocks. After Close frames are released.
func (m *Mailbox) Put(f Frame) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed != nil {
		f.Release()
		return
	}
	for i, w := range m.waiters {
		if matches(w.from, w.tag, &f.Header) {
			m.drop(i)
			w.ch <- delivery{f: f}
			return
		}
	}
	m.queue = append(m.queue, f)
}

// drop forgets waiter i, keeping the order of the others. Callers hold mu.
func (m *Mailbox) drop(i int) { m.waiters = append(m.waiters[:i], m.waiters[i+1:]...) }

// Gone tells the mailbox that a peer will send no more. Quiet deaths (an
// orderly end) are told only to those who wait for that very rank.
func (m *Mailbox) Gone(e *PeerError, quiet bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone[e.Rank] != nil {
		return
	}
	m.gone[e.Rank] = e
	told := quiet
	for i := 0; i < len(m.waiters); {
		w := m.waiters[i]
		if w.from == e.Rank || (w.from == AnyRank && !told) {
			told = told || w.from == AnyRank
			m.drop(i)
			w.ch <- delivery{err: e}
			continue
		}
		i++
	}
	if !told {
		m.news = append(m.news, e)
	}
}

// Close ends all present and future waits with err and releases what is queued.
func (m *Mailbox) Close(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed != nil {
		return
	}
	m.closed = err
	for _, w := range m.waiters {
		w.ch <- delivery{err: err}
	}
	m.waiters = nil
	for i := range m.queue {
		m.queue[i].Release()
	}
	m.queue = nil
}

// poll takes what is there already. Callers hold mu.
func (m *Mailbox) poll(from int, tag Tag) (delivery, bool) {
	for i := range m.queue {
		if matches(from, tag, &m.queue[i].Header) {
			f := m.queue[i]
			m.queue = append(m.queue[:i], m.queue[i+1:]...)
			return delivery{f: f}, true
		}
	}
	switch {
	case m.closed != nil:
		return delivery{err: m.closed}, true
	case from == AnyRank && len(m.news) > 0:
		e := m.news[0]
		m.news = m.news[1:]
		return delivery{err: e}, true
	case from != AnyRank && m.gone[from] != nil:
		return delivery{err: m.gone[from]}, true
	}
	return delivery{}, false
}

var waiterPool = sync.Pool{New: func() any { return &waiter{ch: make(chan delivery, 1)} }}

// Recv waits as Endpoint.Recv describes.
func (m *Mailbox) Recv(ctx context.Context, from int, tag Tag) (Frame, error) {
	m.mu.Lock()
	if d, ok := m.poll(from, tag); ok {
		m.mu.Unlock()
		return d.f, d.err
	}
	w := waiterPool.Get().(*waiter)
	w.from, w.tag = from, tag
	m.waiters = append(m.waiters, w)
	m.mu.Unlock()

	var timeout <-chan time.Time
	if m.deadline > 0 {
		t := time.NewTimer(m.deadline)
		defer t.Stop()
		timeout = t.C
	}
	var d delivery
	var late error
	select {
	case d = <-w.ch:
	case <-ctx.Done():
		late = context.Cause(ctx)
	case <-timeout:
		late = fmt.Errorf("%w: rank %d waited %v for %s", ErrDeadline, m.rank, m.deadline, Wanted(from, tag))
	}
	if late != nil {
		m.mu.Lock()
		found := false
		for i := range m.waiters {
			if m.waiters[i] == w {
				m.drop(i)
				found = true
				break
			}
		}
		m.mu.Unlock()
		if found {
			d = delivery{err: late}
		} else { // delivered meanwhile: take it, lose nothing
			d = <-w.ch
		}
	}
	waiterPool.Put(w)
	return d.f, d.err
}

// Wanted words what a Recv waits for.
func Wanted(from int, tag Tag) string {
	s := "any rank"
	if from != AnyRank {
		s = fmt.Sprintf("rank %d", from)
	}
	if tag == AnyTag {
		return "a frame from " + s
	}
	return fmt.Sprintf("a frame with tag %d from %s", tag, s)
}
