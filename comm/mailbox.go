package comm

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Mailbox is the inbox of a rank on a real clock: an unbounded queue in which
// several activities wait for frames that match. A frame goes to the first
// waiter it matches; frames from one rank are taken in order of arrival.
//
// Waiters either want a frame or, by way of a Sink, its body as it comes in.
type Mailbox struct {
	rank     int
	deadline time.Duration

	mu      sync.Mutex
	queue   line
	waiters []*Receipt
	fed     []*Receipt // left the waiters, but their frame is not whole yet
	watched Tag        // what seen waits for
	seen    func()
	gone    map[int]*PeerError
	news    []*PeerError // deaths not yet told to an AnyRank waiter
	closed  error
	epoch   uint32 // frames of earlier ones are refused

	blocked *Traffic // counts how long waits took; nil: nobody does
	fetcher Fetcher  // nil: frames come by themselves
}

// Fetcher brings frames to a wait on the goroutine that waits, which spares it to be
// woken by another one.
type Fetcher interface {
	// Fetch puts what is there into the mailbox until w is over, and if it may wait, what
	// comes within a moment. from is the rank that w waits for, or AnyRank.
	Fetch(w *Receipt, from int, wait bool)
	// Sleeps is told how many waits, 1 or −1 more, are asleep until a frame comes.
	Sleeps(more int)
}

// NewMailbox returns the inbox of rank. A Recv that waits longer than deadline
// (0: for ever) ends in ErrDeadline, unless its activity is Idle.
func NewMailbox(rank int, deadline time.Duration) *Mailbox {
	return &Mailbox{rank: rank, deadline: deadline, gone: map[int]*PeerError{}}
}

// Meter lets t count how long receives were blocked. It must be called before
// anybody receives.
func (m *Mailbox) Meter(t *Traffic) { m.blocked = t }

// FetchBy has f look before waits sleep. It must be called before anybody receives.
func (m *Mailbox) FetchBy(f Fetcher) { m.fetcher = f }

// Matches says whether a receive from a rank with a tag, either of which may be
// any, takes a frame of that sender with that tag.
func Matches(from int, tag Tag, sender int32, its Tag) bool {
	return (from == AnyRank || int32(from) == sender) && (tag == its || tag == AnyTag && !its.private())
}

// Put delivers a frame. It never blocks. After Close frames are released.
func (m *Mailbox) Put(f Frame) { m.PutSince(f, time.Time{}) }

// PutSince is Put of a frame whose first bytes were seen at an instant; zero: it
// came at once.
func (m *Mailbox) PutSince(f Frame, since time.Time) {
	m.mu.Lock()
	if m.closed != nil || f.Header.Before(m.epoch) {
		m.mu.Unlock()
		f.Release()
		return
	}
	r := m.first(&f.Header)
	switch {
	case r == nil:
		m.queue.add(f)
		if m.seen != nil && f.Header.Tag == m.watched {
			m.notice()
		}
		m.mu.Unlock()
	case r.sink == nil:
		m.mu.Unlock()
		r.done <- delivery{f: f, since: since}
	default:
		r.since = since
		c := m.begin(r, f.Header, len(f.Body), f.Billed, true)
		m.mu.Unlock()
		c.whole(f)
	}
}

// first takes the first waiter that matches h, if there is one. Callers hold
// mu.
func (m *Mailbox) first(h *Header) *Receipt {
	for i, r := range m.waiters {
		if Matches(r.from, r.tag, h.From, h.Tag) {
			m.waiters = slices.Delete(m.waiters, i, i+1)
			return r
		}
	}
	return nil
}

// begin starts to feed a waiter from a frame that is whole already, or still on
// its way. Callers hold mu.
func (m *Mailbox) begin(r *Receipt, h Header, size, billed int, whole bool) Claim {
	r.taken, r.bill, r.whole = h, billed, whole
	if err := r.sink.Begin(&r.taken, size); err != nil {
		r.done <- delivery{f: Frame{Header: h}, err: err}
		return Claim{box: m}
	}
	m.fed = append(m.fed, r)
	return Claim{m, r}
}

// Claim is a frame on its way from the wire into a sink.
type Claim struct {
	box *Mailbox
	r   *Receipt // nil: refused, its bytes are swallowed
}

// Claim looks for a sink that waits for a frame with header h and a body of
// size bytes, billed at billed. Without one, ok is false and the frame is to be
// Put when it is whole. Otherwise its body is fed to the claim. since is as for
// PutSince.
func (m *Mailbox) Claim(h Header, size, billed int, since time.Time) (c Claim, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.Before(m.epoch) {
		return Claim{box: m}, true
	}
	for i, r := range m.waiters {
		if Matches(r.from, r.tag, h.From, h.Tag) {
			if r.sink == nil {
				return Claim{}, false
			}
			m.waiters = slices.Delete(m.waiters, i, i+1)
			r.since = since
			return m.begin(r, h, size, billed, false), true
		}
	}
	return Claim{}, false
}

// Feed gives the sink the next bytes of the body.
func (c Claim) Feed(b []byte) {
	if c.r != nil {
		c.r.feed(b)
	}
}

// Place has a source put the next bytes, at most n, where the sink wants them. It returns how
// many came; if not ok they are to be fed.
func (c Claim) Place(from Source, n int) (came int, ok bool, err error) {
	if c.r == nil {
		return 0, false, nil
	}
	return c.r.place(from, n)
}

// End says that the body is whole, or why it will never be.
func (c Claim) End(err error) {
	if c.r == nil {
		return
	}
	c.box.mu.Lock()
	i := slices.Index(c.box.fed, c.r)
	if i < 0 { // the wait was ended meanwhile
		c.box.mu.Unlock()
		return
	}
	c.box.fed = slices.Delete(c.box.fed, i, i+1)
	c.box.mu.Unlock()
	c.r.done <- delivery{f: Frame{Header: c.r.taken, Billed: c.r.bill}, err: err, since: c.r.since}
}

// whole feeds a frame that is all there.
func (c Claim) whole(f Frame) {
	c.Feed(f.Body)
	f.Release()
	c.End(nil)
}

// Enter refuses frames of epochs before this one from now on, and releases those that
// are queued; see Elastic.
func (m *Mailbox) Enter(epoch uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch = epoch
	m.queue.releaseIf(func(h *Header) bool { return h.Before(epoch) })
}

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
	m.waiters = slices.DeleteFunc(m.waiters, func(r *Receipt) bool {
		if r.from != e.Rank && (r.from != AnyRank || told) {
			return false
		}
		told = told || r.from == AnyRank
		r.done <- delivery{err: e}
		return true
	})
	m.fed = slices.DeleteFunc(m.fed, func(r *Receipt) bool {
		if int(r.taken.From) != e.Rank || r.whole {
			return false
		}
		r.cut()
		r.done <- delivery{err: e}
		return true
	})
	if !told {
		m.news = append(m.news, e)
	}
}

// Back tells the mailbox that another process has come in the place of a peer that is gone.
// The news that it was gone stays.
func (m *Mailbox) Back(rank int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.gone, rank)
}

// Close ends all present and future waits with err and releases what is queued.
func (m *Mailbox) Close(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed != nil {
		return
	}
	m.closed = err
	for _, r := range m.waiters {
		r.done <- delivery{err: err}
	}
	for _, r := range m.fed {
		r.cut()
		r.done <- delivery{err: err}
	}
	m.waiters, m.fed = nil, nil
	m.queue.releaseIf(func(*Header) bool { return true })
}

// watch calls seen once, as soon as a frame with the tag is queued, unless
// forget, which it returns, was called before. One activity of a rank may watch
// at a time.
func (m *Mailbox) watch(tag Tag, seen func()) (forget func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watched, m.seen = tag, seen
	if m.queue.find(func(h *Header) bool { return h.Tag == tag }) >= 0 {
		m.notice()
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watched, m.seen = 0, nil
	}
}

// notice tells whoever watches. Callers hold mu.
func (m *Mailbox) notice() {
	m.seen()
	m.watched, m.seen = 0, nil
}

// poll takes what is there already. Callers hold mu.
func (m *Mailbox) poll(from int, tag Tag) (delivery, bool) {
	if i := m.queue.find(func(h *Header) bool { return Matches(from, tag, h.From, h.Tag) }); i >= 0 {
		return delivery{f: m.queue.take(i)}, true
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

var receipts = sync.Pool{New: func() any { return new(Receipt) }}

// Recv waits as Endpoint.Recv describes.
func (m *Mailbox) Recv(ctx context.Context, from int, tag Tag) (Frame, error) {
	m.mu.Lock()
	if d, ok := m.poll(from, tag); ok {
		m.mu.Unlock()
		return d.f, d.err
	}
	r := receipts.Get().(*Receipt)
	m.queueUp(r, from, tag, nil)
	m.mu.Unlock()
	d := m.wait(ctx, r)
	receipts.Put(r)
	return d.f, d.err
}

// queueUp makes r a waiter. Callers hold mu.
func (m *Mailbox) queueUp(r *Receipt, from int, tag Tag, sink Sink) {
	r.from, r.tag, r.sink = from, tag, sink
	if r.done == nil {
		r.done = make(chan delivery, 1)
	}
	m.waiters = append(m.waiters, r)
}

// Post implements Streamer.
func (m *Mailbox) Post(r *Receipt, from int, tag Tag, sink Sink) {
	m.mu.Lock()
	d, ok := m.poll(from, tag)
	m.queueUp(r, from, tag, sink)
	if !ok {
		m.mu.Unlock()
		return
	}
	m.waiters = m.waiters[:len(m.waiters)-1]
	if d.err != nil {
		m.mu.Unlock()
		r.done <- d
		return
	}
	r.since = time.Time{}
	c := m.begin(r, d.f.Header, len(d.f.Body), d.f.Billed, true)
	m.mu.Unlock()
	c.whole(d.f)
}

// Await implements Streamer. The frame returned has no body.
func (m *Mailbox) Await(ctx context.Context, r *Receipt) (Frame, error) {
	d := m.wait(ctx, r)
	return d.f, d.err
}

// Cancel implements Streamer.
func (m *Mailbox) Cancel(r *Receipt) { m.withdraw(r) }

// withdraw ends r's wait and says whether it was still waiting.
func (m *Mailbox) withdraw(r *Receipt) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.waiters, r); i >= 0 {
		m.waiters = slices.Delete(m.waiters, i, i+1)
		return true
	}
	if i := slices.Index(m.fed, r); i >= 0 {
		m.fed = slices.Delete(m.fed, i, i+1)
		r.cut()
		return true
	}
	return false
}

// wait waits for what comes to r, for ctx, or for the deadline.
func (m *Mailbox) wait(ctx context.Context, r *Receipt) delivery {
	if m.fetcher != nil && !r.Over() {
		m.fetcher.Fetch(r, r.from, false)
	}
	if r.Over() { // most waits are over before they begin
		return <-r.done
	}
	began := time.Now()
	if m.fetcher != nil {
		if m.fetcher.Fetch(r, r.from, true); r.Over() {
			d := <-r.done
			m.count(ctx, began, d)
			return d
		}
		m.fetcher.Sleeps(1)
		defer m.fetcher.Sleeps(-1)
	}
	var timeout <-chan time.Time
	if m.deadline > 0 && !isIdle(ctx) {
		if r.late == nil {
			r.late = time.NewTimer(m.deadline)
		} else {
			r.late.Reset(m.deadline)
		}
		defer r.late.Stop()
		timeout = r.late.C
	}
	var late error
	select {
	case d := <-r.done:
		m.count(ctx, began, d)
		return d
	case <-ctx.Done():
		late = context.Cause(ctx)
	case <-timeout:
		late = fmt.Errorf("%w: rank %d waited %v for %s", ErrDeadline, m.rank, m.deadline, Wanted(r.from, r.tag))
	}
	if m.withdraw(r) {
		return delivery{err: late}
	}
	return <-r.done // delivered meanwhile: take it, lose nothing
}

// count books a wait that began at an instant and has ended with d.
func (m *Mailbox) count(ctx context.Context, began time.Time, d delivery) {
	if m.blocked == nil || d.err != nil || !Blocks(ctx, m.rank, d.f.Header) {
		return
	}
	all, wire := time.Since(began), time.Duration(0)
	if !d.since.IsZero() {
		wire = min(all, time.Since(d.since))
	}
	m.blocked.Block(wire, all-wire)
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
