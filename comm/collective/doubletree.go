package collective

// DoubleTree runs half of the vector over each of two pipelined trees in which
// who has children in one is a leaf in the other (Sanders, Speck and Träff 2009;
// NCCL from 2.4 on). A rank sends 3/2·n + 1/2·n = 2·n elements, as little as
// trees can, in about 2·log2 P steps and one a chunk. For large vectors over many
// ranks, where the ring has too many steps.
//
// The trees are in-order ones over the numbers 1 … P, of which odd ones are
// leaves. The second is mirrored where P is even and turned by one where it is
// odd; then one rank is a leaf in both.
//
// Rule: a reduce up and a broadcast down two trees at once, half of the vector
// each.
//
// Tuning: chunks small enough to fill the trees, large enough to hide the
// latency.
//
// Cost: 2·n elements a rank, about 2·log2 P steps and one a chunk.
type DoubleTree struct {
	Chunks int `doc:"chunks of each half; 0: as many as the default costs of auto suggest"`
}

var _ = Topologies.Add("double_tree", "two pipelined trees, a half each, inner in one and leaf in the other: 2·n elements", DoubleTree{})

// Validate checks the options.
func (t DoubleTree) Validate() error { return checkChunks(t.Chunks) }

// Plan implements Topology.
func (t DoubleTree) Plan(at At) Plan {
	p := at.Size
	first := inOrder(at.Rank+1, p).renumbered(func(v int) int { return v - 1 })
	var second branch
	if p%2 == 0 {
		second = inOrder(p-at.Rank, p).renumbered(func(v int) int { return p - v })
	} else {
		second = inOrder((at.Rank+1)%p+1, p).renumbered(func(v int) int { return (v + p - 2) % p })
	}
	k := t.Chunks
	if k == 0 {
		k = cuts(first.height, 4, at.Bytes/2)
	}
	return pipeline(2*k, flow{first, 0, k}, flow{second, k, k})
}

// renumbered is b with rank(v) in place of v.
func (b branch) renumbered(rank func(v int) int) branch {
	for _, v := range []*int{&b.parent, &b.children[0], &b.children[1]} {
		if *v >= 0 {
			*v = rank(*v)
		}
	}
	return b
}
