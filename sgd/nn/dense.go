package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// Dense is a fully connected layer on the flattened sample:
//
//	Y = X·Wᵀ + 1·bᵀ,  dX = dY·W,  dW = dYᵀ·X,  db = dYᵀ·1
//
// with X of N×in, Y of N×Out, and W of Out×in stored one output a row. Behind
// layers on images, inputs are in the order h, w, c; straight on a batch, in
// the batch's order.
//
// A ReLU behind it, and a dropout behind that, are done in the same pass: what
// either sets to zero has no gradient, so y alone says what to do.
type Dense struct {
	Out    int
	Init   Init // nil is He
	NoBias bool
}

// Linear is Dense at each position of a sequence, or pixel of an image, by itself: with T
// of them a sample is T rows of the products.
type Linear struct {
	Out    int
	Init   Init // nil is He
	NoBias bool
	Role   sgd.Role // of the products' weights: Embedding where it scores tokens
}

func (l Linear) bind(b *builder, x int) (int, error) {
	name := b.name("linear")
	if l.Out < 1 {
		return 0, fmt.Errorf("nn: %s needs at least one output, not %d", name, l.Out)
	}
	x = b.images(x)
	s := b.shape(x)
	d := &dense{in: s.C, out: l.Out, rows: s.H * s.W, bias: -1, rounds: b.options.Precision == BFloat16}
	d.weight = b.claim(name+".weight", l.Role, l.Out, s.C, l.Init.fans(s.C, l.Out), 2*float64(s.Len())*float64(l.Out))
	out := sgd.Shape{C: l.Out, H: s.H, W: s.W}
	if l.NoBias {
		return b.emit(d, x, out, d.weight), nil
	}
	d.bias = b.claim(name+".bias", sgd.Bias, 1, l.Out, constant(0), 0)
	return b.emit(d, x, out, d.weight, d.bias), nil
}

func (l Dense) bind(b *builder, x int) (int, error) {
	name := b.name("dense")
	if l.Out < 1 {
		return 0, fmt.Errorf("nn: %s needs at least one output, not %d", name, l.Out)
	}
	n := b.shape(x).Len()
	d := &dense{in: n, out: l.Out, rows: 1, bias: -1, rounds: b.options.Precision == BFloat16}
	d.weight = b.claim(name+".weight", sgd.Weight, l.Out, n, l.Init.fans(n, l.Out), 2*float64(n)*float64(l.Out))
	if !b.values[x].planar {
		b.places[d.weight] = rowShape{Shape: b.shape(x), flat: true}
	}
	if l.NoBias {
		return b.emit(d, x, sgd.Shape{C: 1, H: 1, W: l.Out}, d.weight), nil
	}
	d.bias = b.claim(name+".bias", sgd.Bias, 1, l.Out, constant(0), 0)
	return b.emit(d, x, sgd.Shape{C: 1, H: 1, W: l.Out}, d.weight, d.bias), nil
}

type dense struct {
	in, out      int
	rows         int // of a sample
	weight, bias int // spans; bias is −1 without
	relu         bool
	rounds       bool     // operands to bfloat16
	drop         *dropout // nil without
}

func (d *dense) rectify() { d.relu = true }

func (d *dense) traits() traits {
	return traits{readsX: true, readsY: d.relu, spoils: d.relu, whole: true, rounds: d.rounds, halvesX: d.rounds}
}

func (d *dense) instance([]op) op {
	o := &denseOp{dense: *d, db: make([]float64, d.out)}
	if d.rounds {
		o.rounded = newRoundedDense()
	}
	return o
}

type denseOp struct {
	noHooks
	dense
	rounded *roundedDense // nil without
	db      []float64
}

func (d *denseOp) forward(r *run, p *microbatch) {
	if d.rounded != nil {
		d.rounded.forward(r, &d.dense, p)
	} else {
		gemm(r.threads, false, true, r.n*d.rows, d.out, d.in, p.x, d.in, r.weights(d.weight), d.in, p.y, d.out)
	}
	switch {
	case d.bias >= 0:
		f32.BiasReLU(p.y, r.param(d.bias), d.relu)
	case d.relu:
		f32.ReLU(p.y, p.y)
	}
	if d.drop != nil && r.train {
		d.drop.mask(r, p, p.y, p.y)
	}
}

func (d *denseOp) backward(r *run, p *microbatch) {
	if d.drop != nil {
		f32.Scale(p.dy, d.drop.scale)
	}
	switch {
	case d.bias >= 0:
		clear(d.db)
		biasGrad(d.db, p, d.relu)
		for i, v := range d.db {
			r.slope(d.bias)[i] = float32(v)
		}
	case d.relu:
		f32.ReLUGrad(p.dy, p.dy, p.y)
	}
	if d.rounded != nil {
		d.rounded.backward(r, &d.dense, p)
		return
	}
	gemm(r.threads, true, false, d.out, d.in, r.n*d.rows, p.dy, d.out, p.x, d.in, r.slope(d.weight), d.in)
	if p.dx != nil {
		gemm(r.threads, false, false, r.n*d.rows, d.in, d.out, p.dy, d.out, r.weights(d.weight), d.in, p.dx, d.in)
	}
}

// gemm is C = op(A)·op(B) on up to threads goroutines.
func gemm(threads int, ta, tb bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	if threads > 1 {
		f32.Gemm(ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc)
	} else {
		f32.GemmSerial(ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc)
	}
}
