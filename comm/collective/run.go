package collective

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
)

// Format writes elements to the wire and reads them back. The package knows no
// arithmetic of its own: the engine hands it float32, bfloat16 or float16.
type Format interface {
	Width() int // bytes an element
	// Put writes x to dst, len(dst) = Width·len(x), and rounds x to what was
	// written: a rank that passes a value on keeps the value it passed on.
	Put(dst []byte, x []float32)
	// Add adds what Put wrote to x; Set replaces x by it.
	Add(x []float32, src []byte)
	Set(x []float32, src []byte)
}

// Group is the set of ranks that take part, in order; Me is the index of this
// one.
type Group struct {
	Ranks []int
	Me    int
}

// Header is copied to every frame of a collective: Tag, Step, Run and so on.
// Its Flags are OR-ed along the way: the result holds every flag that any rank
// set before it began, on every rank.
//
// AllReduce sums x over the group, in place, with the plan of t. All ranks end
// with the same bits. Frames carry exactly Width bytes an element.
func AllReduce(ctx context.Context, h comm.Endpoint, g Group, t Topology, hd comm.Header, x []float32, f Format) (flags uint16, err error) {
	size := len(g.Ranks)
	flags = hd.Flags
	if size < 2 {
		return flags, nil
	}
	chunks := t.Chunks(size)
	hd.Kind = comm.Gradient
	for i, m := range t.Plan(At{Rank: g.Me, Size: size}) {
		if m.To >= 0 {
			lo, hi := Bounds(m.Send, chunks, len(x))
			buf := comm.NewBuffer((hi - lo) * f.Width())
			f.Put(buf.B, x[lo:hi])
			hd.Flags, hd.Seq = flags, uint64(i)
			if err := h.Send(ctx, g.Ranks[m.To], comm.NewFrame(hd, buf)); err != nil {
				return flags, err
			}
		}
		if m.From >= 0 {
			lo, hi := Bounds(m.Recv, chunks, len(x))
			in, err := h.Recv(ctx, g.Ranks[m.From], hd.Tag)
			if err != nil {
				return flags, fmt.Errorf("all-reduce, step %d, move %d: %w", hd.Step, i, err)
			}
			if err := expect(in, hd, (hi-lo)*f.Width()); err != nil {
				in.Release()
				return flags, fmt.Errorf("all-reduce, step %d, move %d: %w", hd.Step, i, err)
			}
			flags |= in.Header.Flags
			if m.Add {
				f.Add(x[lo:hi], in.Body)
			} else {
				f.Set(x[lo:hi], in.Body)
			}
			in.Release()
		}
	}
	return flags, nil
}

// expect checks that a frame belongs to this step and has the length agreed.
func expect(in comm.Frame, hd comm.Header, size int) error {
	if in.Header.Step != hd.Step || in.Header.Run != hd.Run {
		return fmt.Errorf("rank %d is at step %d of run %x, this rank at step %d of run %x",
			in.Header.From, in.Header.Step, in.Header.Run, hd.Step, hd.Run)
	}
	if size >= 0 && len(in.Body) != size {
		return fmt.Errorf("rank %d sent %d bytes, want %d", in.Header.From, len(in.Body), size)
	}
	return nil
}

// AllGather gives every rank every rank's payload, in rank order, around a
// ring: P−1 steps, each payload crosses P−1 links. Payloads may differ in
// length. The result aliases received frames until release is called; the
// own payload is passed through.
func AllGather(ctx context.Context, h comm.Endpoint, g Group, hd comm.Header, own *comm.Buffer) (parts [][]byte, flags uint16, release func(), err error) {
	size := len(g.Ranks)
	flags = hd.Flags
	parts = make([][]byte, size)
	parts[g.Me] = own.B
	held := []*comm.Buffer{own}
	release = func() {
		for _, b := range held {
			b.Release()
		}
	}
	hd.Kind = comm.Gradient
	pass := own
	next, prev := g.Ranks[(g.Me+1)%size], g.Ranks[(g.Me+size-1)%size]
	for s := 0; s < size-1; s++ {
		hd.Flags, hd.Seq = flags, uint64(s)
		if err := h.Send(ctx, next, comm.NewFrame(hd, pass.Retain())); err != nil {
			return nil, flags, release, err
		}
		in, err := h.Recv(ctx, prev, hd.Tag)
		if err != nil {
			return nil, flags, release, fmt.Errorf("all-gather, step %d, move %d: %w", hd.Step, s, err)
		}
		if err := expect(in, hd, -1); err != nil {
			in.Release()
			return nil, flags, release, fmt.Errorf("all-gather, step %d, move %d: %w", hd.Step, s, err)
		}
		flags |= in.Header.Flags
		pass = in.Buffer()
		held = append(held, pass)
		parts[(g.Me+size-1-s)%size] = in.Body
	}
	return parts, flags, release, nil
}
