package sim

import (
	"time"

	"github.com/gradlab/gradlab/comm"
)

// Network prices the way of a frame. Implementations are driven by the event
// loop alone. Two exist: Fair (streams share NICs max-min fairly, the default)
// and FIFO (each NIC serves one message at a time: fast, and only right for
// symmetric traffic).
type Network interface {
	reset(ranks int)
	// start lets f leave now.
	start(l *loop, f comm.Frame)
	// settle solves what changed at this instant and tells when the network
	// next has something to do.
	settle(l *loop) (time.Duration, bool)
	// advance does what is due now.
	advance(l *loop)
	// usage says how much of its links was used up to now.
	usage(now time.Duration) []Link
	// road is what is known of frames from → to; nil: there were none.
	road(from, to int) *road
}

// road is what the frames from one rank to another have in common.
type road struct {
	onWay  int           // frames that have not arrived
	landed time.Duration // when the last one did

	// With faults:
	count     uint64        // frames that have left
	due, free time.Duration // when the last one arrives, and a slow link is free again
}

// pending says whether frames from → to are still on their way.
func (l *loop) pending(from, to int) bool {
	if l.cut(from, to) {
		return false
	}
	r := l.net.road(from, to)
	return r != nil && r.onWay > 0
}

// flight is a frame that has left its sender's NIC.
type flight struct {
	frame comm.Frame
	sent  time.Duration
	road  *road
}

// depart lets f arrive at p.Arrived, and then takes it off the road's count.
func (l *loop) depart(f comm.Frame, p passing, r *road) {
	if l.faults != nil {
		p.arrived = l.faults.weather(l.now, int(f.Header.From), int(f.Header.To), f.Billed, p, r)
	}
	if l.probe != nil {
		l.probe.Frame(Passage{Header: f.Header, Billed: f.Billed, Sent: p.sent, Began: p.began, Left: p.left, Arrived: p.arrived})
	}
	var i int
	if n := len(l.landed); n > 0 {
		i, l.landed = l.landed[n-1], l.landed[:n-1]
		l.flights[i] = flight{f, p.sent, r}
	} else {
		i = len(l.flights)
		l.flights = append(l.flights, flight{f, p.sent, r})
	}
	l.queue.add(arrivals, event{at: p.arrived, flight: i + 1})
}

// passing is when a frame was sent, began to move, left and arrives.
type passing struct{ sent, began, left, arrived time.Duration }

// land ends a flight.
func (l *loop) land(i int) {
	f := l.flights[i]
	l.flights[i] = flight{}
	l.landed = append(l.landed, i)
	f.road.onWay--
	f.road.landed = l.now
	to, from := l.hosts[f.frame.Header.To], int(f.frame.Header.From)
	if l.faults != nil && l.faults.again(f.frame.Header, l.now, f.road) {
		l.deliver(f.frame.Share(), f.sent)
	}
	l.deliver(f.frame, f.sent)
	to.wakeGone(from)
}

// wakeGone wakes those who wait for a rank that ended while its last frames
// were still on their way.
func (h *host) wakeGone(from int) {
	if h.goneTo(from) != nil {
		h.wakeWaiting(func(t *task) bool { return t.from == from || t.from == comm.AnyRank })
	}
}

// seconds are a duration, of what is beyond the horizon one that is, too.
func seconds(s float64) time.Duration {
	return time.Duration(min(float64(s*1e9)+0.5, 2*float64(horizon)))
}
