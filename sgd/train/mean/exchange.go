package mean

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
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

// endpoint is what collectives run on.
func (m *Mean) endpoint() comm.Endpoint {
	if h := m.rank.Host(); m.host != h {
		m.host, m.net = h, streaming{h, comm.Streaming(h)}
	}
	return m.net
}

// exchange performs the exchange of a bucket of x, which was begun, and decodes it, which takes virtual time: of
// everybody's payloads, where they are gathered, which begin with a call a tensor.
func (m *Mean) exchange(ctx context.Context, b *bucket, x []float32, step, steps int, flags message.Flags) (message.Flags, error) {
	b.step = step
	m.count(b, steps)
	if err := train.Elapse(ctx, m.rank.Host(), m.calls(b)); err != nil {
		return flags, err
	}
	flags, err := m.content.perform(ctx, m, b, x, flags)
	if err != nil {
		return flags, err
	}
	return flags, m.rank.Times().Decoding(ctx, m.tariff.Decode(b.lo, b.hi))
}

// calls is what the calls of a bucket's gathers take.
func (m *Mean) calls(b *bucket) time.Duration {
	if m.job().Timing.Call == 0 {
		return 0
	}
	n := 0
	for i := b.lo; i < b.hi; i++ {
		if m.gathered[i] {
			n++
		}
	}
	return m.job().Timing.Calls(n, m.job().Workers)
}

// tensors are a bucket's parts of x, piece by piece.
func (m *Mean) tensors(b *bucket, x []float32) (xs [][]float32) {
	for i := b.lo; i < b.hi; i++ {
		xs = append(xs, m.shard.Pieces[i].At(x, true))
	}
	return xs
}

// header of the collectives of a bucket.
func (m *Mean) header(b *bucket, flags message.Flags) comm.Header {
	return onReduce.Of(b.index).Header(m.job(), message.Count{N: b.step}, flags)
}

// sums runs all sums, or maxima, of one wire format as one all-reduce.
func (m *Mean) sums(ctx context.Context, b *bucket, kind compress.OpKind, of compress.Wire, format collective.Format, flags message.Flags) (message.Flags, error) {
	n, only := 0, []float32(nil)
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == kind && op.Wire == of {
			n, only = n+1, op.Floats
		}
	}
	switch {
	case n == 0 || m.job().Workers == 1:
		return flags, nil
	case n == 1:
		return m.sum(ctx, b, format, only, flags)
	case m.plan.traits().fuses:
		var xs [][]float32
		for i := range b.ops {
			if op := &b.ops[i]; op.Kind == kind && op.Wire == of {
				xs = append(xs, op.Floats)
			}
		}
		return m.sumAll(ctx, b, format, xs, flags)
	}
	b.fused = b.fused[:0]
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == kind && op.Wire == of {
			b.fused = append(b.fused, op.Floats...)
		}
	}
	flags, err := m.sum(ctx, b, format, b.fused, flags)
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
func (m *Mean) sum(ctx context.Context, b *bucket, format collective.Format, x []float32, flags message.Flags) (message.Flags, error) {
	return collective.AllReduce(ctx, m.endpoint(), m.group, m.job().Topology, m.header(b, flags), x, format)
}

// sumAll folds each of xs over all ranks, in place, in the frames of one.
func (m *Mean) sumAll(ctx context.Context, b *bucket, format collective.Format, xs [][]float32, flags message.Flags) (message.Flags, error) {
	return collective.AllReduceAll(ctx, m.endpoint(), m.group, m.job().Topology, m.header(b, flags), xs, format)
}

// gathers runs all gathers of a round as one.
func (c *coded) gathers(ctx context.Context, m *Mean, b *bucket, flags message.Flags, held *[]func()) (message.Flags, error) {
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
			if size := c.size[b.lo+i]; size < 0 {
				own.B = binary.AppendUvarint(own.B, uint64(len(op.Bytes)))
			} else if size != len(op.Bytes) {
				own.Release()
				return flags, fmt.Errorf("%s: codec wrote %d bytes, it claims %d exactly", m.shard.Pieces[b.lo+i].Block.Name, len(op.Bytes), size)
			}
			own.B = append(own.B, op.Bytes...)
		}
	}
	parts, flags, release, err := collective.AllGather(ctx, m.endpoint(), m.group, m.header(b, flags), own)
	*held = append(*held, release)
	if err != nil {
		return flags, err
	}
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == compress.OpGather {
			op.Parts = append(op.Parts[:0], make([][]byte, m.job().Workers)...)
			for rank := range parts {
				size := c.size[b.lo+i]
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
func (m *Mean) scatters(ctx context.Context, b *bucket, flags message.Flags, held *[]func()) (message.Flags, error) {
	var ops []*compress.Op
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == compress.OpScatter {
			ops = append(ops, op)
		}
	}
	if len(ops) == 0 {
		return flags, nil
	}
	out := make([]*comm.Buffer, m.job().Workers)
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
	parts, flags, release, err := collective.AllToAll(ctx, m.rank.Host(), m.group, m.header(b, flags), out)
	*held = append(*held, release)
	if err != nil {
		return flags, err
	}
	for _, op := range ops {
		op.Parts = append(op.Parts[:0], make([][]byte, m.job().Workers)...)
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

// count counts what this rank would have sent in so many exchanges of a bucket.
func (m *Mean) count(b *bucket, steps int) {
	k := [2]int{b.lo, b.hi}
	sum, ok := m.counts[k]
	if !ok {
		pt := m.shard.Part(b.lo, b.hi)
		if m.all { // everybody gets everybody's payload
			raw, bf16 := pt.Plain()
			sum = [2]int{(m.job().Workers - 1) * raw, (m.job().Workers - 1) * bf16}
		} else {
			sum = [2]int{m.moves(pt.Size, 4), m.moves(pt.Size-pt.Exact, 2) + m.moves(pt.Exact, 4)}
		}
		m.counts[k] = sum
	}
	m.rank.Host().Traffic().Plain(steps*sum[0], steps*sum[1])
}

// moves is the bytes that this rank sends in an all-reduce of n elements.
func (m *Mean) moves(n, width int) (bytes int) {
	if n == 0 || m.job().Workers == 1 || m.job().Topology == nil { // which codecs that are gathered do without
		return 0
	}
	p := m.job().Topology.Plan(collective.At{Rank: m.rank.ID(), Size: m.job().Workers, Bytes: n * width, Node: m.job().Node})
	for _, mv := range p.Moves {
		if mv.To >= 0 {
			lo, hi := collective.Bounds(mv.Send, p.Chunks, n)
			bytes += (hi - lo) * width
		}
	}
	return bytes
}
