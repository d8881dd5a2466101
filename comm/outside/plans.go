package outside

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
)

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

// aroundRing adds every place's part around a ring: a reduce-scatter.
type aroundRing struct{}

func (aroundRing) Plan(at collective.At) collective.Plan {
	part := func(i int) collective.Range {
		i = (i + 2*at.Size) % at.Size
		return collective.Range{Lo: i, Hi: i + 1}
	}
	var m []collective.Move
	for s := range at.Size - 1 {
		m = append(m, collective.Move{
			To: (at.Rank + 1) % at.Size, From: (at.Rank + at.Size - 1) % at.Size,
			Send: part(at.Rank - s), Recv: part(at.Rank - s - 1), Add: true,
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

// gather passes every rank's bytes around a ring, an all-gather. Ranks can have different
// numbers of bytes.
func gather(ctx context.Context, h comm.Host, g collective.Group, hd comm.Header, bytes int) error {
	size := len(g.Ranks)
	hd.Kind = comm.Gradient
	for s := 1; s < size; s++ {
		hd.Seq = uint64(s)
		got, err := trade(ctx, h, hd, g.Ranks[(g.Me+1)%size], g.Ranks[(g.Me+size-1)%size], bytes)
		if err != nil {
			return err
		}
		bytes = got
	}
	return nil
}

// exchange sends bytes from every rank to every other, an all-to-all. Ranks can send
// different numbers of bytes.
func exchange(ctx context.Context, h comm.Host, g collective.Group, hd comm.Header, bytes int) error {
	size := len(g.Ranks)
	hd.Kind = comm.Gradient
	for s := 1; s < size; s++ {
		hd.Seq = uint64(s)
		if _, err := trade(ctx, h, hd, g.Ranks[(g.Me+s)%size], g.Ranks[(g.Me+size-s)%size], bytes); err != nil {
			return err
		}
	}
	return nil
}

// trade sends bytes to one rank and returns how many another one sent in the same step.
func trade(ctx context.Context, h comm.Host, hd comm.Header, to, from, bytes int) (int, error) {
	if err := h.Send(ctx, to, comm.Frame{Header: hd, Billed: bytes}); err != nil {
		return 0, err
	}
	in, err := h.Recv(ctx, from, hd.Tag)
	in.Release()
	if err == nil && (in.Header.Step != hd.Step || in.Header.Seq != hd.Seq) {
		err = fmt.Errorf("rank %d is at collective %d, move %d of its group, this rank at %d, move %d", from, in.Header.Step, in.Header.Seq, hd.Step, hd.Seq)
	}
	return in.Billed, err
}
