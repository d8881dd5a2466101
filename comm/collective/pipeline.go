package collective

import (
	"fmt"
	"math"
	"math/bits"
)

// Trees over which chunks flow up to be added and down again, one behind the
// other: while one chunk is on its way to the root, those before it are coming
// back. In a time of a chunk's transfer everybody passes one chunk up and one
// down, so a vector of K chunks takes about K + 2·height such times.

// branch is a rank's place in a tree; −1 where there is nobody.
type branch struct {
	parent   int
	children [2]int
	depth    int // edges to the root
	height   int // of the whole tree: edges from the root to the deepest rank
}

// heap is the tree in which the children of rank i are 2i+1 and 2i+2.
func heap(rank, size int) branch {
	depth := func(i int) int { return bits.Len(uint(i+1)) - 1 }
	b := branch{parent: (rank+1)/2 - 1, children: [2]int{2*rank + 1, 2*rank + 2}, depth: depth(rank), height: depth(size - 1)}
	for i, c := range b.children {
		if c >= size {
			b.children[i] = -1
		}
	}
	return b
}

// inOrder is the tree over the numbers 1 … size in which the number odd·2^k
// stands k edges above the leaves: odd numbers are leaves, the largest power of
// two is the root, and left of a number is what is smaller. Where a number would
// be beyond the end, its left child stands in for it.
func inOrder(v, size int) branch {
	root := core(size)
	b := branch{parent: -1, children: [2]int{-1, -1}, height: bits.Len(uint(root)) - 1}
	if half := (v & -v) / 2; half > 0 {
		b.children[0] = v - half
		for ; half > 0 && b.children[1] < 0; half /= 2 {
			if v+half <= size {
				b.children[1] = v + half
			}
		}
	}
	for u := v; u != root; b.depth++ {
		for u = above(u); u > size; {
			u = above(u)
		}
		if b.parent < 0 {
			b.parent = u
		}
	}
	return b
}

// above is the number over v in the tree without an end.
func above(v int) int {
	bit := v & -v
	return v&^bit | bit<<1
}

// flow is a tree and the chunks [first, first+count) that run over it.
type flow struct {
	branch
	first, count int
}

// pipeline makes a rank's moves: at time t a rank of depth d in a tree of height
// h passes up chunk t−(h−d) and takes down chunk t−(h+d). What is received was
// sent a time before, so flows may share the clock and nobody waits in a circle.
func pipeline(chunks int, flows ...flow) Plan {
	var m []Move
	last := 0
	for _, f := range flows {
		last = max(last, 2*f.height+f.count)
	}
	for t := range last {
		for _, f := range flows {
			chunk := func(late int) (p Range, ok bool) {
				c := t - late
				return Range{f.first + c, f.first + c + 1}, c >= 0 && c < f.count
			}
			up, rising := chunk(f.height - f.depth)
			down, falling := chunk(f.height + f.depth)
			for _, c := range f.children {
				if c >= 0 && rising {
					m = append(m, Move{To: -1, From: c, Recv: up, Add: true})
				}
			}
			if f.parent >= 0 && (rising || falling) {
				both := Move{To: -1, From: -1}
				if rising {
					both.To, both.Send = f.parent, up
				}
				if falling {
					both.From, both.Recv = f.parent, down
				}
				m = append(m, both)
			}
			for _, c := range f.children {
				if c >= 0 && falling {
					m = append(m, Move{To: c, From: -1, Send: down})
				}
			}
		}
	}
	return Plan{chunks, m}
}

// cuts is the number of chunks that makes (K + 2h)·(α + b·n·β/K) least, where a
// rank moves b chunks of K each way in the time of a chunk: K = √(2h·b·n·β/α).
func cuts(height, moved, bytes int) int {
	c := defaults
	return max(1, int(math.Sqrt(float64(2*height*moved)*float64(bytes)*c.Beta/(1e3*c.Alpha))+0.5))
}

func checkChunks(k int) error {
	if k < 0 {
		return fmt.Errorf(`option "chunks": want 0 or how many, not %d`, k)
	}
	return nil
}
