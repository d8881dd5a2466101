package mean

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// content is what the exchanges of a Mean are of.
type content interface {
	// begin starts the exchange of a bucket, whose part of x is there.
	begin(m *Mean, b *bucket, x []float32) error
	// perform leaves the mean over all ranks of a bucket in its place in x.
	perform(ctx context.Context, m *Mean, b *bucket, x []float32, flags message.Flags) (message.Flags, error)
	// keep keeps what it has of this rank alone.
	keep(m *Mean, k *checkpoint.Keeper)
}

// rawSums are sums of raw float32: the vector is summed where it lies.
type rawSums struct{}

func (rawSums) begin(*Mean, *bucket, []float32) error { return nil }

func (rawSums) keep(*Mean, *checkpoint.Keeper) {}

func (rawSums) perform(ctx context.Context, m *Mean, b *bucket, x []float32, flags message.Flags) (_ message.Flags, err error) {
	first, last := &m.shard.Pieces[b.lo], &m.shard.Pieces[b.hi-1]
	part := x[first.Off : last.Off+last.Len]
	if m.plan.traits().fuses {
		flags, err = m.sumAll(ctx, b, wire.Formats[compress.F32], m.tensors(b, x), flags)
	} else {
		flags, err = m.sum(ctx, b, wire.Formats[compress.F32], part, flags)
	}
	if w := m.job().Workers; err == nil && w > 1 {
		f32.Scale(part, 1/float32(w))
	}
	return flags, err
}

// coded is what codecs ask for in their exchanges.
type coded struct {
	ex    []compress.Exchange // by piece
	size  []int               // exact payload length on the gather road, −1 if it varies
	notes []*wire.Series      // by piece: what an exchange asks for that nobody knows before; nil: nowhere
}

// newCoded makes the exchanges of a Mean's codec, and tells it which of them gather.
func newCoded(m *Mean) (*coded, error) {
	c, j, rank := &coded{}, m.job(), m.rank.ID()
	for i, pc := range m.shard.Pieces {
		f := pc.Family(j.Codec)
		b := pc.Block
		b.Rank, b.World, b.Peer, b.Seed = rank, j.Workers, -1, j.Seed
		var ex compress.Exchange
		var err error
		road := compress.RoadGather
		if m.all {
			ex, err = compress.NewGather(f, b)
		} else {
			ex, road, err = compress.NewExchange(f, b)
		}
		if err != nil {
			return nil, fmt.Errorf("codec %s on %s: %w", compress.Families.Spec(f), b.Name, err)
		}
		size := -1
		if c, ok := compress.ClaimsOf(f, b); ok && c.Exact && road != compress.RoadOwn {
			size = c.Size
		}
		var note *wire.Series
		if !wire.Fixed(f, b, road) {
			note = j.Sizes.Of(fmt.Sprintf("%d/%s", rank, b.Name))
		}
		m.gathered[i] = road == compress.RoadGather
		c.ex, c.size, c.notes = append(c.ex, ex), append(c.size, size), append(c.notes, note)
	}
	return c, nil
}

func (c *coded) keep(m *Mean, k *checkpoint.Keeper) {
	for i, ex := range c.ex {
		k.State(checkpoint.Under(train.KeyUp, m.rank.ID())+m.shard.Pieces[i].Block.Name, ex)
	}
}

func (c *coded) begin(m *Mean, b *bucket, x []float32) error {
	r := m.rank
	defer r.Times().Encoded(r.Times().Start())
	p := r.Job().ProgressAt(r.Step(), r.Step()*r.Job().Workers)
	step := compress.Step{N: r.Step(), Epoch: p.Epoch, LR: m.sched(p), Seed: r.Job().Seed}
	for i := range b.ops {
		var err error
		if b.ops[i], err = c.ex[b.lo+i].Begin(m.shard.Pieces[b.lo+i].At(x, true), step); err != nil {
			return m.pieceError(b.lo+i, r.Step(), err)
		}
		c.notes[b.lo+i].NoteOp(b.ops[i])
	}
	return nil
}

// perform does what the exchanges of a bucket ask for, round by round, the like
// operations of a round fused into one collective.
func (c *coded) perform(ctx context.Context, m *Mean, b *bucket, x []float32, flags message.Flags) (_ message.Flags, err error) {
	var held []func() // payloads are read until Output
	defer func() {
		for _, release := range held {
			release()
		}
	}()
	times := m.rank.Times()
	for busy := true; busy; {
		busy = false
		if flags, err = m.sums(ctx, b, compress.OpMax, compress.F32, wire.Max{}, flags); err != nil {
			return flags, err
		}
		for of, format := range wire.Formats {
			if flags, err = m.sums(ctx, b, compress.OpSum, compress.Wire(of), format, flags); err != nil {
				return flags, err
			}
		}
		if flags, err = c.gathers(ctx, m, b, flags, &held); err != nil {
			return flags, err
		}
		if flags, err = m.scatters(ctx, b, flags, &held); err != nil {
			return flags, err
		}
		began := times.Start()
		for i := range b.ops {
			if b.ops[i].Kind == compress.OpNone {
				continue
			}
			if b.ops[i], err = c.ex[b.lo+i].Next(b.ops[i]); err != nil {
				return flags, m.pieceError(b.lo+i, b.step, err)
			}
			c.notes[b.lo+i].NoteOp(b.ops[i])
			busy = busy || b.ops[i].Kind != compress.OpNone
		}
		times.Decoded(began)
	}
	defer times.Decoded(times.Start())
	for i := b.lo; i < b.hi; i++ {
		part := m.shard.Pieces[i].At(x, true)
		f32.Fill(part, 0)
		if err := c.ex[i].Output(part, 1/float32(m.job().Workers)); err != nil {
			return flags, m.pieceError(i, b.step, err)
		}
	}
	return flags, nil
}
