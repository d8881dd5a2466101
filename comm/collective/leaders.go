package collective

// Leaders is the classical hierarchy: the ranks of a node sum up to its first
// one along a binomial tree. The leaders all-reduce over a topology of their own,
// and hand the sum back along the tree. Whole vectors cross the node's NIC once,
// however many ranks the node has; the leader is the bottleneck, with log2 k·n
// elements of its node's and what its topology asks for. The last node may have
// fewer ranks.
//
// Rule: a tree within each node, a topology among their first ranks, and back.
//
// Paper: none.
//
// Tuning: the topology among leaders, as for as many ranks as there are nodes.
//
// Cost: n elements each way at a node's NIC, times what the inner topology
// sends; log2 k steps each way within nodes of k ranks.
type Leaders struct {
	Outer Topology `doc:"topology of the leaders"`
	Group int      `doc:"successive ranks that share a node; 0: what the run knows"`
}

var _ = Topologies.Add("leaders", "tree to the first rank of each node, a topology among these, tree back", Leaders{Outer: Ring{}})

// Validate checks the options.
func (t Leaders) Validate() error { return checkGroup(t.Group) }

// Plan implements Topology.
func (t Leaders) Plan(at At) Plan {
	k := nodeSize(t.Group, at)
	first := at.Rank / k * k
	outer := t.Outer.Plan(At{Rank: at.Rank / k, Size: (at.Size + k - 1) / k, Bytes: at.Bytes})
	inner := Tree{}.Plan(At{Rank: at.Rank - first, Size: min(k, at.Size-first)})
	var m []Move
	lead := func() {
		for _, o := range outer.Moves {
			m = append(m, shifted(o, k, 0))
		}
	}
	leading := at.Rank != first
	for _, i := range inner.Moves {
		if !leading && !i.Add { // the node's sum is complete
			lead()
			leading = true
		}
		i.Send, i.Recv = Range{0, outer.Chunks}, Range{0, outer.Chunks}
		m = append(m, shifted(i, 1, first))
	}
	if !leading {
		lead()
	}
	return Plan{outer.Chunks, m}
}

// shifted is a move between the ranks that peers of m stand for.
func shifted(m Move, scale, first int) Move {
	if m.To >= 0 {
		m.To = m.To*scale + first
	}
	if m.From >= 0 {
		m.From = m.From*scale + first
	}
	return m
}
