package mean

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// needsKey is where ranks of a process share what their exchanges ask for.
type needsKey struct{ gather bool }

// needs lists, by piece, what the exchanges of a Mean ask for in a step.
func needs(m *Mean) (out []wire.Need, err error) {
	j := m.job()
	for _, pc := range m.shard.Pieces {
		b := pc.Block
		b.World, b.Peer, b.Seed = j.Workers, -1, j.Seed
		f := pc.Family(j.Codec)
		a, err := j.Content().AsksOf(f, b, m.all)
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
	asks  []wire.Need   // by piece
	noted []wire.Cursor // by piece, where they are
}

// newSizes makes the sizes of a Mean's frames, and tells it which pieces are gathered.
func newSizes(m *Mean) (*sizes, error) {
	j := m.job()
	all, err := train.Shared(j, needsKey{m.all}, func() ([]wire.Need, error) { return needs(m) })
	s := &sizes{all, make([]wire.Cursor, len(all))}
	for i, a := range all {
		m.gathered[i] = a.Gathered
		if a.Noted {
			s.noted[i] = j.Sizes.Cursor(fmt.Sprintf("%d/%s", m.rank.ID(), m.shard.Pieces[i].Block.Name))
		}
	}
	return s, err
}

func (*sizes) begin(*Mean, *bucket, []float32) error { return nil }

func (*sizes) keep(*Mean, *checkpoint.Keeper) {}

// next is what the exchange of piece i asks for in a round.
func (s *sizes) next(m *Mean, i, round int) (wire.Ask, error) {
	switch ops := s.asks[i].Ops; {
	case s.asks[i].Noted:
		return s.noted[i].Op(m.job().Workers)
	case round < len(ops):
		return ops[round], nil
	}
	return wire.Ask{}, nil
}

func (s *sizes) perform(ctx context.Context, m *Mean, b *bucket, _ []float32, flags message.Flags) (_ message.Flags, err error) {
	now := make([]wire.Ask, b.hi-b.lo)
	for round := 0; ; round++ {
		busy := false
		for i := range now {
			if round > 0 && now[i].Kind == compress.OpNone { // its exchange is over
				continue
			}
			if now[i], err = s.next(m, b.lo+i, round); err != nil {
				return flags, err
			}
			busy = busy || now[i].Kind != compress.OpNone
		}
		if !busy {
			return flags, nil
		}
		if flags, err = m.rehearse(ctx, b, now, compress.OpMax, compress.F32, flags); err != nil {
			return flags, err
		}
		for of := range wire.Formats {
			if flags, err = m.rehearse(ctx, b, now, compress.OpSum, compress.Wire(of), flags); err != nil {
				return flags, err
			}
		}
		if flags, err = m.spread(ctx, b, now, flags); err != nil {
			return flags, err
		}
	}
}

// rehearse rehearses Mean.sums.
func (m *Mean) rehearse(ctx context.Context, b *bucket, now []wire.Ask, kind compress.OpKind, of compress.Wire, flags message.Flags) (message.Flags, error) {
	var n []int // elements, of every tensor where they are fused
	for _, a := range now {
		switch {
		case a.Kind != kind || a.Wire != of:
		case m.plan.traits().fuses || n == nil:
			n = append(n, a.N)
		default:
			n[0] += a.N
		}
	}
	return collective.RehearseAll(ctx, m.endpoint(), m.group, m.job().Topology, m.header(b, flags), n, wire.Formats[of].Width())
}

// spread rehearses gathers and scatters.
func (m *Mean) spread(ctx context.Context, b *bucket, now []wire.Ask, flags message.Flags) (_ message.Flags, err error) {
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
		if flags, err = collective.RehearseGather(ctx, m.endpoint(), m.group, m.header(b, flags), size); err != nil {
			return flags, err
		}
	}
	if to != nil {
		flags, err = collective.RehearseAllToAll(ctx, m.rank.Host(), m.group, m.header(b, flags), to)
	}
	return flags, err
}
