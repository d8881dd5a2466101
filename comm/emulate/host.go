package emulate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// tagWire is the tag of what NICs say to each other. No program uses it.
const tagWire = comm.AnyTag - 1

// What NICs say: codes of frames without a body.
const (
	sayQuantum uint8 = iota // Step bytes, Version the instant, flagLast
	sayCredit               // Step quanta
	sayBye                  // nothing more will come
)

const flagLast = 1

// host is a rank behind a NIC, over a host of the net below.
type host struct {
	below   comm.Host
	traffic *comm.Traffic
	box     *comm.Mailbox
	sending []sync.Mutex // by rank: frames leave in the order in which they are announced
	acts    atomic.Int32
	ended   <-chan struct{}
	end     context.CancelFunc

	mu      sync.Mutex
	nic     *nic
	agenda  agenda
	alarm   *alarm
	set     instant       // when the alarm rings; 0: not at all
	arrived [][]event     // by rank: here, but not there yet
	failed  error         // of announcing
	drained chan struct{} // closed when nothing waits to leave; nil: nobody asks
	over    bool          // the alarm is gone
	strain  comm.Strain
}

var (
	_ comm.Host     = (*host)(nil)
	_ comm.Strained = (*host)(nil)
)

func newHost(ctx context.Context, below comm.Host, n NIC, deadline time.Duration) (*host, error) {
	a, err := newAlarm()
	if err != nil {
		return nil, err
	}
	h := &host{
		below: below, traffic: comm.TrafficOver(below.Traffic()), box: comm.NewMailbox(below.Rank(), deadline), alarm: a,
		sending: make([]sync.Mutex, below.Size()), arrived: make([][]event, below.Size()),
	}
	h.box.Meter(h.traffic)
	h.nic = newNIC(n, below.Size(), h)
	ctx, h.end = context.WithCancel(ctx)
	h.ended = ctx.Done()
	below.Go("NIC, in", func(_ context.Context, below comm.Host) error { return h.pump(ctx) })
	below.Go("NIC, clock", func(context.Context, comm.Host) error { return h.ring() })
	return h, nil
}

func (h *host) Rank() int              { return h.below.Rank() }
func (h *host) Size() int              { return h.below.Size() }
func (h *host) Traffic() *comm.Traffic { return h.traffic }
func (h *host) Now() time.Duration     { return h.below.Now() }

// Virtual implements comm.Clock: computing takes what it is said to cost.
func (h *host) Virtual() bool { return true }

// Strain implements comm.Strained.
func (h *host) Strain() comm.Strain {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.strain
}

// main runs the first activity.
func (h *host) main(ctx context.Context, p comm.Program) error {
	h.acts.Add(1)
	return h.act(ctx, p)
}

// Go implements comm.Host.
func (h *host) Go(name string, p comm.Program) {
	h.acts.Add(1)
	h.below.Go(name, func(ctx context.Context, _ comm.Host) error { return h.act(ctx, p) })
}

// act runs an activity. The last one to end lets what was sent leave; one that
// fails ends the others.
func (h *host) act(ctx context.Context, p comm.Program) (err error) {
	whole := false
	defer func() {
		if !whole || err != nil { // the net below tells why
			h.box.Close(errEnded)
			h.end()
		}
	}()
	err = p(ctx, h)
	if err == nil && h.acts.Add(-1) == 0 {
		err = h.leave(ctx)
		h.end()
	}
	whole = true
	return err
}

// leave waits until all has left and says goodbye to who is still there.
func (h *host) leave(ctx context.Context) error {
	h.mu.Lock()
	drained := make(chan struct{})
	h.drained = drained
	h.look()
	h.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for r := range h.Size() {
		if r != h.Rank() {
			var gone *comm.PeerError
			if err := h.say(r, comm.Header{Code: sayBye}); err != nil && !errors.As(err, &gone) {
				return err
			}
		}
	}
	return nil
}

// Send implements comm.Endpoint. Reports, and frames to the own rank, cost no
// time.
func (h *host) Send(ctx context.Context, to int, f comm.Frame) error {
	f.Header.From, f.Header.To = int32(h.Rank()), int32(to)
	if to == h.Rank() {
		h.box.Put(f)
		return nil
	}
	shaped := to >= 0 && to < h.Size() && f.Header.Kind != comm.Report
	if shaped {
		h.sending[to].Lock()
		defer h.sending[to].Unlock()
	}
	counted := f // the frame is the net's once it is sent
	if err := h.below.Send(ctx, to, f); err != nil {
		return err
	}
	h.traffic.Sent(counted)
	if !shaped {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nic.send(now(), to, counted.Billed)
	h.look()
	return h.failed
}

// Recv implements comm.Endpoint.
func (h *host) Recv(ctx context.Context, from int, tag comm.Tag) (comm.Frame, error) {
	f, err := h.box.Recv(ctx, from, tag)
	if err == nil && int(f.Header.From) != h.Rank() {
		h.traffic.Recv(f)
	}
	return f, err
}

// Sleep implements comm.Clock.
func (h *host) Sleep(ctx context.Context, d time.Duration) error { return h.until(ctx, now()+d) }

// until waits for an instant.
func (h *host) until(ctx context.Context, at instant) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if at <= now() {
		return nil
	}
	wake := make(chan struct{})
	h.mu.Lock()
	h.agenda.plan(event{at: at, wake: wake})
	h.look()
	h.mu.Unlock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-h.ended:
		return errEnded
	}
}

// pump takes what comes from the net below.
func (h *host) pump(ctx context.Context) error {
	defer h.close()
	idle := comm.Idle(ctx) // the program's own receives are what counts
	for {
		f, err := h.below.Recv(idle, comm.AnyRank, comm.AnyTag)
		var gone *comm.PeerError
		switch {
		case err == nil:
			h.came(f)
		case ctx.Err() != nil:
			h.box.Close(errEnded)
			return nil
		case errors.As(err, &gone):
			h.mu.Lock()
			h.lost(gone, false)
			h.mu.Unlock()
		default:
			h.box.Close(err)
			return nil // it is known below
		}
	}
}

// close forgets what has not happened yet.
func (h *host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.alarm.close()
	for r := range h.arrived {
		h.drop(r, 0)
	}
	for i := range h.agenda.events {
		h.agenda.events[i].frame.Release()
	}
	h.agenda.events = nil
}

// drop forgets what has arrived from a rank behind the first n.
func (h *host) drop(rank, n int) {
	for i := n; i < len(h.arrived[rank]); i++ {
		h.arrived[rank][i].frame.Release()
	}
	h.arrived[rank] = h.arrived[rank][:n]
}

// came looks at a frame from the net below.
func (h *host) came(f comm.Frame) {
	from := int(f.Header.From)
	if f.Header.Kind == comm.Report {
		h.box.Put(f)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.Header.Tag != tagWire {
		h.arrived[from] = append(h.arrived[from], event{frame: f})
		return
	}
	hd := f.Header
	f.Release()
	switch hd.Code {
	case sayQuantum:
		h.nic.announced(now(), from, quantum{int(hd.Step), instant(hd.Version), hd.Flags&flagLast != 0})
	case sayCredit:
		h.nic.credited(now(), from, int(hd.Step))
	case sayBye:
		h.lost(&comm.PeerError{Rank: from, Cause: "has finished", Ended: true}, true)
	}
	h.look()
}

// lost notes that a rank is gone, which is told once all that it announced is
// there. Callers hold mu.
func (h *host) lost(e *comm.PeerError, quiet bool) {
	h.nic.lose(e.Rank)
	h.drop(e.Rank, h.nic.coming(e.Rank))
	h.arrived[e.Rank] = append(h.arrived[e.Rank], event{gone: e, quiet: quiet})
	h.nic.announced(now(), e.Rank, quantum{left: now(), last: true})
	h.look()
}

// announce implements wire.
func (h *host) announce(to int, q quantum) {
	hd := comm.Header{Code: sayQuantum, Step: uint64(q.bytes), Version: uint64(q.left)}
	if q.last {
		hd.Flags = flagLast
	}
	h.tell(to, hd)
}

// credit implements wire.
func (h *host) credit(to, n int) { h.tell(to, comm.Header{Code: sayCredit, Step: uint64(n)}) }

// arrive implements wire.
func (h *host) arrive(from int, at instant) {
	q := h.arrived[from]
	if len(q) == 0 { // announced, but not sent
		return
	}
	e := q[0]
	e.at, q[0] = at, event{}
	h.arrived[from] = q[1:]
	h.agenda.plan(e)
}

// tell says something to a NIC; that its rank is gone is heard in pump.
func (h *host) tell(to int, hd comm.Header) {
	var gone *comm.PeerError
	if err := h.say(to, hd); err != nil && !errors.As(err, &gone) && h.failed == nil {
		h.failed = err
	}
}

func (h *host) say(to int, hd comm.Header) error {
	hd.Kind, hd.Tag = comm.Control, tagWire
	return h.below.Send(context.Background(), to, comm.NewFrame(hd, nil))
}

// ring acts whenever the alarm rings, until the rank ends.
func (h *host) ring() error {
	for h.alarm.wait() == nil {
		h.mu.Lock()
		h.set = 0
		h.look()
		h.mu.Unlock()
	}
	return nil
}

// look does what is due and sets the alarm for what is to come. Callers hold mu.
func (h *host) look() {
	t := now()
	h.nic.step(t)
	for e, ok := h.agenda.next(t); ok; e, ok = h.agenda.next(t) {
		h.happen(e, t)
	}
	if h.drained != nil && h.nic.idle() {
		close(h.drained)
		h.drained = nil
	}
	at, ok := h.agenda.due()
	if own, also := h.nic.due(); also && (!ok || own < at) {
		at, ok = own, true
	}
	if ok && at != h.set && !h.over {
		h.set = at
		h.alarm.set(at - t)
	}
}

func (h *host) happen(e event, t instant) {
	switch {
	case e.wake != nil:
		close(e.wake)
	case e.gone != nil:
		h.box.Gone(e.gone, e.quiet)
	default:
		h.strain.Frames++
		h.strain.LateSeconds += (t - e.at).Seconds()
		h.box.Put(e.frame)
	}
}
