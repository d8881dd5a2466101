package collective

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/sim"
)

// Whatever is fused with what, over topologies that do not look at the length:
// every vector has the bits of an all-reduce of its own.
func TestFusionLeavesNoTrace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		topo := rapid.SampledFrom([]Topology{
			Ring{}, Direct{}, Torus{}, Halving{}, Doubling{}, Tree{}, Rings{Group: 2}, Leaders{Outer: Ring{}, Group: 2},
			Pipelined{Chunks: 5}, DoubleTree{Chunks: 3},
		}).Draw(t, "topology")
		p := rapid.IntRange(2, 7).Draw(t, "ranks")
		sizes := rapid.SliceOfN(rapid.IntRange(0, 40), 1, 6).Draw(t, "sizes")
		var f Format = exact{}
		if rapid.Bool().Draw(t, "coarse") {
			f = coarse{}
		}
		out := make([][2][][]float32, p) // by rank: alone, fused
		ps := make([]comm.Program, p)
		g := Group{}
		for r := range ps {
			g.Ranks = append(g.Ranks, r)
			for k := range out[r] {
				for i, n := range sizes {
					x := make([]float32, n)
					for j := range x {
						x[j] = float32(math.Sin(float64(1 + 1000*r + 100*i + j)))
					}
					out[r][k] = append(out[r][k], x)
				}
			}
			ps[r] = func(ctx context.Context, h comm.Host) error {
				g := g
				g.Me = h.Rank()
				for _, x := range out[r][0] {
					if _, err := AllReduce(ctx, h, g, topo, comm.Header{}, x, f); err != nil {
						return err
					}
				}
				flags, err := AllReduceAll(ctx, h, g, topo, comm.Header{Flags: 1 << r}, out[r][1], f)
				if err == nil && flags != 1<<p-1 {
					err = fmt.Errorf("flags %b on rank %d", flags, r)
				}
				return err
			}
		}
		if err := (&local.Net{}).Run(context.Background(), ps); err != nil {
			t.Fatal(err)
		}
		for r := range out {
			for i := range sizes {
				for j, v := range out[r][0][i] {
					if w := out[r][1][i][j]; math.Float32bits(v) != math.Float32bits(w) {
						t.Fatalf("rank %d, vector %d, element %d: %v alone, %v fused", r, i, j, v, w)
					}
				}
			}
		}
	})
}

// A rehearsal of fused vectors takes their time.
func TestFusedRehearsalTakesAsLong(t *testing.T) {
	t.Parallel()
	for _, sizes := range [][]int{{10, 3, 77}, {100_000, 1, 300_000}, {5}, nil} {
		var took [2]time.Duration
		for k := range took {
			ps := make([]comm.Program, 5)
			g := Group{}
			for r := range ps {
				g.Ranks = append(g.Ranks, r)
				ps[r] = func(ctx context.Context, h comm.Host) (err error) {
					g := g
					g.Me = h.Rank()
					if k == 1 {
						_, err = RehearseAll(ctx, h, g, Ring{}, comm.Header{}, sizes, 4)
						return err
					}
					var xs [][]float32
					for _, n := range sizes {
						xs = append(xs, make([]float32, n))
					}
					_, err = AllReduceAll(ctx, h, g, Ring{}, comm.Header{}, xs, exact{})
					return err
				}
			}
			net := &sim.Net{}
			if err := net.Run(context.Background(), ps); err != nil {
				t.Fatal(err)
			}
			took[k] = net.Now()
		}
		if took[0] != took[1] {
			t.Errorf("%v: %v, the rehearsal %v", sizes, took[0], took[1])
		}
	}
}

// Everybody hears the least value and all flags, for nothing.
func TestLeast(t *testing.T) {
	t.Parallel()
	for p := 1; p <= 9; p++ {
		for who := range p {
			ps := make([]comm.Program, p)
			g := Group{}
			for r := range ps {
				g.Ranks = append(g.Ranks, r)
				ps[r] = func(ctx context.Context, h comm.Host) error {
					g := g
					g.Me = h.Rank()
					v := 100 + float64((r-who+p)%p)
					least, flags, err := Least(ctx, h, g, comm.Header{Tag: 3, Flags: 1 << r}, v)
					if err == nil && (least != 100 || flags != 1<<p-1) {
						err = fmt.Errorf("rank %d of %d hears %v and flags %b", r, p, least, flags)
					}
					if c := h.Traffic().Count(); c.SentBytes != [comm.NumKinds]uint64{} {
						err = fmt.Errorf("rank %d paid %v", r, c.SentBytes)
					}
					return err
				}
			}
			if err := (&sim.Net{}).Run(context.Background(), ps); err != nil {
				t.Fatal(err)
			}
		}
	}
}
