package sim_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
)

// Two ranks send a megabyte each to a third at once: they share its NIC.
func Example() {
	program := func(ctx context.Context, h comm.Host) error {
		if h.Rank() > 0 {
			return h.Send(ctx, 0, comm.NewFrame(comm.Header{Kind: comm.Gradient}, comm.NewBuffer(1e6)))
		}
		for range h.Size() - 1 {
			f, err := h.Recv(ctx, comm.AnyRank, comm.AnyTag)
			if err != nil {
				return err
			}
			f.Release()
		}
		wire, wait := h.Traffic().Blocked()
		fmt.Println("done at", h.Now(), "on the wire", wire, "waited", wait)
		return nil
	}
	net := &sim.Net{Network: &sim.Fair{Bandwidth: 1e9, Latency: 50 * time.Microsecond}}
	if err := net.Run(context.Background(), []comm.Program{program, program, program}); err != nil {
		panic(err)
	}
	for _, l := range net.Links() {
		if l.Bytes > 0 && !l.Out {
			fmt.Println(l.Kind, l.Index, "took", l.Bytes, "bytes in", l.Busy)
		}
	}
	// Output:
	// done at 2.05ms on the wire 2.05ms waited 0s
	// nic 0 took 2000000 bytes in 2ms
}
