package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// Residual adds a shortcut to a body: y = body(x) + shortcut(x) (He et al.
// 2015). Without Shortcut it is the identity; where the body has more channels
// or a coarser grid, option A of that paper: every stride-th pixel, and zeros
// for the channels behind the input's. The activation after the sum is a layer
// of its own.
type Residual struct {
	Body     Sequential
	Shortcut Sequential // a projection, nil for the identity
}

func (l Residual) bind(b *builder, in sgd.Shape) (module, error) {
	name := b.name("residual")
	b.fresh = false // both branches read the input
	body, err := l.Body.bind(b, in)
	if err != nil {
		return module{}, fmt.Errorf("%w (body of %s)", err, name)
	}
	g := residualGeometry{in: in, out: body.out, separate: body.keepsOut}
	var side module
	if l.Shortcut != nil {
		b.fresh = false
		if side, err = l.Shortcut.bind(b, in); err != nil {
			return module{}, fmt.Errorf("%w (shortcut of %s)", err, name)
		}
		g.projected = true
		if side.out != body.out {
			return module{}, fmt.Errorf("nn: %s adds a body of %v to a shortcut of %v", name, body.out, side.out)
		}
	} else if g.stride = (in.H + body.out.H - 1) / body.out.H; g.stride < 1 || in.C > body.out.C ||
		(in.H+g.stride-1)/g.stride != body.out.H || (in.W+g.stride-1)/g.stride != body.out.W {
		return module{}, fmt.Errorf("nn: %s has no identity from %v to %v; give it a shortcut", name, in, body.out)
	}
	b.fresh = true
	return module{
		in: in, out: body.out,
		f32: func() block[float32] { return newResidual[float32](g, body, side) },
		f64: func() block[float64] { return newResidual[float64](g, body, side) },
	}, nil
}

type residualGeometry struct {
	in, out   sgd.Shape
	projected bool
	stride    int  // of the identity
	separate  bool // the body's output must survive
}

type residual[T Float] struct {
	residualGeometry
	body, side block[T]
	n          int // samples of the pass
	a, b       []T
	buf        []T

	addImage, identityImage, backImage func(i, slot int)
}

func newResidual[T Float](g residualGeometry, body, side module) *residual[T] {
	o := &residual[T]{residualGeometry: g, body: instance[T](body)}
	if g.projected {
		o.side = instance[T](side)
	}
	o.addImage, o.identityImage, o.backImage = o.doAdd, o.doIdentity, o.doBack
	return o
}

func (o *residual[T]) forward(r *run[T], x []T) ([]T, error) {
	o.n = r.n
	a, err := o.body.forward(r, x)
	if err != nil {
		return nil, err
	}
	if o.separate {
		copy(grow(&o.buf, len(a)), a)
		a = o.buf
	}
	if !o.projected {
		o.a, o.b = a, x
		r.each(r.n, len(a), o.identityImage)
		return a, nil
	}
	b, err := o.side.forward(r, x)
	if err != nil {
		return nil, err
	}
	o.a, o.b = a, b
	r.each(r.n, len(a), o.addImage)
	return a, nil
}

func (o *residual[T]) backward(r *run[T], dy []T, own, want bool) (dx []T, err error) {
	var side []T
	if o.projected {
		if side, err = o.side.backward(r, dy, false, want); err != nil {
			return nil, err
		}
	}
	if dx, err = o.body.backward(r, dy, false, want); err != nil {
		return nil, err
	}
	if want {
		if o.projected {
			o.a, o.b = dx, side
			r.each(r.n, len(dx), o.addImage)
			r.put(side)
		} else {
			o.a, o.b = dx, dy
			r.each(r.n, len(dx), o.backImage)
		}
	}
	if own {
		r.put(dy)
	}
	return dx, nil
}

// doAdd adds sample s of b to a, both of one size.
func (o *residual[T]) doAdd(s, _ int) {
	size := len(o.a) / o.n
	addTo(o.a[s*size:(s+1)*size], o.b[s*size:(s+1)*size])
}

// doIdentity adds the strided image s of the input b to a.
func (o *residual[T]) doIdentity(s, _ int) {
	y, x := o.a[s*o.out.Len():(s+1)*o.out.Len()], o.b[s*o.in.Len():(s+1)*o.in.Len()]
	if o.stride == 1 {
		addTo(y[:len(x)], x)
		return
	}
	i := 0
	for c := range o.in.C {
		for h := 0; h < o.in.H; h += o.stride {
			row := x[(c*o.in.H+h)*o.in.W : (c*o.in.H+h+1)*o.in.W]
			for w := 0; w < o.in.W; w += o.stride {
				y[i] += row[w]
				i++
			}
		}
	}
}

// doBack is the transpose: it adds image s of dy, b, to the strided dx, a.
func (o *residual[T]) doBack(s, _ int) {
	dx, dy := o.a[s*o.in.Len():(s+1)*o.in.Len()], o.b[s*o.out.Len():(s+1)*o.out.Len()]
	if o.stride == 1 {
		addTo(dx, dy[:len(dx)])
		return
	}
	i := 0
	for c := range o.in.C {
		for h := 0; h < o.in.H; h += o.stride {
			row := dx[(c*o.in.H+h)*o.in.W : (c*o.in.H+h+1)*o.in.W]
			for w := 0; w < o.in.W; w += o.stride {
				row[w] += dy[i]
				i++
			}
		}
	}
}
