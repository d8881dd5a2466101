package collective

// OnePeer is the exponential graph one edge at a time: at step k rank i sends to
// i + 2^(k mod log2 P) and halves what it has (Assran et al. 2019, SGP). One
// message a round; where P is a power of two, log2 P rounds make the exact mean.
//
// Rule: rank i sends to i + 2^(step mod log2 P), and keeps half.
//
// Tuning: P a power of two, for exact means.
//
// Cost: one message a rank and round.
type OnePeer struct{}

var _ = Graphs.Add("one_peer", "one rank at 1, 2, 4, … ahead by turns: directed, one message a round", OnePeer{})

// Mix implements Graph.
func (g OnePeer) Mix(rank, size, step int) Mix {
	return circulant(rank, size, 0.5, 1<<(step%g.Period(size)))
}

// Period implements Graph.
func (OnePeer) Period(size int) int { return max(1, hops(size)) }

// Symmetric implements Graph.
func (OnePeer) Symmetric() bool { return false }

func (OnePeer) alike() {}
