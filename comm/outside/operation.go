package outside

import (
	"context"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
)

// Tags: of collectives the number of their group, and that and maxGroups where ranks only
// meet; of sends and receives the number and their own; of what a rank tells itself its number.
const (
	pair  comm.Tag = 1 << 30
	own   comm.Tag = 1 << 31
	ready comm.Tag = own | pair // and the rest of a pair's tag

	maxGroups = 1 << 10
)

// begin begins an operation.
func (p *player) begin(h comm.Host, e Event) error {
	g := collective.Group{Ranks: e.Group, Node: p.cluster.PerHost}
	if e.Group == nil {
		for r := range p.size {
			g.Ranks = append(g.Ranks, r)
		}
	} else if !slices.IsSorted(e.Group) || len(e.Group) < p.size {
		g.Node = 0
	}
	if g.Me = slices.Index(g.Ranks, h.Rank()); g.Me < 0 {
		return fmt.Errorf("%s: rank %d is not of group %v", e.Do, h.Rank(), e.Group)
	}
	name := fmt.Sprint(g.Ranks, e.Of)
	number, known := p.numbers[name]
	if !known {
		if number = len(p.numbers); number == maxGroups {
			return fmt.Errorf("%s: more than %d groups", e.Do, maxGroups)
		}
		p.numbers[name] = number
	}
	c := p.out.Operations[e.Do]
	if c == nil {
		c = &Count{}
		p.out.Operations[e.Do] = c
	}
	c.Number++
	c.Bytes += uint64(e.Bytes)

	hd := comm.Header{Kind: comm.Gradient, Tag: pair | comm.Tag(number<<20|e.Tag)}
	before := 0
	if e.Do != Send && e.Do != Recv {
		before, p.last[number] = p.last[number], e.ID
		p.turns[number]++
		hd.Tag, hd.Step = comm.Tag(number), p.turns[number]
	}
	// An operation is complete when it has moved its bytes and, where some ranks would not
	// need all others for that, when all ranks have begun it, as in gloo.
	parts := 1
	part := func(do func(context.Context, comm.Host) error) {
		h.Go(fmt.Sprintf("%s, operation %d", e.Do, e.ID), func(ctx context.Context, h comm.Host) error {
			if before != 0 {
				if err := p.await(ctx, h, before); err != nil {
					return err
				}
			}
			if err := do(ctx, h); err != nil {
				return err
			}
			if parts--; parts > 0 {
				return nil
			}
			return p.complete(ctx, h, e.ID)
		})
	}
	if slices.Contains(rooted, e.Do) {
		parts++
		part(func(ctx context.Context, h comm.Host) error {
			word := hd
			word.Tag += maxGroups
			_, _, err := collective.Least(ctx, h, g, word, 0)
			return err
		})
	}
	part(func(ctx context.Context, h comm.Host) error { return p.operate(ctx, h, g, hd, e) })
	return nil
}

// operate moves what an operation moves.
func (p *player) operate(ctx context.Context, h comm.Host, g collective.Group, hd comm.Header, e Event) error {
	size, width := len(g.Ranks), max(e.Width, 1)
	root := slices.Index(g.Ranks, e.Peer)
	plan, bytes := collective.Topology(nil), e.Bytes
	switch e.Do {
	case Send:
		return p.send(ctx, h, hd, e)
	case Recv:
		return p.receive(ctx, h, hd, e)
	case AllReduce:
		plan = p.cluster.Topology
	case Broadcast:
		plan = fromRoot{root}
	case Reduce:
		plan = toRoot{root}
	case AllGather:
		return gather(ctx, h, g, hd, bytes)
	case ReduceScatter:
		plan, bytes = aroundRing{}, size*bytes
	case Gather:
		plan, bytes = straight{Root: root}, size*bytes
	case Scatter:
		plan, bytes = straight{Root: root, Out: true}, size*bytes
	case AllToAll:
		return exchange(ctx, h, g, hd, bytes)
	}
	if bytes == 0 { // all still meet
		_, _, err := collective.Least(ctx, h, g, hd, 0)
		return err
	}
	_, err := collective.Rehearse(ctx, h, g, plan, hd, bytes/width, width)
	return err
}
