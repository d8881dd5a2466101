package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/internal/portable"
)

// Lease is how long a rank may be silent before it counts as dead, unless Net.Lease says
// otherwise: as long as processes over gRPC.
const Lease = 10 * time.Second

// What packets are, for faults below the contract of a net.
const (
	packet  = 1448                   // bytes of payload in a TCP segment on Ethernet
	tail    = 3                      // so many packets behind a lost one tell of it at once
	timeout = 200 * time.Millisecond // the least that Linux waits before it sends again
	draws   = 64                     // of single packets; more are drawn together
)

// faults are those of a run: what is to come, what goes on, and what it has left behind.
// Frames of kind Report pass them, as observation costs nothing, unless their sender or
// receiver is dead or their link is lost.
type faults struct {
	plan  []nemesis.Act
	lease time.Duration
	last  int // the observer's rank, whose word decides who is dead

	links   []*nemesis.Act  // those on links, that have begun or will, in order of time
	over    time.Duration   // when the first of them is
	fenced  map[int]bool    // ranks that are dead by the coordinator's word
	severed map[[2]int]bool // links of others that are lost
	resent  uint64          // bytes that links carried once more
}

// strike lets every fault happen at its instant.
func (l *loop) strike(plan []nemesis.Act, lease, start time.Duration) {
	if lease <= 0 {
		lease = Lease
	}
	f := &faults{plan: plan, lease: lease, last: len(l.hosts) - 1, over: math.MaxInt64, fenced: map[int]bool{}, severed: map[[2]int]bool{}}
	l.faults = f
	for i := range plan {
		a := &plan[i]
		if a.Until() <= start || (a.What == nemesis.Killing || a.What == nemesis.Joining) && a.At < start {
			continue // it has happened already
		}
		at := max(a.At, start)
		switch a.What {
		case nemesis.Killing:
			if h := l.host(a.Rank); h != nil {
				l.at(at, h.die)
			}
		case nemesis.Joining:
			if h := l.host(a.Rank); h != nil && a.Rank != f.last {
				l.at(at, h.restart)
			}
		case nemesis.Pausing:
			if h := l.host(a.Rank); h != nil {
				l.at(at, func() { h.stop(a.Until()) })
			}
		default:
			f.links, f.over = append(f.links, a), min(f.over, a.Until())
			if a.What == nemesis.Cutting && (a.For == 0 || a.For >= lease) {
				l.at(a.At+lease, func() { l.sever(a) })
			}
		}
	}
}

// host is the host of a rank; nil: there is none.
func (l *loop) host(rank int) *host {
	if rank < 0 || rank >= len(l.hosts) {
		return nil
	}
	return l.hosts[rank]
}

// at lets something happen at an instant.
func (l *loop) at(when time.Duration, do func()) {
	l.deeds = append(l.deeds, do)
	l.queue.add(anyTime, event{at: max(when, l.now), deed: len(l.deeds)})
}

// stop keeps a rank from doing anything up to an instant. It is dead once it has been
// away for its lease.
func (h *host) stop(until time.Duration) {
	l := h.loop
	if h.acts == 0 || until <= max(h.asleep, l.now) {
		return
	}
	from := max(h.asleep, l.now)
	if from == l.now {
		h.stopped = l.now
	}
	h.lag += until - from
	h.asleep = until
	if gone := h.stopped + l.faults.lease; until >= gone {
		began := h.stopped
		l.at(gone, func() {
			if h.stopped == began && h.asleep >= l.now {
				h.fence()
			}
		})
	}
}

// fence declares a rank dead that the coordinator has not heard of for its lease. Nothing
// it has sent, and that has not arrived, counts.
func (h *host) fence() {
	l := h.loop
	if h.acts == 0 || h.failed != nil {
		return
	}
	l.faults.fenced[h.rank] = true
	h.end(fmt.Errorf("silent for %v, its lease is over, at virtual %v", l.faults.lease, l.now))
}

// sever ends the links of a partition that has lasted for a lease. The observer's word
// ends a rank; of two others, each takes the other for dead.
func (l *loop) sever(a *nemesis.Act) {
	f := l.faults
	for r, h := range l.hosts {
		if r != f.last && (a.Touches(r, f.last) || a.Touches(f.last, r)) {
			h.fence()
		}
	}
	var ends [2][]*host
	for r, h := range l.hosts {
		for i, set := range []nemesis.Set{a.From, a.To} {
			if set.Has(r) && h.gone == nil && !f.fenced[r] {
				ends[i] = append(ends[i], h)
			}
		}
	}
	for _, h := range ends[0] {
		for _, o := range ends[1] {
			if h == o || l.cut(h.rank, o.rank) {
				continue
			}
			f.severed[[2]int{h.rank, o.rank}], f.severed[[2]int{o.rank, h.rank}] = true, true
			h.part(o.rank)
			o.part(h.rank)
		}
	}
}

// part tells a rank that its link to another is lost.
func (h *host) part(peer int) {
	if h.lost == nil {
		h.lost = map[int]*comm.PeerError{}
	}
	e := &comm.PeerError{Rank: peer, Cause: fmt.Sprintf("silent for %v, its lease is over, at virtual %v", h.loop.faults.lease, h.loop.now), Lost: true, Incarnation: h.loop.hosts[peer].life}
	h.lost[peer] = e
	h.news = append(h.news, e)
	h.wakeWaiting(func(t *task) bool { return t.from == peer || t.from == comm.AnyRank })
}

// goneTo is why a rank has nothing more to hope for from another; nil: it has.
func (h *host) goneTo(peer int) *comm.PeerError {
	if e := h.lost[peer]; e != nil {
		return e
	}
	return h.loop.hosts[peer].gone
}

// cut says whether nothing passes from one rank to another any more.
func (l *loop) cut(from, to int) bool {
	f := l.faults
	return f != nil && (f.fenced[from] || f.fenced[to] || f.severed[[2]int{from, to}])
}

// weather is when a frame arrives that leaves now, whatever befalls its packets. Frames of
// a road stay in order.
func (f *faults) weather(now time.Duration, from, to, billed int, p passing, r *road) time.Duration {
	arrived, way := p.arrived, p.arrived-p.left
	n := max(1, (billed+packet-1)/packet)
	r.count++
	f.forget(now)
	for _, a := range f.links {
		if a.At > p.left {
			break
		}
		if a.Until() <= p.left || !a.Touches(from, to) {
			continue
		}
		k := a.Key.With(uint64(from)).With(uint64(to)).With(r.count)
		switch a.What {
		case nemesis.Losing:
			lost, last := some(k, n, a.Share)
			f.resent += uint64(lost) * packet
			if lost > 0 && !last {
				arrived += 2 * way
			}
			for wait := timeout; lost > 0; wait *= 2 {
				if last {
					arrived += wait
				}
				k = k.With(1)
				lost, _ = some(k, lost, a.Share)
				f.resent += uint64(lost) * packet
				last = true
			}
		case nemesis.Doubling:
			again, _ := some(k, n, a.Share)
			f.resent += uint64(again) * packet
		case nemesis.Reordering:
			if k.Float64(0) < 1-portable.Pow(1-a.Share, float64(n)) {
				arrived += a.By
			}
		case nemesis.Delaying:
			arrived += max(0, a.By+time.Duration(float64(a.Jitter)*k.Norm(0)))
		case nemesis.Slowing:
			took := p.left - p.began // so its first byte is there before it
			r.free = max(r.free, arrived-took) + time.Duration(a.Times*float64(took))
			arrived = r.free
		}
	}
	arrived = f.retry(from, to, billed, p.left, arrived)
	r.due = max(r.due, arrived)
	return r.due
}

// forget drops what is over.
func (f *faults) forget(now time.Duration) {
	if now < f.over {
		return
	}
	f.over = math.MaxInt64
	f.links = slices.DeleteFunc(f.links, func(a *nemesis.Act) bool {
		if a.Until() <= now {
			return true
		}
		f.over = min(f.over, a.Until())
		return false
	})
}

// retry is when a frame arrives that is sent again until no partition keeps it.
func (f *faults) retry(from, to, billed int, left, arrived time.Duration) time.Duration {
	way, wait := arrived-left, timeout
	for again := true; again; {
		again = false
		for _, a := range f.links {
			if a.At > left+way {
				break
			}
			if a.What != nemesis.Cutting || a.Until() <= left || !a.Touches(from, to) {
				continue
			}
			if a.For == 0 || left > horizon/2 {
				return horizon / 2 // never: the link is severed before
			}
			for left < a.Until() {
				left += wait
				wait *= 2
				f.resent += uint64(min(billed, packet))
			}
			again = true
		}
	}
	return left + way
}

// some draws how many of n packets it befalls, each with a probability, and whether one
// of the last is among them. More than a few are drawn by the normal law of the same mean
// and variance.
func some(k interface {
	Float64(uint64) float64
	Norm(uint64) float64
}, n int, share float64) (hit int, last bool) {
	for i := range min(n, draws) {
		if k.Float64(uint64(i)) < share {
			hit++
			last = last || i < tail // counted from the end
		}
	}
	if more := float64(n - draws); more > 0 {
		mean := float64(more * share)
		hit += int(min(more, max(0, mean+float64(math.Sqrt(mean*(1-share))*k.Norm(draws))+0.5)))
	}
	return hit, last
}

// again says whether a push that has just arrived arrives once more.
func (f *faults) again(h comm.Header, now time.Duration, r *road) bool {
	if h.Kind != comm.Gradient {
		return false
	}
	for _, a := range f.links {
		if a.At > now {
			break
		}
		if a.What != nemesis.Resending || a.Until() <= now || !a.Touches(int(h.From), int(h.To)) {
			continue
		}
		if a.Key.With(uint64(h.From)).With(uint64(h.To)).With(h.Seq).With(r.count).Float64(0) < a.Share {
			return true
		}
	}
	return false
}

// cutOff says whether an error of h is that a link of its was lost: to the others it is
// dead, which is no error of the run unless they make it one.
func (h *host) cutOff(err error) bool {
	var e *comm.PeerError
	return errors.As(err, &e) && h.lost[e.Rank] != nil
}
