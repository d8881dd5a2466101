package collective

import (
	"math"

	"github.com/gradlab/gradlab/internal/registry"
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

// Graphs holds every gossip graph by name.
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

// Gap is the spectral gap 1 − ρ of a graph over size ranks: ρ is the factor by
// which a round shrinks the distance of all values from what they end at, in the
// Euclidean norm and in the geometric mean over a period,
//
//	ρ = ‖W(T−1)···W(0)·(I − 11ᵀ/P)‖₂ ^ (1/T)
//
// which for one symmetric W is its second largest |eigenvalue|. 1 is agreement
// within a period. Power iteration; the cost is Period·edges for each of at most
// a few thousand products.
func Gap(g Graph, size int) float64 {
	if size < 2 {
		return 1
	}
	period := g.Period(size)
	mixes := make([][]Mix, period)
	for t := range mixes {
		mixes[t] = make([]Mix, size)
		for r := range mixes[t] {
			mixes[t][r] = g.Mix(r, size, t)
		}
	}
	x, y := make([]float64, size), make([]float64, size)
	for i := range x { // of no symmetry that a graph could share
		x[i] = math.Sin(1 + float64(i)*float64(i))
	}
	// deviation takes the mean away and returns the norm of what is left.
	deviation := func(x []float64) float64 {
		mean, sum := 0.0, 0.0
		for _, v := range x {
			mean += v / float64(size)
		}
		for i := range x {
			x[i] -= mean
			sum += x[i] * x[i]
		}
		return math.Sqrt(sum)
	}
	round := func(mixes []Mix, transposed bool) {
		for i, m := range mixes {
			y[i] = m.Self * x[i]
			edges := m.In
			if transposed {
				edges = m.Out
			}
			for _, e := range edges {
				y[i] += e.Weight * x[e.Rank]
			}
		}
		x, y = y, x
	}
	const most, enough, nothing = 2000, 1e-12, 1e-9
	largest := 0.0 // eigenvalue of AᵀA, A the product over a period off the mean
	for range most {
		norm := deviation(x)
		for i := range x {
			x[i] /= norm
		}
		for t := range mixes {
			round(mixes[t], false)
		}
		deviation(x)
		for t := len(mixes) - 1; t >= 0; t-- {
			round(mixes[t], true)
		}
		last := largest
		if largest = deviation(x); largest < nothing*nothing {
			return 1
		}
		if math.Abs(largest-last) <= enough*largest {
			break
		}
	}
	return 1 - math.Pow(largest, 0.5/float64(period))
}
