package nn

import "github.com/gradlab/gradlab/sgd"

// op is the arithmetic of a layer, in one Scratch. forward fills y from x (x
// and y are the same slice when the layer runs in place). backward sets the
// gradients of the layer's spans and, unless dx is nil, fills dx from dy (the
// same slice when in place). x and y of the forward pass are still intact.
type op[T Float] interface {
	forward(r *run[T], x, y []T)
	backward(r *run[T], x, y, dy, dx []T)
}

// block is a piece of a net in one Scratch.
//
// backward reads dy; with own it also takes it over, to write over or return
// to the run. It returns the gradient of the input, owned by the caller, or
// nil if the caller does not want it.
type block[T Float] interface {
	forward(r *run[T], x []T) (y []T, err error)
	backward(r *run[T], dy []T, own, want bool) (dx []T, err error)
}

// leafInfo is what is known of a layer with an op once it is bound.
type leafInfo struct {
	in, out     sgd.Shape
	spans       []int
	elementwise bool // dx and y may take the place of dy and x
	keepsOut    bool // backward reads y
	inPlace     bool
}

// leaf runs an op: it finds memory for it and calls Need and Ready around it.
type leaf[T Float] struct {
	leafInfo
	op   op[T]
	x, y []T
	buf  []T
}

func (l *leaf[T]) forward(r *run[T], x []T) ([]T, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	if r.need != nil {
		for _, s := range l.spans {
			if err := r.need(s); err != nil {
				return nil, err
			}
		}
	}
	l.x, l.y = x, x
	if !l.inPlace {
		l.y = grow(&l.buf, r.n*l.out.Len())
	}
	l.op.forward(r, l.x, l.y)
	return l.y, nil
}

func (l *leaf[T]) backward(r *run[T], dy []T, own, want bool) ([]T, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	var dx []T
	over := want && own && l.elementwise
	switch {
	case over:
		dx = dy
	case want:
		dx = r.take(r.n * l.in.Len())
	}
	l.op.backward(r, l.x, l.y, dy, dx)
	if own && !over {
		r.put(dy)
	}
	if r.ready != nil {
		for i := len(l.spans) - 1; i >= 0; i-- {
			if err := r.ready(l.spans[i]); err != nil {
				return nil, err
			}
		}
	}
	return dx, nil
}

// chain runs blocks in order.
type chain[T Float] struct{ blocks []block[T] }

func newChain[T Float](mods []module) *chain[T] {
	c := &chain[T]{}
	for _, m := range mods {
		c.blocks = append(c.blocks, instance[T](m))
	}
	return c
}

func (c *chain[T]) forward(r *run[T], x []T) (y []T, err error) {
	for _, b := range c.blocks {
		if x, err = b.forward(r, x); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (c *chain[T]) backward(r *run[T], dy []T, own, want bool) (dx []T, err error) {
	for i := len(c.blocks) - 1; i >= 0; i-- {
		if dy, err = c.blocks[i].backward(r, dy, own, want || i > 0); err != nil {
			return nil, err
		}
		own = true
	}
	return dy, nil
}
