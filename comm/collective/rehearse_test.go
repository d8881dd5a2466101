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
							var flags comm.Flags
							if i == 0 {
								flags, err = collective.AllReduce(ctx, h, g, topo, hd, make([]float32, n), f32{})
							} else {
								flags, err = collective.Rehearse(ctx, h, g, topo, hd, n, 4)
							}
							if err == nil && flags != 2 {
								err = fmt.Errorf("flags %d on rank %d", flags, g.Me)
							}
							c := h.Traffic().Count()
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

// So do those of payloads that differ in length.
func TestRehearsalOfPayloadsTakesAsLong(t *testing.T) {
	t.Parallel()
	const p = 5
	size := func(from, to int) int { return 1000*from + 10*to }
	for name, both := range map[string][2]func(context.Context, comm.Host, collective.Group) error{
		"gather": {
			func(ctx context.Context, h comm.Host, g collective.Group) error {
				_, _, release, err := collective.AllGather(ctx, h, g, comm.Header{Tag: 4}, comm.NewBuffer(size(g.Me, 0)))
				release()
				return err
			},
			func(ctx context.Context, h comm.Host, g collective.Group) error {
				_, err := collective.RehearseGather(ctx, h, g, comm.Header{Tag: 4}, size(g.Me, 0))
				return err
			},
		},
		"all-to-all": {
			func(ctx context.Context, h comm.Host, g collective.Group) error {
				var out []*comm.Buffer
				for to := range p {
					out = append(out, comm.NewBuffer(size(g.Me, to)))
				}
				_, _, release, err := collective.AllToAll(ctx, h, g, comm.Header{Tag: 4}, out)
				release()
				return err
			},
			func(ctx context.Context, h comm.Host, g collective.Group) error {
				var out []int
				for to := range p {
					out = append(out, size(g.Me, to))
				}
				_, err := collective.RehearseAllToAll(ctx, h, g, comm.Header{Tag: 4}, out)
				return err
			},
		},
	} {
		var took [2]time.Duration
		var sent [2]comm.Counted
		for i, run := range both {
			ps := make([]comm.Program, p)
			for r := range ps {
				ps[r] = func(ctx context.Context, h comm.Host) error {
					err := run(ctx, h, collective.Group{Ranks: []int{0, 1, 2, 3, 4}, Me: h.Rank()})
					sent[i].Add(h.Traffic().Count())
					return err
				}
			}
			net := &sim.Net{Network: &sim.Fair{Bandwidth: 1e9, Latency: 20 * time.Microsecond}}
			if err := net.Run(context.Background(), ps); err != nil {
				t.Fatal(err)
			}
			took[i] = net.Now()
		}
		if took[0] != took[1] || sent[0] != sent[1] {
			t.Errorf("%s: %v and %+v, the rehearsal %v and %+v", name, took[0], sent[0], took[1], sent[1])
		}
	}
}
