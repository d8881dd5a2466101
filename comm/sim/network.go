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
	// pending says whether frames from → to are still on their way.
	pending(from, to int) bool
}

// arrival delivers f after d and keeps the count of frames on their way.
func (l *loop) arrival(d time.Duration, f comm.Frame, onWay map[[2]int]int) {
	l.at(l.now+d, event{fn: func() {
		onWay[[2]int{int(f.Header.From), int(f.Header.To)}]--
		to := l.hosts[f.Header.To]
		l.deliver(f)
		to.wakeGone(int(f.Header.From))
	}})
}

// wakeGone wakes those who wait for a rank that ended while its last frames
// were still on their way.
func (h *host) wakeGone(from int) {
	if h.gone[from] != nil {
		h.wakeWaiting(func(t *task) bool { return t.from == from })
	}
}

func seconds(s float64) time.Duration { return time.Duration(s*1e9 + 0.5) }
