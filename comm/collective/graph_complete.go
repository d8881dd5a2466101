package collective

// CompleteGraph averages over all ranks every round: what gossip costs when it
// does not save anything, P−1 messages a rank, and the reference that the others
// are held against.
//
// Rule: every rank hears every rank, each at 1/P.
//
// Paper: none.
//
// Tuning: none.
//
// Cost: P−1 messages a rank and round; the mean is exact.
type CompleteGraph struct{}

var _ = Graphs.Add("complete", "everybody with everybody: exact mean each round", CompleteGraph{})

// Mix implements Graph.
func (CompleteGraph) Mix(rank, size, _ int) Mix {
	d := make([]int, size-1)
	for i := range d {
		d[i] = i + 1
	}
	return circulant(rank, size, 1/float64(size), d...)
}

// Period implements Graph.
func (CompleteGraph) Period(int) int { return 1 }

// Symmetric implements Graph.
func (CompleteGraph) Symmetric() bool { return true }

func (CompleteGraph) alike() {}
