package mean

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// content is what the exchanges of a step are of.
type content interface {
	// begin starts the exchanges of bucket k, whose gradient is there.
	begin(k int) error
	// perform leaves the mean over all ranks of a bucket in the gradient's place.
	perform(ctx context.Context, b *bucket, flags message.Flags) (message.Flags, error)
}

// rawSums are sums of raw float32: the gradient is summed where it lies.
type rawSums struct{ *reducer }

func (rawSums) begin(int) error { return nil }

func (r rawSums) perform(ctx context.Context, b *bucket, flags message.Flags) (_ message.Flags, err error) {
	g := r.part(b)
	if fuses(r.Job()) {
		flags, err = r.sumAll(ctx, b, wire.Formats[compress.F32], r.tensors(b), flags)
	} else {
		flags, err = r.sum(ctx, b, wire.Formats[compress.F32], g, flags)
	}
	if err == nil && r.Job().Workers > 1 {
		f32.Scale(g, 1/float32(r.Job().Workers))
	}
	return flags, err
}

// coded is what codecs ask for in their exchanges.
type coded struct{ *reducer }

// begin starts the exchanges of a bucket.
func (r coded) begin(k int) error {
	defer r.Times().Encoded(r.Times().Start())
	b := &r.buckets[k]
	p := r.Job().ProgressAt(r.Step(), r.Step()*r.Job().Workers)
	step := compress.Step{N: r.Step(), Epoch: p.Epoch, LR: r.sched(p), Seed: r.Job().Seed}
	for i := range b.ops {
		pc := &r.shard.Pieces[b.lo+i]
		var err error
		if b.ops[i], err = r.ex[b.lo+i].Begin(pc.At(r.grad, true), step); err != nil {
			return fmt.Errorf("worker %d, step %d, %s: %w", r.ID(), r.Step(), pc.Block.Name, err)
		}
		r.notes[b.lo+i].NoteOp(b.ops[i])
	}
	return nil
}

// perform does what the exchanges of a bucket ask for, round by round, the
// like operations of a round fused into one collective; then it leaves the mean
// over all ranks in grad.
func (r coded) perform(ctx context.Context, b *bucket, flags message.Flags) (_ message.Flags, err error) {
	var held []func() // payloads are read until Output
	defer func() {
		for _, release := range held {
			release()
		}
	}()
	for busy := true; busy; {
		busy = false
		if flags, err = r.sums(ctx, b, compress.OpMax, compress.F32, wire.Max{}, flags); err != nil {
			return flags, err
		}
		for of, format := range wire.Formats {
			if flags, err = r.sums(ctx, b, compress.OpSum, compress.Wire(of), format, flags); err != nil {
				return flags, err
			}
		}
		if flags, err = r.gathers(ctx, b, flags, &held); err != nil {
			return flags, err
		}
		if flags, err = r.scatters(ctx, b, flags, &held); err != nil {
			return flags, err
		}
		began := r.Times().Start()
		for i := range b.ops {
			if b.ops[i].Kind == compress.OpNone {
				continue
			}
			if b.ops[i], err = r.ex[b.lo+i].Next(b.ops[i]); err != nil {
				return flags, fmt.Errorf("worker %d, step %d, %s: %w", r.ID(), b.step, r.shard.Pieces[b.lo+i].Block.Name, err)
			}
			r.notes[b.lo+i].NoteOp(b.ops[i])
			busy = busy || b.ops[i].Kind != compress.OpNone
		}
		r.Times().Decoded(began)
	}
	defer r.Times().Decoded(r.Times().Start())
	for i := b.lo; i < b.hi; i++ {
		g := r.shard.Pieces[i].At(r.grad, true)
		f32.Fill(g, 0)
		if err := r.ex[i].Output(g, 1/float32(r.Job().Workers)); err != nil {
			return flags, fmt.Errorf("worker %d, step %d, %s: %w", r.ID(), b.step, r.shard.Pieces[i].Block.Name, err)
		}
	}
	return flags, nil
}
