// Package emulate lets ranks that run for real, as goroutines or as processes of
// one machine, meet as if each had a NIC and a device of its own: frames take the
// time of a network, computations the time they are said to cost, on the real
// clock. It stands between programs and any net on a real clock, and is what
// tells how far the virtual cluster can be believed: programs, protocols, threads
// and scheduling are real, and neither side knows of the other's sums.
//
// A NIC carries Bandwidth bytes a second out and as many in. Frames to one rank
// form an ordered stream; the streams of a NIC are served in turns, a quantum
// each, which shares it max-min fairly up to a quantum, as the fair network of the
// virtual cluster does. A receiver that is busy holds its senders back by credit,
// as TCP does by its window, so that they use their NICs for others meanwhile.
//
// The body of a frame travels as the net below carries it, at once. What is paced
// is its arrival: the sender announces each quantum as it begins to leave, with
// the time at which it has left; the receiver's NIC takes its own time for it; and
// the program is given the frame Latency after the last one. Times are instants of
// the machine's clock and follow one another without regard to when a process got
// around to act, so what is late once makes nothing after it later: a process must
// fall behind by more than Latency to be noticed at all. Strain counts it.
package emulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// NIC is what every rank is connected by.
type NIC struct {
	Bandwidth float64       // bytes a second, each direction; above 0
	Latency   time.Duration // one way
	// Message is how long a frame keeps its stream busy beside its bytes.
	Message time.Duration
}

// Net runs programs on a net on a real clock whose ranks share one machine's
// clock, behind NICs. Every process of the run must do so, with the same NIC.
type Net struct {
	Net comm.Net // local or grpcnet
	NIC NIC
	// Deadline bounds every wait for a frame. Default 10 minutes.
	Deadline time.Duration
}

var _ comm.Net = (*Net)(nil)

// Run implements comm.Net.
func (n *Net) Run(ctx context.Context, programs []comm.Program) error {
	if !(n.NIC.Bandwidth > 0) || n.NIC.Latency < 0 || n.NIC.Message < 0 {
		return fmt.Errorf("emulate: a NIC of %v bytes/s, %v and %v a message", n.NIC.Bandwidth, n.NIC.Latency, n.NIC.Message)
	}
	deadline := n.Deadline
	if deadline == 0 {
		deadline = 10 * time.Minute
	}
	behind := make([]comm.Program, len(programs))
	for i, p := range programs {
		behind[i] = func(ctx context.Context, below comm.Host) error {
			h, err := newHost(ctx, below, n.NIC, deadline)
			if err != nil {
				return err
			}
			return h.main(ctx, p)
		}
	}
	return n.Net.Run(ctx, behind)
}

var errEnded = errors.New("the rank has ended")
