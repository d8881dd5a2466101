package collective

import (
	"slices"
	"time"
)

// A plan's moves are cut into segments of at most so many bytes, and a segment
// waits only for what it depends on: segments of the next move leave while those
// of this one still arrive. Two accesses of a rank to the same elements keep the
// order of the plan unless both read.
//
// But a rank that swaps with one peer and then, with what came of it, with another
// does not turn to that one before the swap is over: two streams would share its
// NIC, and the first swap, which all wait for, take longer. Where swaps are long
// that costs less than a NIC, or on one host a core, that has nothing to do.

// segment is what one frame carries.
type segment struct {
	peer   int // index in the group
	lo, hi int // elements
	add    bool
	soon   bool // a receive of the same move changes what a send carries

	// What must have happened before: the first got receives must be complete
	// and, for a receive, the first gone sends must have been made.
	got, gone int
	// before is how many receives stand before a send in the plan, were every
	// segment a move of its own.
	before int
}

// program is a plan for n elements, ready to run.
type program struct {
	sends, recvs []segment
	settle       [][2]int // elements whose last change was a sum that was not sent on
}

// may says whether send number sent may be made after got receives, by a rank whose sends run
// so many segments ahead.
func (p *program) may(sent, got, ahead int) bool {
	if sent == len(p.sends) {
		return false
	}
	s := &p.sends[sent]
	due := got < len(p.recvs) && sent < p.recvs[got].gone
	return s.got <= got && (s.before <= got+ahead || due)
}

const (
	// near and far are how far the sends of a rank may run ahead of its receives, in
	// segments. It bounds what is in flight: little enough to lie in caches, or enough to
	// fill 4 Gb/s for 30 ms.
	near = 4
	far  = 64
	// long is the round trip from which ranks are far from each other.
	long = 2 * time.Millisecond
	// windows is how many times as many receives a rank is posted for at most: what comes
	// when nobody waits for it is copied once more, and peers may be ahead of us.
	windows = 4
	// loans is how many times as many sends may be under way from where they lie.
	loans = 2
	// brief is how many segments a swap has that is waited for before the next.
	brief = 2 * near
)

// cut makes the program of a plan for n elements in segments of at most limit
// elements.
func cut(plan Plan, n, limit int) *program {
	return cutAt(plan, func(chunk int) int {
		at, _ := Bounds(Range{chunk, chunk}, plan.Chunks, n)
		return at
	}, (n+plan.Chunks-1)/plan.Chunks, limit)
}

// cutAt is cut where chunk c begins at element begin(c), up to begin(Chunks), and
// the longest has so many elements.
func cutAt(plan Plan, begin func(chunk int) int, longest, limit int) *program {
	limit = max(1, limit)
	grid := newCells(plan.Chunks, max(1, (longest+limit-1)/limit), limit, begin)
	per, edge := grid.per, grid.edge
	sent, got := make([]int, len(edge)-1), make([]int, len(edge)-1) // 1 + the last access of either kind, 0 without
	summed := make([]bool, len(edge)-1)
	g := &program{sends: make([]segment, 0, len(plan.Moves)*per), recvs: make([]segment, 0, len(plan.Moves)*per)}
	turn, behind := -1, 0 // of the move before: its peer, and the receives before it
	for _, m := range plan.Moves {
		first, base := len(g.sends), len(g.recvs)
		turns := m.To >= 0 && m.From >= 0 && turn >= 0 && turn != m.To && m.Send.Lo < m.Send.Hi && slices.Max(got[m.Send.Lo*per:m.Send.Hi*per]) > behind
		turn, behind = m.To, base
		soon := m.To >= 0 && m.From >= 0 && m.Send.Lo < m.Recv.Hi && m.Recv.Lo < m.Send.Hi
		if m.To >= 0 {
			grid.segments(m.Send, func(from, to int) {
				p := segment{peer: m.To, lo: edge[from], hi: edge[to], soon: soon, before: base + len(g.sends) - first}
				for c := from; c < to; c++ {
					p.got = max(p.got, got[c])
					sent[c], summed[c] = len(g.sends)+1, false
				}
				g.sends = append(g.sends, p)
			})
			if turns && len(g.sends)-first <= brief {
				for i := first; i < len(g.sends); i++ {
					g.sends[i].got = base
				}
			}
		}
		if m.From >= 0 {
			grid.segments(m.Recv, func(from, to int) {
				p := segment{peer: m.From, lo: edge[from], hi: edge[to], add: m.Add}
				for c := from; c < to; c++ {
					p.got, p.gone = max(p.got, got[c]), max(p.gone, sent[c])
					got[c], summed[c] = len(g.recvs)+1, m.Add
				}
				g.recvs = append(g.recvs, p)
			})
		}
		for i := first; i < len(g.sends); i++ { // a move may have more to send than to receive
			g.sends[i].before = min(g.sends[i].before, len(g.recvs))
		}
	}
	g.settle = grid.runs(summed)
	return g
}

// cells divides the chunks of a plan further: accesses are followed by the cell, as
// cells are the same in every move.
type cells struct {
	per   int   // cells a chunk
	limit int   // elements of a segment, at most
	edge  []int // where a cell begins; one more, the end of the last
}

func newCells(chunks, per, limit int, begin func(chunk int) int) cells {
	g := cells{per, limit, make([]int, chunks*per+1)}
	for chunk := range chunks {
		lo, hi := begin(chunk), begin(chunk+1)
		for cell := range per {
			at, _ := Bounds(Range{cell, cell}, per, hi-lo)
			g.edge[chunk*per+cell] = lo + at
		}
	}
	g.edge[chunks*per] = begin(chunks)
	return g
}

// segments calls do for the segments of a range: as many cells as fit.
func (g cells) segments(p Range, do func(from, to int)) {
	for from, end := p.Lo*g.per, p.Hi*g.per; from < end; {
		to := from + 1
		for to < end && g.edge[to+1]-g.edge[from] <= g.limit {
			to++
		}
		do(from, to)
		from = to
	}
}

// runs are the ranges of elements of the cells chosen, neighbours joined.
func (g cells) runs(chosen []bool) (out [][2]int) {
	for c, yes := range chosen {
		lo, hi := g.edge[c], g.edge[c+1]
		if !yes || lo == hi {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k][1] == lo {
			out[k][1] = hi
		} else {
			out = append(out, [2]int{lo, hi})
		}
	}
	return out
}
