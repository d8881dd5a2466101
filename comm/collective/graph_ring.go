package collective

// RingGraph lets every rank average with the two beside it, each of the three at
// 1/3 (Lian et al. 2017, D-PSGD). Two messages a round, whatever P, but news
// travels one rank a round: the gap falls like 1/P². Two ranks have one neighbour
// each and meet halfway.
//
// Rule: x ← (x of both neighbours + x)/3.
//
// Tuning: none; it wants few ranks.
//
// Cost: two messages a rank and round.
type RingGraph struct{}

var _ = Graphs.Add("ring", "the two neighbours at a third each: symmetric, gap falls like 1/P²", RingGraph{})

// Mix implements Graph.
func (RingGraph) Mix(rank, size, _ int) Mix {
	if size == 2 {
		return circulant(rank, size, 0.5, 1)
	}
	return circulant(rank, size, 1.0/3, 1, -1)
}

// Period implements Graph.
func (RingGraph) Period(int) int { return 1 }

// Symmetric implements Graph.
func (RingGraph) Symmetric() bool { return true }

func (RingGraph) alike() {}
