package collective_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/patience"
)

func each(t *testing.T, f func(t *testing.T, topo collective.Topology)) {
	for _, name := range collective.Topologies.Names() {
		topo, _ := collective.Topologies.Proto(name)
		t.Run(name, func(t *testing.T) { f(t, topo) })
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	most := 33
	if !patience.Long {
		most = 13
	}
	each(t, func(t *testing.T, topo collective.Topology) {
		for p := 1; p <= most; p++ {
			for _, bytes := range []int{0, 1, 4 << 10, 64 << 10, 1 << 20, 64 << 20} {
				for _, node := range []int{0, 4, 7} {
					if err := collective.Verify(topo, collective.At{Size: p, Bytes: bytes, Node: node}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

// broken plans must be caught, or Verify proves nothing.
type broken struct{ how string }

func (b broken) Plan(at collective.At) collective.Plan {
	plan := collective.Ring{}.Plan(at)
	m := plan.Moves
	switch b.how {
	case "twice":
		m[len(m)-1].Add = true
	case "short":
		m = m[:len(m)-1]
	case "deadlock":
		m = append([]collective.Move{{To: -1, From: (at.Rank + 1) % at.Size, Recv: collective.Range{Lo: 0, Hi: 1}}}, m...)
	case "wrong chunk":
		m[0].Recv = m[0].Send
	case "chunks":
		plan.Chunks += at.Rank
	}
	plan.Moves = m
	return plan
}

func TestVerifyCatches(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"twice", "short", "deadlock", "wrong chunk", "chunks"} {
		if collective.Verify(broken{how}, collective.At{Size: 4}) == nil {
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

// bytesOf is what a plan sends of a vector of n elements of 4 bytes.
func bytesOf(p collective.Plan, n int) (sent uint64) {
	for _, m := range p.Moves {
		if m.To >= 0 {
			lo, hi := collective.Bounds(m.Send, p.Chunks, n)
			sent += uint64(4 * (hi - lo))
		}
	}
	return sent
}

// Sums are right, equal on all ranks, flags reach everybody, and bytes are those
// of the plan.
func TestAllReduce(t *testing.T) {
	t.Parallel()
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
							plan := topo.Plan(collective.At{Rank: h.Rank(), Size: p, Bytes: 4 * n})
							if sent, want := h.Traffic().Count().SentBytes[comm.Gradient], bytesOf(plan, n); sent != want {
								return fmt.Errorf("%d bytes sent, want %d", sent, want)
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

// The published counts: bytes of the busiest rank in units of n elements, and
// steps, where P is a power of two.
func TestPublishedCounts(t *testing.T) {
	t.Parallel()
	const n = 1 << 12
	for _, c := range []struct {
		topo  collective.Topology
		bytes func(p int) int // in units of 4·n/P
		steps func(p, log int) int
	}{
		{collective.Ring{}, func(p int) int { return 2 * (p - 1) }, func(p, _ int) int { return 2 * (p - 1) }},
		{collective.Direct{}, func(p int) int { return 2 * (p - 1) }, func(p, _ int) int { return 2 }},
		{collective.Halving{}, func(p int) int { return 2 * (p - 1) }, func(_, log int) int { return 2 * log }},
		{collective.Doubling{}, func(p int) int { return p * bits.Len(uint(p-1)) }, func(_, log int) int { return log }},
		{collective.Tree{}, func(p int) int { return p * bits.Len(uint(p-1)) }, func(_, log int) int { return 2 * log }},
	} {
		for log := 1; log <= 5; log++ {
			p := 1 << log
			got := collective.Cost(c.topo, collective.At{Size: p, Bytes: 4 * n}, 4, collective.Links{Alpha: 1e-5, Beta: 1e-9, Gamma: 1e-10})
			if got.Sent != 4*n/p*c.bytes(p) || got.Steps != c.steps(p, log) {
				t.Errorf("%T, P %d: %d bytes in %d steps, want %d in %d", c.topo, p, got.Sent, got.Steps, 4*n/p*c.bytes(p), c.steps(p, log))
			}
		}
	}
}

// Auto's choice is the same on all ranks, goes from few steps to few bytes as
// vectors grow, and follows its options.
func TestAutoChooses(t *testing.T) {
	t.Parallel()
	proto, _ := collective.Topologies.Proto("auto")
	auto := proto.(collective.Auto)
	for p := 2; p <= 33; p++ {
		order := map[string]int{"doubling": 0, "tree": 1, "halving": 2, "ring": 3}
		last := 0
		for bytes := 4; bytes <= 1<<28; bytes *= 4 {
			name := collective.Topologies.Spec(auto.Choose(p, bytes))
			if order[name] < last {
				t.Errorf("P %d: %s for %d bytes after something for larger vectors", p, name, bytes)
			}
			last = order[name]
			for r := range p {
				at := collective.At{Rank: r, Size: p, Bytes: bytes}
				if want := auto.Choose(p, bytes).Plan(at); !reflect.DeepEqual(auto.Plan(at), want) {
					t.Errorf("P %d, rank %d, %d bytes: the plan is not that of %s", p, r, bytes, name)
				}
			}
		}
	}
	if got := auto.Choose(8, 4096); got != (collective.Doubling{}) {
		t.Errorf("%T for 4 KB", got)
	}
	if got := (collective.Auto{Beta: 1}).Choose(3, 4096); got != (collective.Ring{}) {
		t.Errorf("%T where frames cost nothing", got)
	}
}

func TestAllGather(t *testing.T) {
	t.Parallel()
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

// The virtual network takes the time of the closed form, 2(P−1)(α + βn/P), to a
// thousandth, and so does the cost model.
func TestRingTimeMatchesClosedForm(t *testing.T) {
	t.Parallel()
	const chunk, bw, lat = 50_000, 1e9, 20e-6 // one segment a chunk
	sizes := []int{2, 8, 64}
	if patience.Long {
		sizes = append(sizes, 256, 1024)
	}
	for _, p := range sizes {
		n := p * chunk
		want := 2 * float64(p-1) * (4*chunk/bw + lat)
		net := &sim.Net{Network: &sim.Fair{Bandwidth: bw, Latency: 20 * time.Microsecond}}
		rehearse(t, net, collective.Ring{}, p, n)
		if got := net.Now().Seconds(); math.Abs(got/want-1) > 1e-3 {
			t.Errorf("P %d: %v s, want %v", p, got, want)
		}
		if p > 256 {
			continue
		}
		if c := collective.Cost(collective.Ring{}, collective.At{Size: p, Bytes: 4 * n}, 4, collective.Links{Alpha: lat, Beta: 1 / bw}); math.Abs(c.Seconds/want-1) > 1e-3 || c.Steps != 2*(p-1) {
			t.Errorf("P %d: cost model says %+v, want %v s", p, c, want)
		}
	}
}

// rehearse runs an all-reduce of n elements over p ranks without the elements.
func rehearse(t testing.TB, net *sim.Net, topo collective.Topology, p, n int) {
	ps := make([]comm.Program, p)
	g := collective.Group{Ranks: make([]int, p)}
	for r := range ps {
		g.Ranks[r] = r
		ps[r] = func(ctx context.Context, h comm.Host) error {
			g := g
			g.Me = h.Rank()
			_, err := collective.Rehearse(ctx, h, g, topo, comm.Header{}, n, 4)
			return err
		}
	}
	if err := net.Run(context.Background(), ps); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkRehearse is an all-reduce of 100 MB over thousands of virtual ranks.
func BenchmarkRehearse(b *testing.B) {
	for _, c := range []struct {
		topo collective.Topology
		p    int
	}{{collective.Ring{}, 1024}, {collective.Torus{}, 4096}, {collective.Halving{}, 4096}, {collective.Tree{}, 4096}} {
		b.Run(fmt.Sprintf("%s/%d", collective.Topologies.Spec(c.topo), c.p), func(b *testing.B) {
			for range b.N {
				net := &sim.Net{Network: &sim.Fair{Bandwidth: 1.25e9, Latency: 20 * time.Microsecond}}
				rehearse(b, net, c.topo, c.p, 25e6)
				b.ReportMetric(net.Now().Seconds(), "virtual_s/op")
			}
		})
	}
}
