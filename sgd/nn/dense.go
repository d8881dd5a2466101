package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// Dense is a fully connected layer on the flattened sample:
//
//	Y = X·Wᵀ + 1·bᵀ,  dX = dY·W,  dW = dYᵀ·X,  db = dYᵀ·1
//
// with X of N×in, Y of N×Out, and W of Out×in stored one output a row.
type Dense struct {
	Out  int
	Init Init // nil is He
}

func (l Dense) bind(b *builder, in sgd.Shape) (module, error) {
	name := b.name("dense")
	if l.Out < 1 {
		return module{}, fmt.Errorf("nn: %s needs at least one output, not %d", name, l.Out)
	}
	n := in.Len()
	w := b.claim(name+".weight", sgd.Weight, l.Out, n, l.Init.fans(n, l.Out), 2*float64(n)*float64(l.Out))
	c := b.claim(name+".bias", sgd.Bias, 1, l.Out, constant(0), 0)
	return b.leaf(
		leafInfo{in: in, out: sgd.Shape{C: 1, H: 1, W: l.Out}, spans: []int{w, c}},
		func() op[float32] { return dense[float32]{n, l.Out, w, c} },
		func() op[float64] { return dense[float64]{n, l.Out, w, c} }), nil
}

type dense[T Float] struct {
	in, out int
	w, b    int // spans
}

func (d dense[T]) forward(r *run[T], x, y []T) {
	bias := r.param(d.b)
	for s := range r.n {
		copy(y[s*d.out:(s+1)*d.out], bias)
	}
	gemm(false, false, true, r.n, d.out, d.in, x, d.in, r.param(d.w), d.in, 1, y, d.out)
}

func (d dense[T]) backward(r *run[T], x, y, dy, dx []T) {
	db := r.gradient(d.b)
	clear(db)
	for s := range r.n {
		addTo(db, dy[s*d.out:(s+1)*d.out])
	}
	gemm(false, true, false, d.out, d.in, r.n, dy, d.out, x, d.in, 0, r.gradient(d.w), d.in)
	if dx != nil {
		gemm(false, false, false, r.n, d.in, d.out, dy, d.out, r.param(d.w), d.in, 0, dx, d.in)
	}
}
