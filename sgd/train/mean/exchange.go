package mean

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// streaming is an endpoint with its way to stream, which collectives need not
// look for each time.
type streaming struct {
	comm.Endpoint
	comm.Streamer
}

// Unwrap implements comm.Wrapper.
func (s streaming) Unwrap() comm.Endpoint { return s.Endpoint }

// bucket is a run of pieces that are exchanged together.
type bucket struct {
	lo, hi int           // pieces [lo, hi)
	index  int           // of its collectives
	step   int           // of the exchange
	ops    []compress.Op // of these pieces
	fused  []float32
}

// cut makes the buckets: one of everything, or, when the exchange overlaps the
// backward pass, runs of pieces of about Bucket bytes from the last layer on.
func (r *reducer) cut() {
	limit := r.course.limit()
	if limit == 0 {
		limit = math.MaxInt
	}
	r.ops = make([]compress.Op, len(r.shard.Pieces))
	hi, bytes := len(r.ops), 0
	for i := hi - 1; i >= 0; i-- {
		if bytes += 4 * r.shard.Pieces[i].Len; bytes >= limit || i == 0 {
			r.buckets = append(r.buckets, bucket{lo: i, hi: hi, index: len(r.buckets), ops: r.ops[i:hi]})
			hi, bytes = i, 0
		}
	}
}

// exchange performs the exchange of a bucket of a step and decodes it, which takes virtual time: of everybody's
// payloads, where they are gathered, which begin with a call a tensor.
func (r *reducer) exchange(ctx context.Context, b *bucket, step int, flags message.Flags) (message.Flags, error) {
	b.step = step
	r.count(b)
	if err := train.Elapse(ctx, r.Host(), r.calls(b)); err != nil {
		return flags, err
	}
	flags, err := r.content.perform(ctx, b, flags)
	if err != nil {
		return flags, err
	}
	return flags, r.Times().Decoding(ctx, r.tariff.Decode(b.lo, b.hi))
}

// calls is what the calls of a bucket's gathers take.
func (r *reducer) calls(b *bucket) time.Duration {
	if r.Job().Timing.Call == 0 {
		return 0
	}
	n := 0
	for i := b.lo; i < b.hi; i++ {
		if r.gathered[i] {
			n++
		}
	}
	return r.Job().Timing.Calls(n, r.Job().Workers)
}

// part is a bucket's part of the gradient.
func (r *reducer) part(b *bucket) []float32 {
	s := r.stretch(b)
	return r.grad[s.Lo:s.Hi]
}

// stretch is where a bucket's part of a vector lies.
func (r *reducer) stretch(b *bucket) sgd.Range {
	last := &r.shard.Pieces[b.hi-1]
	return sgd.Range{Lo: r.shard.Pieces[b.lo].Off, Hi: last.Off + last.Len}
}

// tensors are a bucket's parts of the gradient, piece by piece.
func (r *reducer) tensors(b *bucket) (xs [][]float32) {
	for i := b.lo; i < b.hi; i++ {
		xs = append(xs, r.shard.Pieces[i].At(r.grad, true))
	}
	return xs
}

// header of the collectives of a bucket.
func (r *reducer) header(b *bucket, flags message.Flags) comm.Header {
	return onReduce.Of(b.index).Header(r.Job(), message.Count{N: b.step}, flags)
}

// sums runs all sums, or maxima, of one wire format as one all-reduce.
func (r *reducer) sums(ctx context.Context, b *bucket, kind compress.OpKind, of compress.Wire, format collective.Format, flags message.Flags) (message.Flags, error) {
	n, only := 0, []float32(nil)
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == kind && op.Wire == of {
			n, only = n+1, op.Floats
		}
	}
	switch {
	case n == 0 || r.Job().Workers == 1:
		return flags, nil
	case n == 1:
		return r.sum(ctx, b, format, only, flags)
	case fuses(r.Job()):
		var xs [][]float32
		for i := range b.ops {
			if op := &b.ops[i]; op.Kind == kind && op.Wire == of {
				xs = append(xs, op.Floats)
			}
		}
		return r.sumAll(ctx, b, format, xs, flags)
	}
	b.fused = b.fused[:0]
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == kind && op.Wire == of {
			b.fused = append(b.fused, op.Floats...)
		}
	}
	flags, err := r.sum(ctx, b, format, b.fused, flags)
	if err != nil {
		return flags, err
	}
	at := 0
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == kind && op.Wire == of {
			at += copy(op.Floats, b.fused[at:at+len(op.Floats)])
		}
	}
	return flags, nil
}

// sum folds x over all ranks, in place.
func (r *reducer) sum(ctx context.Context, b *bucket, format collective.Format, x []float32, flags message.Flags) (message.Flags, error) {
	return collective.AllReduce(ctx, r.net, r.group, r.Job().Topology, r.header(b, flags), x, format)
}

// sumAll folds each of xs over all ranks, in place, in the frames of one.
func (r *reducer) sumAll(ctx context.Context, b *bucket, format collective.Format, xs [][]float32, flags message.Flags) (message.Flags, error) {
	return collective.AllReduceAll(ctx, r.net, r.group, r.Job().Topology, r.header(b, flags), xs, format)
}

// gathers runs all gathers of a round as one.
func (r *reducer) gathers(ctx context.Context, b *bucket, flags message.Flags, held *[]func()) (message.Flags, error) {
	n := 0
	for i := range b.ops {
		if b.ops[i].Kind == compress.OpGather {
			n += len(b.ops[i].Bytes) + binary.MaxVarintLen32
		}
	}
	if n == 0 {
		return flags, nil
	}
	own := comm.NewBuffer(n)
	own.B = own.B[:0]
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == compress.OpGather {
			if size := r.size[b.lo+i]; size < 0 {
				own.B = binary.AppendUvarint(own.B, uint64(len(op.Bytes)))
			} else if size != len(op.Bytes) {
				own.Release()
				return flags, fmt.Errorf("%s: codec wrote %d bytes, it claims %d exactly", r.shard.Pieces[b.lo+i].Block.Name, len(op.Bytes), size)
			}
			own.B = append(own.B, op.Bytes...)
		}
	}
	parts, flags, release, err := collective.AllGather(ctx, r.net, r.group, r.header(b, flags), own)
	*held = append(*held, release)
	if err != nil {
		return flags, err
	}
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == compress.OpGather {
			op.Parts = append(op.Parts[:0], make([][]byte, r.Job().Workers)...)
			for rank := range parts {
				size := r.size[b.lo+i]
				if size < 0 {
					l, w := binary.Uvarint(parts[rank])
					if w <= 0 || l > uint64(len(parts[rank])-w) {
						return flags, fmt.Errorf("payload of rank %d: %w", rank, compress.ErrCorrupt)
					}
					parts[rank], size = parts[rank][w:], int(l)
				}
				if size > len(parts[rank]) {
					return flags, fmt.Errorf("payload of rank %d: %w", rank, compress.ErrCorrupt)
				}
				op.Parts[rank], parts[rank] = parts[rank][:size], parts[rank][size:]
			}
		}
	}
	return flags, nil
}

// scatters runs all all-to-alls of a round as one: to each rank the slices that
// are for it, every one behind its length.
func (r *reducer) scatters(ctx context.Context, b *bucket, flags message.Flags, held *[]func()) (message.Flags, error) {
	var ops []*compress.Op
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == compress.OpScatter {
			ops = append(ops, op)
		}
	}
	if len(ops) == 0 {
		return flags, nil
	}
	out := make([]*comm.Buffer, r.Job().Workers)
	for to := range out {
		n := 0
		for _, op := range ops {
			n += len(op.Slices[to]) + binary.MaxVarintLen32
		}
		out[to] = comm.NewBuffer(n)
		out[to].B = out[to].B[:0]
		for _, op := range ops {
			out[to].B = binary.AppendUvarint(out[to].B, uint64(len(op.Slices[to])))
			out[to].B = append(out[to].B, op.Slices[to]...)
		}
	}
	parts, flags, release, err := collective.AllToAll(ctx, r.Host(), r.group, r.header(b, flags), out)
	*held = append(*held, release)
	if err != nil {
		return flags, err
	}
	for _, op := range ops {
		op.Parts = append(op.Parts[:0], make([][]byte, r.Job().Workers)...)
		for rank := range parts {
			n, w := binary.Uvarint(parts[rank])
			if w <= 0 || n > uint64(len(parts[rank])-w) {
				return flags, fmt.Errorf("slice of rank %d: %w", rank, compress.ErrCorrupt)
			}
			op.Parts[rank], parts[rank] = parts[rank][w:w+int(n)], parts[rank][w+int(n):]
		}
	}
	return flags, nil
}

// count counts what this rank would have sent in the exchange of a bucket.
func (r *reducer) count(b *bucket) {
	k := [2]int{b.lo, b.hi}
	sum, ok := r.counts[k]
	if !ok {
		pt := r.shard.Part(b.lo, b.hi)
		if r.all { // everybody gets everybody's payload
			raw, bf16 := pt.Plain()
			sum = [2]int{(r.Job().Workers - 1) * raw, (r.Job().Workers - 1) * bf16}
		} else {
			sum = [2]int{r.moves(pt.Size, 4), r.moves(pt.Size-pt.Exact, 2) + r.moves(pt.Exact, 4)}
		}
		r.counts[k] = sum
	}
	n := max(1, r.steps)
	r.Host().Traffic().Plain(n*sum[0], n*sum[1])
}

// moves is the bytes that this rank sends in an all-reduce of n elements.
func (r *reducer) moves(n, width int) (bytes int) {
	if n == 0 || r.Job().Workers == 1 || r.Job().Topology == nil { // which codecs that are gathered do without
		return 0
	}
	p := r.Job().Topology.Plan(collective.At{Rank: r.ID(), Size: r.Job().Workers, Bytes: n * width, Node: r.Job().Node})
	for _, m := range p.Moves {
		if m.To >= 0 {
			lo, hi := collective.Bounds(m.Send, p.Chunks, n)
			bytes += (hi - lo) * width
		}
	}
	return bytes
}
