package collective_test

import (
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/internal/patience"
)

// Whatever the options, the number of ranks and how they share nodes.
func TestVerifyWithOptions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := collective.At{
			Size:  rapid.IntRange(1, 40).Draw(t, "ranks"),
			Bytes: rapid.SampledFrom([]int{0, 1, 1 << 10, 1 << 22}).Draw(t, "bytes"),
			Node:  rapid.IntRange(0, 12).Draw(t, "ranks a node"),
		}
		k := rapid.IntRange(0, 12).Draw(t, "option")
		outer, _ := collective.Topologies.Proto(rapid.SampledFrom(collective.Topologies.Names()).Draw(t, "outer"))
		for _, topo := range []collective.Topology{
			collective.Torus{X: k}, collective.Rings{Group: k}, collective.Leaders{Outer: outer, Group: k},
			collective.Pipelined{Chunks: k}, collective.DoubleTree{Chunks: k},
		} {
			if err := collective.Verify(topo, at); err != nil {
				t.Fatalf("%s: %v", collective.Topologies.Spec(topo), err)
			}
		}
	})
}

// Bytes of the busiest rank, those that leave the busiest node, and steps, where
// the papers count them. n is 4 bytes an element.
func TestPublishedCountsOfHierarchies(t *testing.T) {
	t.Parallel()
	const n = 9 << 10
	near := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	price := func(topo collective.Topology, p, node int) collective.Price {
		return collective.Cost(topo, collective.At{Size: p, Bytes: 4 * n, Node: node}, 4, collective.Links{Alpha: 1e-5, Beta: 1e-9})
	}
	for _, c := range []struct{ x, y int }{{4, 4}, {2, 8}, {8, 2}, {3, 3}, {4, 8}} {
		p := c.x * c.y
		torus := price(collective.Torus{X: c.x}, p, 0)
		near("torus, steps", torus.Steps, 2*(c.x-1)+2*(c.y-1))
		near("torus, bytes", torus.Sent, 2*4*n*(p-1)/p)

		rings := price(collective.Rings{}, p, c.x)
		near("rings, steps", rings.Steps, 2*(c.x-1)+2*(c.y-1))
		near("rings, out of a node", rings.Outside, 2*4*n*(c.y-1)/c.y)

		leaders := price(collective.Leaders{Outer: collective.Ring{}}, p, c.x)
		depth := bits.Len(uint(c.x - 1))
		if 1<<depth == c.x { // else some have less far to go
			near("leaders, steps", leaders.Steps, 2*depth+2*(c.y-1))
		}
		near("leaders, out of a node", leaders.Outside, 2*4*n*(c.y-1)/c.y)
		near("leaders, bytes", leaders.Sent, 4*n*depth+2*4*n*(c.y-1)/c.y)
	}
	for _, p := range []int{6, 8, 16, 31, 32} {
		height := bits.Len(uint(p)) - 1
		for _, k := range []int{1, 4, 16} {
			one, two := price(collective.Pipelined{Chunks: k}, p, 0), price(collective.DoubleTree{Chunks: k}, p, 0)
			near("pipelined, bytes", one.Sent, 3*4*n)
			if p%2 == 0 { // else one rank is a leaf twice, and another inner twice
				near("double tree, bytes", two.Sent, 2*4*n)
			}
			if most := 2*height + k; one.Steps > most+1 || two.Steps > most+k {
				t.Errorf("P %d, %d chunks: %d and %d steps, want about %d", p, k, one.Steps, two.Steps, most)
			}
		}
	}
}

// The number of chunks that trees choose is close to the best there is.
func TestPipelinesChooseTheirChunks(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("seconds")
	}
	links := collective.Links{Alpha: 30e-6, Beta: 0.5e-9}
	for name, with := range map[string]func(k int) collective.Topology{
		"pipelined":   func(k int) collective.Topology { return collective.Pipelined{Chunks: k} },
		"double_tree": func(k int) collective.Topology { return collective.DoubleTree{Chunks: k} },
	} {
		for _, p := range []int{4, 8, 32} {
			for _, bytes := range []int{1 << 12, 1 << 18, 1 << 23} {
				at := collective.At{Size: p, Bytes: bytes}
				best := math.Inf(1)
				for k := 1; k < 300; k += 1 + k/3 {
					best = min(best, collective.Cost(with(k), at, 4, links).Seconds)
				}
				if got := collective.Cost(with(0), at, 4, links).Seconds; got > 1.15*best {
					t.Errorf("%s, P %d, %d bytes: %v s, the best is %v s", name, p, bytes, got, best)
				}
			}
		}
	}
}
