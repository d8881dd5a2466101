// Package collective moves vectors between all ranks. A topology is data: a
// plan of moves over chunks of the vector. One function proves a plan, one
// prices it, one executes it; none of them knows a topology.
package collective

import "github.com/gradlab/gradlab/internal/registry"

// At is where a plan is asked for: the place of one rank in a group.
type At struct {
	Rank int // 0 … Size−1
	Size int
}

// Part is a range of chunks [Lo, Hi).
type Part struct{ Lo, Hi int }

// Move is one step of a rank: send a part to a peer and receive one from a
// peer, both at once. To or From is −1 when there is nothing to send or
// receive. What arrives is added to what the rank holds, or replaces it.
type Move struct {
	To, From   int
	Send, Recv Part
	Add        bool
}

// Topology plans an all-reduce: afterwards every rank holds, for every chunk,
// the sum of all ranks' contributions. The vector is cut into Chunks(size)
// chunks as equal as can be. Each rank makes its moves in order; a rank's k-th
// frame to a peer is the k-th that this peer receives from it.
type Topology interface {
	Chunks(size int) int
	Plan(at At) []Move
}

// Topologies holds every topology by name.
var Topologies = registry.New[Topology]("topology")

// Bounds gives the elements [lo, hi) of a part when n elements are cut into
// chunks chunks; sizes differ by one at most.
func Bounds(p Part, chunks, n int) (lo, hi int) {
	at := func(c int) int { return c*(n/chunks) + min(c, n%chunks) }
	return at(p.Lo), at(p.Hi)
}
