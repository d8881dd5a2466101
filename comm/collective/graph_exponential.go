package collective

import "math/bits"

// ExponentialGraph lets rank i send to i+1, i+2, i+4, … all in one round, each
// value at 1/(1+log2 P). It is a directed graph whose gap falls only like 1/log P, at
// log2 P messages a round (Assran et al. 2019; Ying et al. 2021).
//
// Rule: rank i sends to i + 2ᵏ for all 2ᵏ < P.
//
// Tuning: none.
//
// Cost: log2 P messages a rank and round.
type ExponentialGraph struct{}

var _ = Graphs.Add("exponential", "to ranks 1, 2, 4, … ahead in one round: directed, gap about 2/(1+log2 P)", ExponentialGraph{})

// hops is the number of powers of two below size: floor(log2(P−1)) + 1.
func hops(size int) int { return bits.Len(uint(size - 1)) }

// Mix implements Graph.
func (ExponentialGraph) Mix(rank, size, _ int) Mix {
	d := make([]int, hops(size))
	for k := range d {
		d[k] = 1 << k
	}
	return circulant(rank, size, 1/float64(1+len(d)), d...)
}

// Period implements Graph.
func (ExponentialGraph) Period(int) int { return 1 }

// Symmetric implements Graph.
func (ExponentialGraph) Symmetric() bool { return false }

func (ExponentialGraph) alike() {}
