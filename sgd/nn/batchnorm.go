package nn

import (
	"math"

	"github.com/gradlab/gradlab/sgd"
)

// BatchNorm normalises each channel over the M values it has in the batch
// (Ioffe and Szegedy 2015), features 1×1×W each being a channel:
//
//	μ = Σx/M,  σ² = Σx²/M − μ²,  x̂ = (x − μ)/√(σ² + ε),  y = γ·x̂ + β
//	dβ = Σdy,  dγ = Σdy·x̂,  dx = γ/√(σ² + ε) · (dy − dβ/M − x̂·dγ/M)
//
// Inference uses running statistics, which move by a tenth per batch, the
// variance by its unbiased estimate. They are spans of role Buffer: Grad
// reports old − new = (old − batch)/10 for them.
type BatchNorm struct {
	// ZeroScale starts γ at 0 instead of 1, so that a residual body starts as
	// nothing (Goyal et al. 2017).
	ZeroScale bool
}

const (
	normEpsilon  = 1e-5
	normMomentum = 0.1
)

func (l BatchNorm) bind(b *builder, in sgd.Shape) (module, error) {
	name := b.name("bn")
	scale := 1.0
	if l.ZeroScale {
		scale = 0
	}
	g := normGeometry{c: in.C, plane: in.H * in.W}
	if in.C == 1 && in.H == 1 {
		g = normGeometry{c: in.W, plane: 1}
	}
	g.scale = b.claim(name+".scale", sgd.Norm, 1, g.c, constant(scale), 4*float64(in.Len()))
	g.shift = b.claim(name+".shift", sgd.Norm, 1, g.c, constant(0), 0)
	g.mean = b.claim(name+".mean", sgd.Buffer, 1, g.c, constant(0), 0)
	g.variance = b.claim(name+".var", sgd.Buffer, 1, g.c, constant(1), 0)
	return b.leaf(
		leafInfo{in: in, out: in, spans: []int{g.scale, g.shift, g.mean, g.variance}},
		func() op[float32] { return newBatchNorm[float32](g) },
		func() op[float64] { return newBatchNorm[float64](g) }), nil
}

type normGeometry struct {
	c, plane                     int
	scale, shift, mean, variance int // spans
}

type batchNorm[T Float] struct {
	normGeometry
	r            *run[T]
	x, y, dy, dx []T
	mu, sigma2   []float64 // of the batch, per channel

	forwardChannel, backwardChannel func(i, slot int)
}

func newBatchNorm[T Float](g normGeometry) *batchNorm[T] {
	o := &batchNorm[T]{normGeometry: g}
	o.forwardChannel, o.backwardChannel = o.doForward, o.doBackward
	return o
}

func (o *batchNorm[T]) forward(r *run[T], x, y []T) {
	o.r, o.x, o.y = r, x, y
	grow(&o.mu, o.c)
	grow(&o.sigma2, o.c)
	r.each(o.c, len(x), o.forwardChannel)
}

func (o *batchNorm[T]) backward(r *run[T], x, y, dy, dx []T) {
	o.r, o.x, o.dy, o.dx = r, x, dy, dx
	r.each(o.c, len(x), o.backwardChannel)
}

// at is where channel c of sample s begins.
func (o *batchNorm[T]) at(s, c int) int { return (s*o.c + c) * o.plane }

func (o *batchNorm[T]) doForward(c, _ int) {
	r := o.r
	mu, sigma2 := float64(r.param(o.mean)[c]), float64(r.param(o.variance)[c])
	if r.train {
		var s1, s2 float64
		for s := range r.n {
			a, b := moments(o.x[o.at(s, c):][:o.plane])
			s1, s2 = s1+a, s2+b
		}
		m := float64(r.n * o.plane)
		mu = s1 / m
		sigma2 = max(s2/m-mu*mu, 0)
		o.mu[c], o.sigma2[c] = mu, sigma2
	}
	scale := float64(r.param(o.scale)[c]) / math.Sqrt(sigma2+normEpsilon)
	a, b := T(scale), T(float64(r.param(o.shift)[c])-scale*mu)
	for s := range r.n {
		i := o.at(s, c)
		y := o.y[i : i+o.plane]
		for j, v := range o.x[i : i+o.plane] {
			y[j] = a*v + b
		}
	}
}

func (o *batchNorm[T]) doBackward(c, _ int) {
	r := o.r
	mu, sigma2, m := o.mu[c], o.sigma2[c], float64(r.n*o.plane)
	inv := 1 / math.Sqrt(sigma2+normEpsilon)

	var sdy, sdyx float64
	for s := range r.n {
		i := o.at(s, c)
		a, b := products(o.dy[i:i+o.plane], o.x[i:i+o.plane])
		sdy, sdyx = sdy+a, sdyx+b
	}
	dshift, dscale := sdy, inv*(sdyx-mu*sdy)
	r.gradient(o.shift)[c], r.gradient(o.scale)[c] = T(dshift), T(dscale)

	unbiased := sigma2
	if m > 1 {
		unbiased *= m / (m - 1)
	}
	r.gradient(o.mean)[c] = T(normMomentum * (float64(r.param(o.mean)[c]) - mu))
	r.gradient(o.variance)[c] = T(normMomentum * (float64(r.param(o.variance)[c]) - unbiased))

	if o.dx == nil {
		return
	}
	// dx = k·dy + p·x + q, collecting terms.
	k := float64(r.param(o.scale)[c]) * inv
	p := -k * dscale / m * inv
	q := -k*dshift/m - p*mu
	tk, tp, tq := T(k), T(p), T(q)
	for s := range r.n {
		i := o.at(s, c)
		x, dx := o.x[i:i+o.plane], o.dx[i:i+o.plane]
		for j, v := range o.dy[i : i+o.plane] {
			dx[j] = tk*v + tp*x[j] + tq
		}
	}
}

// moments returns Σv and Σv².
func moments[T Float](v []T) (s1, s2 float64) {
	var a, b, c, d float64
	for len(v) >= 2 {
		x, y := float64(v[0]), float64(v[1])
		a, b = a+x, b+y
		c, d = c+x*x, d+y*y
		v = v[2:]
	}
	for _, w := range v {
		x := float64(w)
		a, c = a+x, c+x*x
	}
	return a + b, c + d
}

// products returns Σv and Σv·w.
func products[T Float](v, w []T) (s1, s2 float64) {
	var a, b, c, d float64
	w = w[:len(v)]
	for len(v) >= 2 && len(w) >= 2 {
		x, y := float64(v[0]), float64(v[1])
		a, b = a+x, b+y
		c, d = c+x*float64(w[0]), d+y*float64(w[1])
		v, w = v[2:], w[2:]
	}
	for i := range v {
		x := float64(v[i])
		a, c = a+x, c+x*float64(w[i])
	}
	return a + b, c + d
}
