package collective_test

import (
	"context"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/sim"
)

// A collective without its elements takes the same virtual time, to the
// nanosecond, and counts the same bytes.
func TestPaceIsTheCollective(t *testing.T) {
	type outcome struct {
		end  time.Duration
		sent uint64
	}
	on := func(size int, run func(ctx context.Context, h comm.Host, g collective.Group) error) outcome {
		net := &sim.Net{Network: &sim.Fair{Bandwidth: 1e9, Latency: 10 * time.Microsecond}}
		var out outcome
		var ps []comm.Program
		for r := range size {
			ps = append(ps, func(ctx context.Context, h comm.Host) error {
				g := collective.Group{Me: r}
				for i := range size {
					g.Ranks = append(g.Ranks, i)
				}
				err := run(ctx, h, g)
				out.end, out.sent = max(out.end, h.Now()), out.sent+h.Traffic().Count().SentBytes[comm.Gradient]
				return err
			})
		}
		if err := net.Run(context.Background(), ps); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, name := range collective.Topologies.Names() {
		for _, size := range []int{2, 3, 8, 12} {
			for _, n := range []int{1, 1000, 300_000} {
				topo := collective.Topologies.MustParse(name)
				x := make([]float32, n)
				whole := on(size, func(ctx context.Context, h comm.Host, g collective.Group) error {
					_, err := collective.AllReduce(ctx, h, g, topo, comm.Header{}, append([]float32(nil), x...), f32{})
					return err
				})
				paced := on(size, func(ctx context.Context, h comm.Host, g collective.Group) error {
					_, err := collective.PaceAllReduce(ctx, h, g, topo, comm.Header{}, n, 4)
					return err
				})
				if whole != paced {
					t.Errorf("%s of %d elements over %d ranks: %v, without elements %v", name, n, size, whole, paced)
				}
			}
		}
	}
	whole := on(5, func(ctx context.Context, h comm.Host, g collective.Group) error {
		_, _, release, err := collective.AllGather(ctx, h, g, comm.Header{}, comm.NewBuffer(1234))
		release()
		return err
	})
	paced := on(5, func(ctx context.Context, h comm.Host, g collective.Group) error {
		_, err := collective.PaceAllGather(ctx, h, g, comm.Header{}, 1234)
		return err
	})
	if whole != paced {
		t.Errorf("all-gather: %v, without payloads %v", whole, paced)
	}
}
