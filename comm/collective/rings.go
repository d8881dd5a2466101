package collective

import "fmt"

// Rings is the hierarchy of PowerAI DDL (Cho et al. 2017): the k ranks of a node
// scatter their sum among themselves. Then k rings across the nodes all-reduce in
// parallel, each over the n/k elements its ranks hold, and the nodes gather. It is
// a torus whose rows are the nodes. A rank sends 2·n·(k−1)/k elements within the node and
// 2·n/k·(m−1)/m across the m nodes. So a node's NIC
// carries little more than 2·n in all.
//
// Without option and without knowledge of nodes it is one ring. Ranks of a last
// node that is not full fold onto those of the first.
//
// Rule: scatter within nodes, all-reduce across them, gather within nodes.
//
// Tuning: group is the ranks of a node, where the cluster does not say.
//
// Cost: little more than 2·n elements at a node's NIC; 2(k−1) + 2(m−1) steps.
type Rings struct {
	Group int `doc:"successive ranks that share a node; 0: what the run knows"`
}

var _ = Topologies.Add("rings", "scatter within nodes, parallel rings across them, gather (PowerAI DDL)", Rings{})

// Validate checks the options.
func (t Rings) Validate() error { return checkGroup(t.Group) }

// Plan implements Topology.
func (t Rings) Plan(at At) Plan { return grid(at, nodeSize(t.Group, at)) }

func checkGroup(k int) error {
	if k < 0 {
		return fmt.Errorf(`option "group": want 0 or the ranks of a node, not %d`, k)
	}
	return nil
}

// nodeSize is how many ranks share a node, by an option or by what the run knows.
func nodeSize(option int, at At) int {
	if option == 0 {
		option = at.Node
	}
	return max(1, min(option, at.Size))
}
