package collective

// Doubling is recursive doubling: in step k every rank exchanges its whole sum
// with the rank whose number differs in bit k and adds what it gets. Both add
// the same two numbers, so both hold the same bits. log2 P steps, the fewest
// there can be, but n·log2 P elements sent: for small vectors.
//
// Where P is no power of two, the ranks beyond the largest one fold in and out
// at two more steps (Thakur, Rabenseifner and Gropp 2005).
//
// Rule: x ← x + x of rank XOR 2ᵏ, for k = 0 … log2 P − 1.
//
// Tuning: none.
//
// Cost: n·log2 P elements a rank, log2 P steps.
type Doubling struct{}

var _ = Topologies.Add("doubling", "recursive doubling: whole vectors, log2 P steps", Doubling{})

// Plan implements Topology.
func (Doubling) Plan(at At) Plan {
	all := Range{0, 1}
	core := core(at.Size)
	return folded(at, core, 1, func() (m []Move) {
		for bit := 1; bit < core; bit *= 2 {
			peer := at.Rank ^ bit
			m = append(m, Move{To: peer, From: peer, Send: all, Recv: all, Add: true})
		}
		return m
	})
}
