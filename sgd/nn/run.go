package nn

import (
	"context"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

const (
	maxSlots  = 64      // goroutines a pass uses at most
	smallWork = 1 << 15 // elements below which starting helpers does not pay
)

// run is a pass in progress: its inputs, its callbacks and the memory layers
// share. It belongs to one Scratch.
type run[T Float] struct {
	ctx          context.Context
	layout       *sgd.Layout
	params, grad []T
	need, ready  func(span int) error

	train       bool
	n           int // samples
	first, seed uint64

	team    team
	workers int
	work    [maxSlots][]T // per goroutine: columns, planes

	width     int // values of the widest activation of one sample
	all, free [][]T
}

// begin prepares for a pass over n samples.
func (r *run[T]) begin(n int) {
	r.n = n
	r.workers = min(f32.Threads(), maxSlots)
	if len(r.all) > 0 && cap(r.all[0]) < n*r.width {
		r.all = r.all[:0]
	}
	r.free = append(r.free[:0], r.all...)
}

// take lends a buffer of size values for a gradient; put returns it. A pass
// holds two or three at a time.
func (r *run[T]) take(size int) []T {
	if len(r.free) == 0 {
		b := make([]T, r.n*r.width)
		r.all = append(r.all, b)
		r.free = append(r.free, b)
	}
	last := len(r.free) - 1
	b := r.free[last]
	r.free = r.free[:last]
	return b[:size]
}

func (r *run[T]) put(b []T) { r.free = append(r.free, b[:cap(b)]) }

// each runs fn over pieces; cost is the number of elements touched in all.
func (r *run[T]) each(pieces, cost int, fn func(piece, slot int)) {
	workers := r.workers
	if cost < smallWork {
		workers = 1
	}
	r.team.run(pieces, workers, fn)
}

// reserve makes room for size values of workspace per goroutine.
func (r *run[T]) reserve(size int) {
	for s := range r.workers {
		if len(r.work[s]) < size {
			r.work[s] = make([]T, size)
		}
	}
}

func (r *run[T]) param(span int) []T {
	s := r.layout.Spans[span]
	return r.params[s.Off:s.End():s.End()]
}

func (r *run[T]) gradient(span int) []T {
	s := r.layout.Spans[span]
	return r.grad[s.Off:s.End():s.End()]
}
