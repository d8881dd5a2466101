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

	tx, rx []time.Duration // when each NIC direction is free again
	onWay  map[[2]int]*int
}

func (n *FIFO) reset(ranks int) {
	n.tx, n.rx, n.onWay = make([]time.Duration, ranks), make([]time.Duration, ranks), map[[2]int]*int{}
}

func (n *FIFO) start(l *loop, f comm.Frame) {
	from, to := int(f.Header.From), int(f.Header.To)
	var wire time.Duration
	if n.Bandwidth > 0 {
		wire = seconds(float64(f.Billed) / n.Bandwidth)
	}
	begin := max(l.now, n.tx[from])
	n.tx[from] = begin + wire
	end := max(begin+n.Latency, n.rx[to]) + wire
	n.rx[to] = end
	count := n.onWay[[2]int{from, to}]
	if count == nil {
		count = new(int)
		n.onWay[[2]int{from, to}] = count
	}
	*count++
	l.arrival(end-l.now, f, count)
}

func (n *FIFO) settle(*loop) (time.Duration, bool) { return 0, false }
func (n *FIFO) advance(*loop)                      {}

func (n *FIFO) pending(from, to int) bool {
	count := n.onWay[[2]int{from, to}]
	return count != nil && *count > 0
}
