package collective

import (
	"context"
	"sync"

	"github.com/gradlab/gradlab/comm"
)

// Tensor fusion (Horovod: Sergeev and Del Balso 2018): several vectors travel in
// the frames of one. Each is cut into the plan's chunks by itself, and a chunk of
// the whole is the chunks of all of them, one behind the other. So an element is
// in the chunk that it would be in alone, its terms are added in the same order,
// and what was fused with what leaves no trace in the bits. (With a topology whose
// plan depends on the length, auto or one that chooses its number of chunks, it
// does: the plan is that of the whole.)

// AllReduceAll is AllReduce of each of xs, as one. It copies them twice. A net that sums
// by itself does one after the other.
func AllReduceAll(ctx context.Context, h comm.Endpoint, g Group, t Topology, hd comm.Header, xs [][]float32, f Format) (flags comm.Flags, err error) {
	switch {
	case len(g.Ranks) < 2 || len(xs) == 0:
		return hd.Flags, nil
	case len(xs) == 1:
		return AllReduce(ctx, h, g, t, hd, xs[0], f)
	}
	if flags, done, err := nativeAll(ctx, h, g, t, hd, xs, f); done {
		return flags, err
	}
	fu := fusions.Get().(*fusion)
	fu.sizes = fu.sizes[:0]
	for _, x := range xs {
		fu.sizes = append(fu.sizes, len(x))
	}
	p := fu.plan(t, g, f.Width())
	fu.copy(xs, func(whole, part []float32) { copy(whole, part) })
	if flags, err = execute(ctx, h, g, p, hd, fu.whole, f); err != nil {
		return flags, err // fu is left to late frames
	}
	fu.copy(xs, func(whole, part []float32) { copy(part, whole) })
	fusions.Put(fu)
	return flags, nil
}

// RehearseAll is AllReduceAll of vectors of so many elements of width bytes,
// without the elements.
func RehearseAll(ctx context.Context, h comm.Endpoint, g Group, t Topology, hd comm.Header, sizes []int, width int) (flags comm.Flags, err error) {
	switch {
	case len(g.Ranks) < 2 || len(sizes) == 0:
		return hd.Flags, nil
	case len(sizes) == 1:
		return Rehearse(ctx, h, g, t, hd, sizes[0], width)
	}
	fu := &fusion{sizes: sizes}
	return rehearse(ctx, h, g, fu.plan(t, g, width), hd, width)
}

// fusion is several vectors as one.
type fusion struct {
	sizes []int
	begin []int // where each chunk of the whole does, and its end
	whole []float32
}

var fusions = sync.Pool{New: func() any { return new(fusion) }}

// plan makes the program for the whole.
func (fu *fusion) plan(t Topology, g Group, width int) *program {
	n := 0
	for _, size := range fu.sizes {
		n += size
	}
	plan := t.Plan(g.at(n * width))
	fu.begin = fu.begin[:0]
	longest := 0
	for c := range plan.Chunks + 1 {
		at := 0
		for _, size := range fu.sizes {
			begin, _ := Bounds(Range{c, c}, plan.Chunks, size)
			at += begin
		}
		fu.begin = append(fu.begin, at)
		if c > 0 {
			longest = max(longest, at-fu.begin[c-1])
		}
	}
	return cutAt(plan, func(chunk int) int { return fu.begin[chunk] }, longest, pieceBytes/width)
}

// copy calls move for each chunk of each vector and its place in the whole.
func (fu *fusion) copy(xs [][]float32, move func(whole, part []float32)) {
	chunks := len(fu.begin) - 1
	n := fu.begin[chunks]
	if cap(fu.whole) < n {
		fu.whole = make([]float32, n)
	}
	fu.whole = fu.whole[:n]
	at := 0
	for c := range chunks {
		for _, x := range xs {
			lo, hi := Bounds(Range{c, c + 1}, chunks, len(x))
			move(fu.whole[at:at+hi-lo], x[lo:hi])
			at += hi - lo
		}
	}
}
