package sim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
)

// BenchmarkRing passes frames of billed bytes around a ring, 2(P−1) steps an
// operation. A message is four events: its stream begins, its last byte leaves,
// it arrives, its receiver wakes up.
func BenchmarkRing(b *testing.B) {
	for _, network := range []string{"fair", "fifo"} {
		for _, p := range []int{8, 64, 1024, 4096} {
			b.Run(fmt.Sprintf("%s/%d", network, p), func(b *testing.B) {
				b.ReportAllocs()
				ps := make([]comm.Program, p)
				steps := 2 * (p - 1) * b.N
				for r := range ps {
					ps[r] = func(ctx context.Context, h comm.Host) error {
						for range steps {
							if err := h.Send(ctx, (r+1)%p, comm.Frame{Billed: 1 << 16}); err != nil {
								return err
							}
							if _, err := h.Recv(ctx, (r+p-1)%p, 0); err != nil {
								return err
							}
						}
						return nil
					}
				}
				net := &sim.Net{Network: &sim.Fair{Bandwidth: 1e9, Latency: 25 * time.Microsecond}}
				if network == "fifo" {
					net.Network = &sim.FIFO{Bandwidth: 1e9, Latency: 25 * time.Microsecond}
				}
				b.ResetTimer()
				if err := net.Run(context.Background(), ps); err != nil {
					b.Fatal(err)
				}
				messages := float64(p) * float64(steps)
				b.ReportMetric(messages/b.Elapsed().Seconds()/1e6, "Mmsg/s")
				b.ReportMetric(4*messages/b.Elapsed().Seconds()/1e6, "Mevents/s")
			})
		}
	}
}
