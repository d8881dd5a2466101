package mean

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// needsKey is where ranks of a process share what their exchanges ask for.
type needsKey struct{}

// needs lists, by piece, what the exchanges of a shard ask for in a step.
func needs(j *train.Job) (out []wire.Need, err error) {
	gather := j.Traits().Gathers
	for _, pc := range exchanged(j).Pieces {
		b := pc.Block
		b.World, b.Peer, b.Seed = j.Workers, -1, j.Seed
		f := pc.Family(j.Codec)
		a, err := j.Content().AsksOf(f, b, gather)
		if err != nil {
			return nil, fmt.Errorf("codec %s on %s: %w", compress.Spec(f), b.Name, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// sizes is the content of a run without weights: frames of the right sizes, the like
// operations of a round fused as they are with gradients.
type sizes struct {
	*reducer
	asks  []wire.Need   // by piece
	noted []wire.Cursor // by piece, where they are
}

func newSizes(r *reducer) (*sizes, error) {
	all, err := train.Shared(r.Job(), needsKey{}, func() ([]wire.Need, error) { return needs(r.Job()) })
	s := &sizes{r, all, make([]wire.Cursor, len(all))}
	for i, a := range all {
		r.gathered[i] = a.Gathered
		if a.Noted {
			s.noted[i] = r.Job().Sizes.Cursor(fmt.Sprintf("%d/%s", r.ID(), r.shard.Pieces[i].Block.Name))
		}
	}
	return s, err
}

func (*sizes) begin(int) error { return nil }

// next is what the exchange of piece i asks for in a round.
func (s *sizes) next(i, round int) (wire.Ask, error) {
	switch ops := s.asks[i].Ops; {
	case s.asks[i].Noted:
		return s.noted[i].Op(s.Job().Workers)
	case round < len(ops):
		return ops[round], nil
	}
	return wire.Ask{}, nil
}

func (s *sizes) perform(ctx context.Context, b *bucket, flags message.Flags) (_ message.Flags, err error) {
	now := make([]wire.Ask, b.hi-b.lo)
	for round := 0; ; round++ {
		busy := false
		for i := range now {
			if round > 0 && now[i].Kind == compress.OpNone { // its exchange is over
				continue
			}
			if now[i], err = s.next(b.lo+i, round); err != nil {
				return flags, err
			}
			busy = busy || now[i].Kind != compress.OpNone
		}
		if !busy {
			return flags, nil
		}
		if flags, err = s.sum(ctx, b, now, compress.OpMax, compress.F32, flags); err != nil {
			return flags, err
		}
		for of := range wire.Formats {
			if flags, err = s.sum(ctx, b, now, compress.OpSum, compress.Wire(of), flags); err != nil {
				return flags, err
			}
		}
		if flags, err = s.spread(ctx, b, now, flags); err != nil {
			return flags, err
		}
	}
}

// sum rehearses reducer.sums.
func (s *sizes) sum(ctx context.Context, b *bucket, now []wire.Ask, kind compress.OpKind, of compress.Wire, flags message.Flags) (message.Flags, error) {
	var n []int // elements, of every tensor where they are fused
	for _, a := range now {
		switch {
		case a.Kind != kind || a.Wire != of:
		case fuses(s.Job()) || n == nil:
			n = append(n, a.N)
		default:
			n[0] += a.N
		}
	}
	return collective.RehearseAll(ctx, s.net, s.group, s.Job().Topology, s.header(b, flags), n, wire.Formats[of].Width())
}

// spread rehearses reducer.gathers and scatters.
func (s *sizes) spread(ctx context.Context, b *bucket, now []wire.Ask, flags message.Flags) (_ message.Flags, err error) {
	size, gathers, to := 0, false, []int(nil)
	for _, a := range now {
		switch a.Kind {
		case compress.OpGather:
			gathers = true
			size += a.N
		case compress.OpScatter:
			to = append(to, make([]int, len(a.Slices)-len(to))...)
			for rank, n := range a.Slices {
				to[rank] += n
			}
		}
	}
	if gathers {
		if flags, err = collective.RehearseGather(ctx, s.net, s.group, s.header(b, flags), size); err != nil {
			return flags, err
		}
	}
	if to != nil {
		flags, err = collective.RehearseAllToAll(ctx, s.Host(), s.group, s.header(b, flags), to)
	}
	return flags, err
}
