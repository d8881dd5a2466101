package sim

import (
	"math"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// Fair is a flow-level network: frames between two ranks form an ordered byte
// stream of which the first frame moves; streams share the sending and the
// receiving NICs max-min fairly (progressive filling: Bertsekas and Gallager
// 1992, §6.5.2). A frame arrives Latency after its last byte has left.
//
// Rates are solved once per instant at which streams began or ended. Frames of
// no billed bytes take Latency alone, in order with the others.
type Fair struct {
	Bandwidth float64       // bytes per second of a NIC, each direction; 0: unlimited
	Latency   time.Duration // one way

	streams map[[2]int]*stream
	active  []*stream // in order of becoming active
	onWay   map[[2]int]int
	dirty   bool
	last    time.Duration // instant up to which `left` is right
	next    time.Duration // instant of the next completion
	tx, rx  []link
}

type stream struct {
	from, to int
	queue    []comm.Frame
	left     float64 // bytes of queue[0] still to move
	rate     float64
	fixed    bool
}

type link struct {
	room  float64
	count int
}

func (n *Fair) reset(ranks int) {
	n.streams, n.onWay, n.active = map[[2]int]*stream{}, map[[2]int]int{}, nil
	n.tx, n.rx = make([]link, ranks), make([]link, ranks)
	n.dirty, n.last = false, 0
}

func (n *Fair) pending(from, to int) bool { return n.onWay[[2]int{from, to}] > 0 }

func (n *Fair) start(l *loop, f comm.Frame) {
	key := [2]int{int(f.Header.From), int(f.Header.To)}
	n.onWay[key]++
	s := n.streams[key]
	if s == nil {
		s = &stream{from: key[0], to: key[1]}
		n.streams[key] = s
	}
	if len(s.queue) == 0 && (f.Billed == 0 || n.Bandwidth <= 0) {
		l.arrival(n.Latency, f, n.onWay)
		return
	}
	s.queue = append(s.queue, f)
	if len(s.queue) == 1 {
		n.move(l.now)
		s.left = float64(f.Billed)
		n.active = append(n.active, s)
		n.dirty = true
	}
}

// move lets bytes flow at the present rates up to now.
func (n *Fair) move(now time.Duration) {
	if dt := (now - n.last).Seconds(); dt > 0 {
		for _, s := range n.active {
			s.left -= s.rate * dt
		}
	}
	n.last = now
}

func (n *Fair) settle(l *loop) (time.Duration, bool) {
	if n.dirty {
		// Streams that begin at this same instant join the same solution.
		if len(l.queue) > 0 && l.queue[0].at <= l.now {
			return 0, false
		}
		n.solve()
		n.dirty = false
		n.next = math.MaxInt64
		for _, s := range n.active {
			n.next = min(n.next, n.last+seconds(max(s.left, 0)/s.rate))
		}
	}
	return n.next, len(n.active) > 0
}

// solve fills rates progressively: the link with the least room per stream
// fixes its streams, until none is left.
func (n *Fair) solve() {
	for i := range n.tx {
		n.tx[i], n.rx[i] = link{room: n.Bandwidth}, link{room: n.Bandwidth}
	}
	for _, s := range n.active {
		s.fixed = false
		n.tx[s.from].count++
		n.rx[s.to].count++
	}
	for left := len(n.active); left > 0; {
		share := math.Inf(1)
		for i := range n.tx {
			for _, k := range [2]*link{&n.tx[i], &n.rx[i]} {
				if k.count > 0 {
					share = min(share, k.room/float64(k.count))
				}
			}
		}
		limit := share * (1 + 1e-9)
		for _, s := range n.active {
			t, r := &n.tx[s.from], &n.rx[s.to]
			if s.fixed || (t.room/float64(t.count) > limit && r.room/float64(r.count) > limit) {
				continue
			}
			s.fixed, s.rate = true, share
			left--
			t.room, r.room = max(t.room-share, 0), max(r.room-share, 0)
			t.count--
			r.count--
		}
	}
}

// advance completes the frames that are through at this instant.
func (n *Fair) advance(l *loop) {
	n.move(l.now)
	keep := n.active[:0]
	for _, s := range n.active {
		// Half a nanosecond of bytes is below the clock's resolution.
		for len(s.queue) > 0 && s.left <= s.rate*1e-9 {
			l.arrival(n.Latency, s.queue[0], n.onWay)
			s.queue[0] = comm.Frame{}
			s.queue = s.queue[1:]
			if len(s.queue) > 0 {
				s.left = float64(s.queue[0].Billed)
			} else {
				s.queue = nil
			}
			n.dirty = true
		}
		if len(s.queue) > 0 {
			keep = append(keep, s)
		}
	}
	n.active = keep
	if !n.dirty { // rounding: nothing was quite through yet
		n.next = l.now + 1
	}
}
