// Package collective moves vectors between all ranks. A topology is data: a
// plan of moves over chunks of the vector. One function proves a plan, one
// prices it, one cuts it into segments that overlap, one executes it; none of
// them knows a topology.
package collective

import "github.com/gradlab/gradlab/registry"

// At is where a plan is asked for: the place of one rank in a group, the length
// of the vector, and what is known of where ranks are. All but Rank is the same
// on all ranks.
type At struct {
	Rank  int // 0 … Size−1
	Size  int
	Bytes int // of the whole vector on the wire
	// Node is the number of ranks that share a node: ranks 0 … Node−1 do, the
	// next Node do, and so on. 0 means that nobody knows.
	Node int
}

// Range is the chunks [Lo, Hi).
type Range struct{ Lo, Hi int }

// Move is one step of a rank: send some chunks to a peer and receive some from a
// peer, both at once. To or From is −1 when there is nothing to send or
// receive. What arrives is added to what the rank holds, or replaces it.
type Move struct {
	To, From   int
	Send, Recv Range
	Add        bool
}

// Plan is what one rank does: the vector is cut into Chunks chunks as equal as
// can be, and the moves are made in order. A rank's k-th frame to a peer is the
// k-th that this peer receives from it.
type Plan struct {
	Chunks int
	Moves  []Move
}

// Topology plans an all-reduce: afterwards every rank holds, for every chunk,
// the same sum of all ranks' contributions, to the last bit. Chunks is the same
// on all ranks.
type Topology interface {
	Plan(at At) Plan
}

// Topologies holds every topology by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Topologies = registry.New[Topology]("topology")

// Bounds gives the elements [lo, hi) of a range when n elements are cut into
// chunks chunks; sizes differ by one at most.
func Bounds(p Range, chunks, n int) (lo, hi int) {
	at := func(c int) int { return c*(n/chunks) + min(c, n%chunks) }
	return at(p.Lo), at(p.Hi)
}

// core is the largest power of two up to size: topologies over pairs run among
// so many ranks.
func core(size int) int {
	c := 1
	for 2*c <= size {
		c *= 2
	}
	return c
}

// folded plans for any number of ranks what inner does among the first core
// ones, at least half of them: rank core+i hands its vector to rank i first and
// gets the sum from it last.
func folded(at At, core, chunks int, inner func() []Move) Plan {
	all := Range{0, chunks}
	if at.Rank >= core {
		host := at.Rank - core
		return Plan{chunks, []Move{{To: host, From: -1, Send: all}, {To: -1, From: host, Recv: all}}}
	}
	guest := at.Rank + core
	if guest >= at.Size {
		return Plan{chunks, inner()}
	}
	m := append([]Move{{To: -1, From: guest, Recv: all, Add: true}}, inner()...)
	return Plan{chunks, append(m, Move{To: guest, From: -1, Send: all})}
}
