// Package sim runs ranks as coroutines on a virtual cluster with a virtual
// clock. Programs, gradients, payloads and their sizes are real; only time is
// modelled: computing costs what its Work says, frames take what the Network
// says.
//
// One event loop resumes one coroutine at a time in an order fixed by (virtual
// time, sequence number), so a run is a pure function of its programs. Gradient
// work runs meanwhile on spare cores: it starts at the virtual start of a Work
// and is joined at its first mark. That changes wall time only.
package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/nemesis"
)

// Net is a virtual cluster.
type Net struct {
	// Network prices frames between ranks. Default: 10 Gb/s, 25 µs, max-min
	// fair.
	Network Network
	// Cores bounds how many Works are computed at once. Default GOMAXPROCS.
	Cores int
	// Start is the clock's reading when the run begins (a resumed run goes on
	// where it stopped).
	Start time.Duration
	// Probe hears what happens; nil: nobody does.
	Probe Probe
	// Faults happen to ranks and links at their instants; the last rank is the observer.
	// A rank that nobody hears for Lease counts as dead. 0: as long as the constant.
	Faults []nemesis.Act
	Lease  time.Duration
	// Fixed are ranks, such as the observer, without which the others do not go on. When one of them dies, and
	// fault rejoin has it come back, Run returns a comm.AgainError: all meet again at that
	// instant, also those who had died. Start and Faults are then of what is to come.
	Fixed []int

	now    time.Duration // of the last run
	links  []Link
	resent uint64
}

var _ comm.Net = (*Net)(nil)

// Now is the virtual time at which the last run ended.
func (n *Net) Now() time.Duration { return n.now }

// Links tells how much of the network the last run used.
func (n *Net) Links() []Link { return n.links }

// Resent is how many bytes links carried once more in the last run, as faults lost them,
// cut them off or doubled them. Nobody is billed for them.
func (n *Net) Resent() uint64 { return n.resent }

// Run implements comm.Net. A queue without events while programs still wait is
// a deadlock; the error lists who waits for what.
func (n *Net) Run(ctx context.Context, programs []comm.Program) error {
	l := &loop{ctx: ctx, now: n.Start, net: n.Network, probe: n.Probe, programs: programs, fixed: n.Fixed}
	if l.net == nil {
		l.net = &Fair{Bandwidth: 10e9 / 8, Latency: 25 * time.Microsecond}
	}
	l.net.reset(len(programs))
	cores := n.Cores
	if cores <= 0 {
		cores = runtime.GOMAXPROCS(0)
	}
	l.ahead = newAhead(cores)
	l.hosts = make([]*host, len(programs))
	for r := range l.hosts {
		l.hosts[r] = &host{loop: l, rank: r, traffic: new(comm.Traffic)}
	}
	for r, p := range programs {
		l.hosts[r].Go("main", p)
	}
	if n.resent = 0; len(n.Faults) > 0 {
		l.strike(n.Faults, n.Lease, n.Start)
	}
	err := l.run()
	n.now, n.links = l.now, l.net.usage(l.now)
	if l.faults != nil {
		n.resent = l.faults.resent
	}
	if l.meeting != nil {
		return n.again(l.meeting, l.now)
	}
	return err
}

type loop struct {
	ctx   context.Context
	now   time.Duration
	queue agenda
	hosts []*host
	probe Probe

	programs []comm.Program
	deeds    []func() // of faults
	flights  []flight
	landed   []int // free places in flights

	tasks   []*task
	live    int
	net     Network
	faults  *faults // nil: there are none
	fixed   []int
	meeting *meeting // nil: all need not meet again
	ahead   *ahead
	err     comm.FirstError
	cur     *task
	ended   error // set once the run is being torn down
}

// wake lets a task go on now.
func (l *loop) wake(t *task) { l.queue.add(atOnce, event{at: l.now, task: t, gen: t.gen}) }

func (l *loop) run() error {
	for n := 0; l.live > 0; n++ {
		if n&63 == 0 {
			if err := l.ctx.Err(); err != nil {
				l.tearDown(context.Cause(l.ctx))
				break
			}
		}
		// The network settles what changed at this instant before time moves on.
		due, ok := l.net.settle(l)
		next := l.queue.next()
		if ok && due > horizon || next != nil && (next.at > horizon || next.at < l.now) {
			l.err.Add(errHorizon)
			l.tearDown(errTornDown)
			break
		}
		if ok && (next == nil || due < next.at) {
			l.now = max(due, l.now)
			l.net.advance(l)
			continue
		}
		if next == nil {
			l.err.Add(l.deadlock())
			l.tearDown(errTornDown)
			break
		}
		e := l.queue.take()
		l.now = e.at
		switch {
		case e.deed > 0:
			l.deeds[e.deed-1]()
		case e.flight > 0:
			l.land(e.flight - 1)
		case e.task.gen != e.gen || e.task.done:
		case e.task.host.asleep > l.now:
			e.at = e.task.host.asleep
			l.queue.add(anyTime, e)
		default:
			l.resume(e.task)
		}
		if l.meeting != nil {
			l.disperse()
			break
		}
	}
	return l.err.Err()
}

// horizon is the end of virtual time: far below where sums of durations overflow.
const horizon = time.Duration(1) << 60

var errHorizon = fmt.Errorf("the virtual clock would pass %.0f years: look for a device or a network that is all too slow, and for durations in the wrong unit", horizon.Hours()/24/365)

var errTornDown = errors.New("the virtual run has ended")

// tearDown resumes every parked task with an error until all have returned.
func (l *loop) tearDown(cause error) {
	l.ended = cause
	l.err.Add(cause)
	for i := 0; i < len(l.tasks); i++ { // tasks may start tasks
		for t := l.tasks[i]; !t.done; {
			l.resume(t)
		}
	}
}

func (l *loop) resume(t *task) {
	l.cur = t
	if _, ok := t.next(); !ok && !t.done {
		t.done = true
	}
	l.cur = nil
}

func (l *loop) deadlock() error {
	var b strings.Builder
	fmt.Fprintf(&b, "deadlock at virtual %v: nothing can happen any more and", l.now)
	shown := 0
	for _, t := range l.tasks {
		if t.done {
			continue
		}
		if shown++; shown > 12 {
			b.WriteString("\n  …")
			break
		}
		fmt.Fprintf(&b, "\n  rank %d (%s) waits for %s", t.host.rank, t.name, t.waits())
	}
	return errors.New(b.String())
}

// task is one activity of a rank, a coroutine.
type task struct {
	host *host
	name string
	next func() (struct{}, bool)
	park func(struct{}) bool // yields to the loop
	gen  uint64
	done bool

	stirred bool // woken by Rouse
	waiting bool // in Recv
	from    int
	tag     comm.Tag
}

func (t *task) waits() string {
	if t.waiting {
		return comm.Wanted(t.from, t.tag)
	}
	return "its turn"
}

type host struct {
	loop    *loop
	rank    int
	tasks   []*task
	inbox   inbox
	gone    *comm.PeerError // what the others are told once it has ended
	news    []*comm.PeerError
	acts    int
	failed  error
	traffic *comm.Traffic // of its present process

	lost            map[int]*comm.PeerError // links that are, by rank
	asleep, stopped time.Duration           // until when and since when it is paused
	lag             time.Duration           // what pauses have cost it, up to asleep

	life   uint32 // how often it has come back
	killed bool   // by a fault
	epoch  uint32 // frames of earlier ones are refused
	roused bool   // once: contexts of its waits may end
}

func (h *host) Rank() int              { return h.rank }
func (h *host) Size() int              { return len(h.loop.hosts) }
func (h *host) Traffic() *comm.Traffic { return h.traffic }
func (h *host) Now() time.Duration     { return h.loop.now }
func (h *host) Virtual() bool          { return true }

func (h *host) Go(name string, p comm.Program) {
	l := h.loop
	t := &task{host: h, name: name}
	t.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		t.park = yield
		err := h.guard(name, p)
		t.done = true
		l.live--
		h.acts--
		if err != nil {
			h.fail(fmt.Errorf("rank %d, %s: %w", h.rank, name, err))
		}
		if h.acts == 0 {
			h.finish()
		}
	})
	l.tasks = append(l.tasks, t)
	h.tasks = append(h.tasks, t)
	l.live++
	h.acts++
	l.wake(t)
}

func (h *host) guard(name string, p comm.Program) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	if h.loop.ended != nil {
		return h.loop.ended
	}
	if h.failed != nil {
		return h.failed
	}
	return p(h.loop.ctx, h)
}

// fail ends the rank's other activities.
func (h *host) fail(err error) {
	if h.failed == nil {
		h.failed = err
		if !h.cutOff(err) {
			h.loop.err.Add(err)
		}
		h.wakeWaiting(func(*task) bool { return true })
	}
}

// finish tells the others that this rank will send no more.
func (h *host) finish() {
	e := &comm.PeerError{Rank: h.rank, Cause: "has finished", Ended: h.failed == nil, Killed: h.killed, Incarnation: h.life}
	if h.failed != nil {
		e.Cause = h.failed.Error()
	}
	h.gone = e
	for _, o := range h.loop.hosts {
		if o == h {
			continue
		}
		if h.failed != nil && o.lost[h.rank] == nil {
			o.news = append(o.news, e)
		}
		o.wakeWaiting(func(t *task) bool {
			return t.from == h.rank || (t.from == comm.AnyRank && h.failed != nil)
		})
	}
	for q, ok := h.inbox.pop(); ok; q, ok = h.inbox.pop() {
		q.frame.Release()
	}
}

// wakeWaiting schedules the tasks of h that wait in Recv and satisfy ok.
func (h *host) wakeWaiting(ok func(*task) bool) {
	for _, t := range h.tasks {
		if !t.done && t.waiting && ok(t) {
			t.waiting = false
			h.loop.wake(t)
		}
	}
}

// pause parks the current task until it is resumed.
func (h *host) pause(t *task) error {
	t.park(struct{}{})
	if l := h.loop; l.ended != nil {
		return l.ended
	}
	return h.failed
}

func (h *host) Sleep(ctx context.Context, d time.Duration) error {
	return h.pass(ctx, d, Sleeping, 0)
}

// pass lets d pass for the current task.
func (h *host) pass(ctx context.Context, d time.Duration, doing Doing, mark int) error {
	l := h.loop
	if l.ended != nil {
		return l.ended
	}
	t, from, waiting := l.cur, l.now, l.cur.waiting
	for again := true; again; {
		if err := h.over(ctx); err != nil {
			return err
		}
		t.gen++
		t.waiting = waiting
		l.queue.add(anyTime, event{at: from + max(d, 0), task: t, gen: t.gen})
		if err := h.pause(t); err != nil {
			return err
		}
		again, t.stirred = t.stirred, false
	}
	h.span(doing, from, mark)
	return nil
}

// computing lets the time up to mark i of w pass, or less if a frame that breaks
// w comes before.
func (h *host) computing(ctx context.Context, w comm.Work, i int) error {
	began := h.loop.now - h.lag
	rest := func() time.Duration { return began + w.Cost[i] + h.lag - h.loop.now }
	if w.Break == 0 {
		for first := true; first || rest() > 0; first = false {
			if err := h.pass(ctx, rest(), Computing, i); err != nil {
				return err
			}
		}
		return nil
	}
	t := h.loop.cur
	t.from, t.tag = comm.AnyRank, w.Break
	for {
		switch {
		case h.failed != nil:
			return h.failed
		case h.inbox.has(w.Break):
			return comm.ErrBroken
		case rest() <= 0:
			return nil
		}
		t.waiting = true
		err := h.pass(ctx, rest(), Computing, i)
		t.waiting = false
		if err != nil {
			return err
		}
	}
}

func (h *host) Do(ctx context.Context, w comm.Work) error {
	l := h.loop
	if l.ended != nil {
		return l.ended
	}
	if w.Break != 0 && h.inbox.has(w.Break) {
		return comm.ErrBroken
	}
	due := l.now
	if len(w.Cost) > 0 {
		due += max(w.Cost[0], 0)
	}
	e := l.ahead.submit(due, func() error { return w.Run(func(int) error { return nil }) })
	if len(w.Cost) == 0 {
		return l.ahead.join(e)
	}
	for i := range w.Cost {
		if err := h.computing(ctx, w, i); err != nil {
			if w.Abort != nil {
				w.Abort()
			}
			if i == 0 {
				l.ahead.drop(e)
			}
			return err
		}
		if i == 0 {
			if err := l.ahead.join(e); err != nil {
				return err
			}
		}
		if w.Then != nil {
			if err := w.Then(i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *host) Send(ctx context.Context, to int, f comm.Frame) error {
	l := h.loop
	if l.ended != nil {
		f.Release()
		return l.ended
	}
	if h.failed != nil {
		f.Release()
		return h.failed
	}
	if to < 0 || to >= len(l.hosts) {
		f.Release()
		return fmt.Errorf("rank %d: no rank %d to send to", h.rank, to)
	}
	f.Header.From, f.Header.To = int32(h.rank), int32(to)
	if f.Header.Incarnation == 0 {
		f.Header.Incarnation = h.life
	}
	if to == h.rank {
		l.deliver(f, l.now)
		return nil
	}
	h.traffic.Sent(f)
	if f.Header.Kind == comm.Report {
		l.deliver(f, l.now) // observation costs no virtual time
		return nil
	}
	l.net.start(l, f)
	return nil
}

// deliver puts a frame, sent at an instant, into its receiver's inbox now.
func (l *loop) deliver(f comm.Frame, sent time.Duration) {
	h := l.hosts[f.Header.To]
	if h.acts == 0 || f.Header.Before(h.epoch) || l.cut(int(f.Header.From), h.rank) {
		f.Release()
		return
	}
	h.inbox.push(queued{f, sent})
	for _, t := range h.tasks {
		if !t.done && t.waiting && comm.Matches(t.from, t.tag, f.Header.From, f.Header.Tag) {
			t.waiting = false
			l.wake(t)
			return
		}
	}
}

// waited is how much of a receive that began at an instant was for a peer that
// sent at another: from when it had what this rank had sent it.
func (h *host) waited(began time.Duration, peer int, sent time.Duration) time.Duration {
	if r := h.loop.net.road(h.rank, peer); r != nil && r.onWay == 0 {
		began = max(began, r.landed)
	}
	return max(0, sent-began)
}

func (h *host) Recv(ctx context.Context, from int, tag comm.Tag) (comm.Frame, error) {
	l := h.loop
	if from != comm.AnyRank && (from < 0 || from >= len(l.hosts)) {
		return comm.Frame{}, fmt.Errorf("rank %d: no rank %d to receive from", h.rank, from)
	}
	t, began := l.cur, l.now
	t.from, t.tag = from, tag
	for {
		if l.ended != nil {
			return comm.Frame{}, l.ended
		}
		if h.failed != nil {
			return comm.Frame{}, h.failed
		}
		if err := h.over(ctx); err != nil {
			return comm.Frame{}, err
		}
		if q, ok := h.inbox.take(from, tag); ok {
			f := q.frame
			if int(f.Header.From) != h.rank {
				h.traffic.Recv(f)
			}
			if l.now > began && comm.Blocks(ctx, h.rank, f.Header) {
				wait := h.waited(began, int(f.Header.From), q.sent)
				h.traffic.Block(l.now-began-wait, wait)
			}
			h.span(Waiting, began, 0)
			return f, nil
		}
		if from == comm.AnyRank {
			if e := h.told(); e != nil {
				return comm.Frame{}, e
			}
		}
		if from != comm.AnyRank && from != h.rank && !l.pending(from, h.rank) {
			if e := h.goneTo(from); e != nil {
				return comm.Frame{}, e
			}
		}
		t.gen++
		t.waiting = true
		if err := h.pause(t); err != nil {
			return comm.Frame{}, err
		}
		t.waiting, t.stirred = false, false
	}
}
