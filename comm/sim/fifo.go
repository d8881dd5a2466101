package sim

import (
	"time"

	"github.com/gradlab/gradlab/comm"
)

// FIFO is a network in which each NIC sends one message at a time and receives
// one at a time, in the order they were sent. It needs no solving, so it is
// fast, but whole messages served first come first served order asynchronous
// traffic wrongly: use it for symmetric synchronous sweeps only.
type FIFO struct {
	Bandwidth float64       // bytes per second of a NIC, each direction; 0: unlimited
	Latency   time.Duration // one way

	tx, rx []side
	roads  map[[2]int]*road
}

// side is one direction of a NIC.
type side struct {
	free  time.Duration // when it is, again
	busy  time.Duration
	bytes uint64
}

// take books wire from the earliest possible instant on.
func (s *side) take(earliest, wire time.Duration, bytes int) (begin time.Duration) {
	begin = max(earliest, s.free)
	s.free = begin + wire
	s.busy += wire
	s.bytes += uint64(bytes)
	return begin
}

func (n *FIFO) reset(ranks int) {
	n.tx, n.rx, n.roads = make([]side, ranks), make([]side, ranks), map[[2]int]*road{}
}

func (n *FIFO) start(l *loop, f comm.Frame) {
	from, to := int(f.Header.From), int(f.Header.To)
	var wire time.Duration
	if n.Bandwidth > 0 {
		wire = seconds(float64(f.Billed) / n.Bandwidth)
	}
	begin := n.tx[from].take(l.now, wire, f.Billed)
	end := n.rx[to].take(begin+n.Latency, wire, f.Billed) + wire
	r := n.roads[[2]int{from, to}]
	if r == nil {
		r = new(road)
		n.roads[[2]int{from, to}] = r
	}
	r.onWay++
	l.depart(f, passing{sent: l.now, began: begin, left: begin + wire, arrived: end}, r)
}

func (n *FIFO) settle(*loop) (time.Duration, bool) { return 0, false }
func (n *FIFO) advance(*loop)                      {}

func (n *FIFO) road(from, to int) *road { return n.roads[[2]int{from, to}] }

func (n *FIFO) usage(time.Duration) (links []Link) {
	for h := range n.tx {
		for i, s := range []*side{&n.tx[h], &n.rx[h]} {
			links = append(links, Link{Kind: "nic", Index: h, Out: i == 0, Capacity: n.Bandwidth, Bytes: s.bytes, Busy: s.busy})
		}
	}
	return links
}
