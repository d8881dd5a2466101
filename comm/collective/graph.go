package collective

import (
	"github.com/gradlab/gradlab/registry"
)

// Edge is a neighbour and the weight with which a value counts across the edge.
type Edge struct {
	Rank   int
	Weight float64
}

// Mix is what one rank does in one round of gossip: it keeps Self of its own
// value, sends its value to Out and adds what it hears from In,
//
//	xᵢ ← Self·xᵢ + Σ_{(j,w) ∈ In} w·xⱼ
//
// The weight of an edge is the same at both of its ends. Neither list names the
// rank itself, nor a rank twice.
type Mix struct {
	Self    float64
	Out, In []Edge
}

// Without is the round of a rank whose neighbours that are lost neither send nor hear:
// it keeps the share that would have gone to each. Columns sum to 1 as before, over the
// ranks that are left, and on symmetric graphs rows do.
func (m Mix) Without(lost func(rank int) bool) Mix {
	left := func(edges []Edge) (out []Edge) {
		for _, e := range edges {
			if !lost(e.Rank) {
				out = append(out, e)
			}
		}
		return out
	}
	w := Mix{m.Self, left(m.Out), left(m.In)}
	for _, e := range m.Out {
		if lost(e.Rank) {
			w.Self += e.Weight
		}
	}
	return w
}

// Among is the round of a rank of a graph of some ranks only, which numbers them by their
// places in a list.
func (m Mix) Among(ranks []int) Mix {
	named := func(edges []Edge) (out []Edge) {
		for _, e := range edges {
			out = append(out, Edge{ranks[e.Rank], e.Weight})
		}
		return out
	}
	return Mix{m.Self, named(m.Out), named(m.In)}
}

// Graph says who talks to whom in gossip. The mixing matrix of a round, W with
// W[i][j] the weight of j's value at i, has columns that sum to 1, so that
// gossip keeps the sum of all values; the product over Period rounds has a
// positive spectral gap, so that all values meet at their mean if the rows sum to
// 1 too, and at shares of the sum otherwise (push-sum divides them out).
type Graph interface {
	// Mix gives rank's round at a step, of size ranks. Out and In of all ranks
	// agree; steps count from 0.
	Mix(rank, size, step int) Mix
	// Period is the number of steps after which the graph repeats itself, at
	// least 1.
	Period(size int) int
	// Symmetric says whether W is, at every step: j hears from i what i hears
	// from j. D-PSGD and AD-PSGD ask for that, push-sum does not.
	Symmetric() bool
}

// alike is implemented by graphs in which every rank does what rank 0 does, as
// many ranks further on: their mixing matrices are circulant.
type alike interface {
	Graph
	alike()
}

// Graphs holds every gossip graph by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Graphs = registry.New[Graph]("graph")

// circulant makes the Mix of a graph in which every rank sends to those at the
// given distances ahead of it, each at weight, and keeps the rest. Distances
// count modulo size; those that meet, on few ranks, are merged, those of 0 fall
// away. As every rank does the same, rows sum to 1 as well.
func circulant(rank, size int, weight float64, distances ...int) Mix {
	m := Mix{Self: 1}
next:
	for _, d := range distances {
		if d = ((d % size) + size) % size; d == 0 {
			continue
		}
		to, from := (rank+d)%size, (rank+size-d)%size
		m.Self -= weight
		for i := range m.Out {
			if m.Out[i].Rank == to {
				m.Out[i].Weight += weight
				m.In[i].Weight += weight
				continue next
			}
		}
		m.Out, m.In = append(m.Out, Edge{to, weight}), append(m.In, Edge{from, weight})
	}
	return m
}
