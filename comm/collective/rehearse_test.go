package collective_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/patience"
)

// A rehearsal takes the virtual time, the frames and the billed bytes of the
// all-reduce, and brings the flags of all to all.
func TestRehearsalTakesAsLong(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	most := 9
	if !patience.Long {
		most = 5
	}
	each(t, func(t *testing.T, topo collective.Topology) {
		for p := 1; p <= most; p++ {
			for _, n := range []int{0, 1, 1000, 200_000} {
				var took [2]time.Duration
				var sent [2]comm.Counted
				for i := range took {
					ps := make([]comm.Program, p)
					g := collective.Group{Ranks: make([]int, p), Node: 3}
					for r := range ps {
						g.Ranks[r] = r
						ps[r] = func(ctx context.Context, h comm.Host) (err error) {
							g, hd := g, comm.Header{Tag: 4, Step: 7}
							g.Me = h.Rank()
							if g.Me == p-1 {
								hd.Flags = 2
							}
							var flags uint16
							if i == 0 {
								flags, err = collective.AllReduce(ctx, h, g, topo, hd, make([]float32, n), f32{})
							} else {
								flags, err = collective.Rehearse(ctx, h, g, topo, hd, n, 4)
							}
							if err == nil && flags != 2 {
								err = fmt.Errorf("flags %d on rank %d", flags, g.Me)
							}
							c := h.Traffic().Count()
							c.SentBody = [comm.NumKinds]uint64{} // of which there is none
							sent[i].Add(c)
							return err
						}
					}
					net := &sim.Net{Network: &sim.Fair{Bandwidth: 1e9, Latency: 20 * time.Microsecond, Place: []int{0, 0, 0, 1, 1, 1, 2, 2, 2}, Inside: 5e9}}
					if err := net.Run(context.Background(), ps); err != nil {
						t.Fatal(err)
					}
					took[i] = net.Now()
				}
				if took[0] != took[1] || sent[0] != sent[1] {
					t.Fatalf("P %d, n %d: %v and %+v, the rehearsal %v and %+v", p, n, took[0], sent[0], took[1], sent[1])
				}
			}
		}
	})
}

func TestRehearsalOfAGatherTakesAsLong(t *testing.T) {
	t.Parallel()
	const p, size = 5, 1234
	var took [2]time.Duration
	for i := range took {
		ps := make([]comm.Program, p)
		g := collective.Group{Ranks: []int{0, 1, 2, 3, 4}}
		for r := range ps {
			ps[r] = func(ctx context.Context, h comm.Host) error {
				g := g
				g.Me = h.Rank()
				if i == 1 {
					_, err := collective.RehearseGather(ctx, h, g, comm.Header{Tag: 4}, size)
					return err
				}
				_, _, release, err := collective.AllGather(ctx, h, g, comm.Header{Tag: 4}, comm.NewBuffer(size))
				release()
				return err
			}
		}
		net := &sim.Net{Network: &sim.Fair{Bandwidth: 1e9, Latency: 20 * time.Microsecond}}
		if err := net.Run(context.Background(), ps); err != nil {
			t.Fatal(err)
		}
		took[i] = net.Now()
	}
	if took[0] != took[1] {
		t.Errorf("%v, the rehearsal %v", took[0], took[1])
	}
}
