package collective

// Tree reduces to rank 0 along a binomial tree and broadcasts back along it:
// 2·log2 P steps deep, but only 2(P−1) frames in all where recursive doubling
// needs P·log2 P. The fewest frames are the least work where many ranks share
// few cores; the root's n·log2 P elements are too many for large vectors.
//
// Of vectors of many segments a rank passes hardly any on before the last has come,
// and its children share its NIC, so that the deepest subtree has to wait. On the
// virtual cluster 64 MB at 1 Gb/s take 1.23 times the closed form with 4 ranks, 1.46
// with 8, 1.69 with 16 and 1.91 with 32.
//
// Rule: a reduce to rank 0 along a binomial tree, and a broadcast back.
//
// Paper: none.
//
// Tuning: none.
//
// Cost: up to n·log2 P elements at the root, 2·log2 P steps, 2(P−1) frames in
// all.
type Tree struct{}

var _ = Topologies.Add("tree", "binomial tree to rank 0 and back: fewest frames, 2·log2 P steps", Tree{})

// Plan implements Topology.
func (Tree) Plan(at At) Plan {
	all := Range{0, 1}
	var m []Move
	bit := 1
	for ; bit < at.Size && at.Rank&bit == 0; bit *= 2 {
		if child := at.Rank + bit; child < at.Size {
			m = append(m, Move{To: -1, From: child, Recv: all, Add: true})
		}
	}
	if at.Rank != 0 {
		parent := at.Rank - bit
		m = append(m, Move{To: parent, From: -1, Send: all}, Move{To: -1, From: parent, Recv: all})
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if child := at.Rank + bit; child < at.Size {
			m = append(m, Move{To: child, From: -1, Send: all})
		}
	}
	return Plan{1, m}
}
