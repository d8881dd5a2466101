package collective

// Pairs is gossip by matchings, one message a round and symmetric: at step k
// rank i averages with i XOR 2^(k mod log2 P). On a power of two it is a hypercube
// by turns, and log2 P rounds make the exact mean. On other sizes ranks without
// a partner rest, and every other time round the numbering shifts by one, so that
// they are not always the same.
//
// Rule: x ← (x + x of the partner)/2.
//
// Paper: none.
//
// Tuning: P a power of two, for exact means.
//
// Cost: one message a rank and round.
type Pairs struct{}

var _ = Graphs.Add("pairs", "disjoint pairs average, by turns: symmetric, one message a round", Pairs{})

// Mix implements Graph.
func (g Pairs) Mix(rank, size, step int) Mix {
	bits := hops(size)
	if bits == 0 {
		return Mix{Self: 1}
	}
	shift := step / bits % 2
	peer := (rank+shift)%size ^ 1<<(step%bits)
	if peer >= size {
		return Mix{Self: 1}
	}
	e := []Edge{{(peer + size - shift) % size, 0.5}}
	return Mix{0.5, e, e}
}

// Period implements Graph.
func (Pairs) Period(size int) int { return max(1, 2*hops(size)) }

// Symmetric implements Graph.
func (Pairs) Symmetric() bool { return true }
