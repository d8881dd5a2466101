package outside

import "github.com/gradlab/gradlab/comm/collective"

// What is no all-reduce is a plan of moves, too, over the group's places.

// fromRoot is a broadcast along a binomial tree.
type fromRoot struct{ Root int }

func (t fromRoot) Plan(at collective.At) collective.Plan {
	all := collective.Range{Hi: 1}
	parent, children := branches(at, t.Root)
	var m []collective.Move
	if parent >= 0 {
		m = append(m, collective.Move{To: -1, From: parent, Recv: all})
	}
	for i := len(children) - 1; i >= 0; i-- { // who has the most below hears first
		m = append(m, collective.Move{To: children[i], From: -1, Send: all})
	}
	return collective.Plan{Chunks: 1, Moves: m}
}

// toRoot is a reduce along a binomial tree.
type toRoot struct{ Root int }

func (t toRoot) Plan(at collective.At) collective.Plan {
	all := collective.Range{Hi: 1}
	parent, children := branches(at, t.Root)
	var m []collective.Move
	for _, c := range children {
		m = append(m, collective.Move{To: -1, From: c, Recv: all, Add: true})
	}
	if parent >= 0 {
		m = append(m, collective.Move{To: parent, From: -1, Send: all})
	}
	return collective.Plan{Chunks: 1, Moves: m}
}

// branches are a place's neighbours in a binomial tree from a root; the root's parent
// is −1.
func branches(at collective.At, root int) (parent int, children []int) {
	place := func(i int) int { return (i + root) % at.Size }
	me := (at.Rank - root + at.Size) % at.Size
	bit := 1
	for ; bit < at.Size && me&bit == 0; bit *= 2 {
		if me+bit < at.Size {
			children = append(children, place(me+bit))
		}
	}
	if me == 0 {
		return -1, children
	}
	return place(me - bit), children
}

// aroundRing passes every place's part around a ring: what an all-gather does, and,
// adding, a reduce-scatter.
type aroundRing struct{ Add bool }

func (t aroundRing) Plan(at collective.At) collective.Plan {
	part := func(i int) collective.Range {
		i = (i + 2*at.Size) % at.Size
		return collective.Range{Lo: i, Hi: i + 1}
	}
	var m []collective.Move
	for s := range at.Size - 1 {
		m = append(m, collective.Move{
			To: (at.Rank + 1) % at.Size, From: (at.Rank + at.Size - 1) % at.Size,
			Send: part(at.Rank - s), Recv: part(at.Rank - s - 1), Add: t.Add,
		})
	}
	return collective.Plan{Chunks: at.Size, Moves: m}
}

// straight moves parts between the root and every other place directly: a gather, or
// with Out a scatter.
type straight struct {
	Root int
	Out  bool
}

func (t straight) Plan(at collective.At) collective.Plan {
	p := collective.Plan{Chunks: at.Size}
	for i := range at.Size {
		part := collective.Range{Lo: i, Hi: i + 1}
		switch {
		case i == t.Root || at.Rank != t.Root && at.Rank != i:
		case (at.Rank == t.Root) == t.Out:
			p.Moves = append(p.Moves, collective.Move{To: t.other(at.Rank, i), From: -1, Send: part})
		default:
			p.Moves = append(p.Moves, collective.Move{To: -1, From: t.other(at.Rank, i), Recv: part})
		}
	}
	return p
}

// other is who moves a place's part with me.
func (t straight) other(me, place int) int {
	if me == t.Root {
		return place
	}
	return t.Root
}

// exchange gives each place its part from every other: all-to-all.
type exchange struct{}

func (exchange) Plan(at collective.At) collective.Plan {
	p := collective.Plan{Chunks: at.Size}
	for s := 1; s < at.Size; s++ {
		to, from := (at.Rank+s)%at.Size, (at.Rank+at.Size-s)%at.Size
		p.Moves = append(p.Moves, collective.Move{
			To: to, From: from,
			Send: collective.Range{Lo: to, Hi: to + 1}, Recv: collective.Range{Lo: at.Rank, Hi: at.Rank + 1},
		})
	}
	return p
}
