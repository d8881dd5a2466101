package collective_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/sim"
)

func each(t *testing.T, f func(t *testing.T, topo collective.Topology)) {
	for _, name := range collective.Topologies.Names() {
		topo, _ := collective.Topologies.Proto(name)
		t.Run(name, func(t *testing.T) { f(t, topo) })
	}
}

func TestVerify(t *testing.T) {
	each(t, func(t *testing.T, topo collective.Topology) {
		for p := 1; p <= 33; p++ {
			if err := collective.Verify(topo, p); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// broken plans must be caught, or Verify proves nothing.
type broken struct{ how string }

func (broken) Chunks(size int) int { return size }
func (b broken) Plan(at collective.At) []collective.Move {
	m := collective.Ring{}.Plan(at)
	switch b.how {
	case "twice":
		m[len(m)-1].Add = true
	case "short":
		m = m[:len(m)-1]
	case "deadlock":
		m = append([]collective.Move{{To: -1, From: (at.Rank + 1) % at.Size, Recv: collective.Part{Lo: 0, Hi: 1}}}, m...)
	case "wrong chunk":
		m[0].Recv = m[0].Send
	}
	return m
}

func TestVerifyCatches(t *testing.T) {
	for _, how := range []string{"twice", "short", "deadlock", "wrong chunk"} {
		if collective.Verify(broken{how}, 4) == nil {
			t.Errorf("a plan with the fault %q passed", how)
		}
	}
}

type f32 struct{}

func (f32) Width() int { return 4 }
func (f32) Put(dst []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
	}
}
func (f32) Add(x []float32, src []byte) {
	for i := range x {
		x[i] += math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}
func (f32) Set(x []float32, src []byte) {
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

// Sums are right, equal on all ranks, flags reach everybody, and bytes are the
// published 2·4N(P−1)/P where P divides N.
func TestAllReduce(t *testing.T) {
	nets := map[string]func() comm.Net{
		"local": func() comm.Net { return &local.Net{} },
		"sim":   func() comm.Net { return &sim.Net{} },
	}
	each(t, func(t *testing.T, topo collective.Topology) {
		for name, mk := range nets {
			for p := 1; p <= 9; p++ {
				for _, n := range []int{0, 1, p, 5*p + 3, 2520} {
					out := make([][]float32, p)
					ps := make([]comm.Program, p)
					g := collective.Group{Ranks: make([]int, p)}
					for r := range ps {
						g.Ranks[r] = r
						ps[r] = func(ctx context.Context, h comm.Host) error {
							g := g
							g.Me = h.Rank()
							x := make([]float32, n)
							for i := range x {
								x[i] = float32((h.Rank() + 1) * (i%13 + 1))
							}
							hd := comm.Header{Tag: 4, Step: 7}
							if h.Rank() == p-1 {
								hd.Flags = 2
							}
							flags, err := collective.AllReduce(ctx, h, g, topo, hd, x, f32{})
							if err != nil {
								return err
							}
							if flags != 2 {
								return fmt.Errorf("flags %d on rank %d", flags, h.Rank())
							}
							if sent := h.Traffic().Count().SentBytes[comm.Gradient]; n%p == 0 && sent != uint64(2*4*n*(p-1)/p) {
								return fmt.Errorf("%d bytes sent, want %d", sent, 2*4*n*(p-1)/p)
							}
							out[h.Rank()] = x
							return nil
						}
					}
					if err := mk().Run(context.Background(), ps); err != nil {
						t.Fatalf("%s, P %d, n %d: %v", name, p, n, err)
					}
					for r := range out {
						for i, v := range out[r] {
							if want := float32(p * (p + 1) / 2 * (i%13 + 1)); v != want {
								t.Fatalf("%s, P %d, n %d: rank %d has %v at %d, want %v", name, p, n, r, v, i, want)
							}
						}
					}
				}
			}
		}
	})
}

func TestAllGather(t *testing.T) {
	for p := 1; p <= 7; p++ {
		ps := make([]comm.Program, p)
		for r := range ps {
			ps[r] = func(ctx context.Context, h comm.Host) error {
				g := collective.Group{Me: h.Rank()}
				for i := 0; i < p; i++ {
					g.Ranks = append(g.Ranks, i)
				}
				own := comm.NewBuffer(h.Rank()) // rank 0: empty
				for i := range own.B {
					own.B[i] = byte(h.Rank())
				}
				parts, _, release, err := collective.AllGather(ctx, h, g, comm.Header{Tag: 9}, own)
				if err != nil {
					return err
				}
				defer release()
				for r, b := range parts {
					if len(b) != r || (r > 0 && b[r-1] != byte(r)) {
						return fmt.Errorf("part %d is %v", r, b)
					}
				}
				return nil
			}
		}
		if err := (&local.Net{}).Run(context.Background(), ps); err != nil {
			t.Fatal(err)
		}
	}
}

// The virtual network takes the time the cost model says.
func TestRingTimeMatchesClosedForm(t *testing.T) {
	const n, bw, lat = 2520 * 64, 1e9, 20e-6
	for _, p := range []int{2, 4, 8} {
		ps := make([]comm.Program, p)
		g := collective.Group{}
		for r := range ps {
			g.Ranks = append(g.Ranks, r)
			ps[r] = func(ctx context.Context, h comm.Host) error {
				g := g
				g.Me = h.Rank()
				_, err := collective.AllReduce(ctx, h, g, collective.Ring{}, comm.Header{}, make([]float32, n), f32{})
				return err
			}
		}
		net := &sim.Net{Network: &sim.Fair{Bandwidth: bw, Latency: 20 * time.Microsecond}}
		if err := net.Run(context.Background(), ps); err != nil {
			t.Fatal(err)
		}
		want := 2 * float64(p-1) * (4*float64(n)/float64(p)/bw + lat)
		if got := net.Now().Seconds(); math.Abs(got/want-1) > 1e-3 {
			t.Errorf("P %d: %v s, want %v", p, got, want)
		}
		if c := collective.Cost(collective.Ring{}, p, n, 4, lat, 1/bw); math.Abs(c.Seconds/want-1) > 1e-3 || c.Steps != 2*(p-1) {
			t.Errorf("P %d: cost model says %+v, want %v s", p, c, want)
		}
	}
}
