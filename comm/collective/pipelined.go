package collective

// Pipelined is a binary tree through which chunks of the vector flow up and down
// at once. Its height is log2 P, as that of the binomial tree, but two neighbours below
// instead of log2 P at the root, and no waiting for whole vectors. A rank with
// two children sends 3·n elements and receives as many, whatever P.
//
// Rule: a reduce up and a broadcast down one binary tree, chunk by chunk.
//
// Paper: none.
//
// Tuning: chunks small enough to fill the tree, large enough to hide the
// latency.
//
// Cost: up to 3·n elements a rank, 2·log2 P steps and one a chunk.
type Pipelined struct {
	Chunks int `doc:"chunks; 0: as many as the default costs of auto suggest"`
}

var _ = Topologies.Add("pipelined", "binary tree, chunks flow up and down at once: 3·n elements, 2·log2 P steps and one a chunk", Pipelined{})

// Validate checks the options.
func (t Pipelined) Validate() error { return checkChunks(t.Chunks) }

// Plan implements Topology.
func (t Pipelined) Plan(at At) Plan {
	tree, k := heap(at.Rank, at.Size), t.Chunks
	if k == 0 {
		k = cuts(tree.height, 3, at.Bytes)
	}
	return pipeline(k, flow{tree, 0, k})
}
