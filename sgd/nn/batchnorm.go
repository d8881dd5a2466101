package nn

import (
	"math"

	"github.com/gradlab/gradlab/internal/f32"
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
//
// It is two operations, since sums over the batch must be known between them:
// moments looks at x and, on the way back, makes dx; normalise makes y, adds a
// shortcut and rectifies in the same pass, and on the way back sums.
type BatchNorm struct {
	// ZeroScale starts γ at 0 instead of 1, so that a residual body starts as
	// nothing (Goyal et al. 2017).
	ZeroScale bool
}

const (
	normEpsilon  = 1e-5
	normMomentum = 0.1
)

func (l BatchNorm) bind(b *builder, x int) (int, error) {
	name := b.name("bn")
	x = b.images(x)
	in := b.shape(x)
	gamma := 1.0
	if l.ZeroScale {
		gamma = 0
	}
	m := moments{c: in.C, rows: in.H * in.W}
	if in.C == 1 && in.H == 1 {
		m = moments{c: in.W, rows: 1}
	}
	m.scale = b.claim(name+".scale", sgd.Norm, 1, m.c, constant(gamma), 4*float64(in.Len()))
	m.shift = b.claim(name+".shift", sgd.Norm, 1, m.c, constant(0), 0)
	m.mean = b.claim(name+".mean", sgd.Buffer, 1, m.c, constant(0), 0)
	m.variance = b.claim(name+".var", sgd.Buffer, 1, m.c, constant(1), 0)
	at := len(b.nodes)
	x = b.emit(&m, x, in, m.scale, m.shift, m.mean, m.variance)
	return b.emit(&normalise{half: at}, x, in), nil
}

type moments struct {
	c, rows                      int // channels, and values of each in a sample
	scale, shift, mean, variance int // spans
}

func (*moments) traits() traits { return traits{alias: true, gathers: true, readsX: true} }

func (m *moments) instance([]op) op {
	o := &momentsOp{moments: m}
	for _, v := range []*[]float32{&o.a, &o.b, &o.k, &o.p, &o.q} {
		*v = make([]float32, m.c)
	}
	o.mu, o.inv = make([]float64, m.c), make([]float64, m.c)
	for i := range o.lanes {
		o.lanes[i].first, o.lanes[i].second = make([]float64, m.c), make([]float64, m.c)
	}
	return o
}

// momentsOp also keeps what both operations know of a batch, per channel.
type momentsOp struct {
	*moments
	mu, inv []float64 // μ and 1/√(σ² + ε)
	a, b    []float32 // y = a·x + b
	k, p, q []float32 // dx = k·dy + p·x + q
	lanes   [maxLanes]pairs
}

// pairs is two sums a channel: of x and x² ahead, of dy and dy·x back.
type pairs struct{ first, second []float64 }

// of returns the sums of a microbatch's lane, which begin with its first microbatch.
func (o *momentsOp) of(p *microbatch) (first, second []float64) {
	l := &o.lanes[p.lane]
	if p.fresh {
		clear(l.first)
		clear(l.second)
	}
	return l.first, l.second
}

// total is the sums of channel i over all lanes.
func (o *momentsOp) total(r *run, i int) (first, second float64) {
	for l := range o.lanes[:r.lanes] {
		first += o.lanes[l].first[i]
		second += o.lanes[l].second[i]
	}
	return first, second
}

func (o *momentsOp) forward(r *run, p *microbatch) {
	if r.train {
		s, t := o.of(p)
		f32.Moments(s, t, p.x)
	}
}

func (o *momentsOp) backward(_ *run, p *microbatch) {
	if p.dx != nil {
		f32.NormGrad(p.dx, p.dy, p.x, o.k, o.p, o.q)
	}
}

func (o *momentsOp) begin(*run, *microbatch, direction) {}

// end of the forward pass knows the batch.
func (o *momentsOp) end(r *run, _ *microbatch, d direction) {
	if d == back {
		return
	}
	scale, shift, mean, variance := r.param(o.scale), r.param(o.shift), r.param(o.mean), r.param(o.variance)
	m := float64(r.n * o.rows)
	for i := range o.c {
		mu, sigma2 := float64(mean[i]), float64(variance[i])
		if r.train {
			s1, s2 := o.total(r, i)
			mu = s1 / m
			sigma2 = max(s2/m-mu*mu, 0)
			unbiased := sigma2
			if m > 1 {
				unbiased *= m / (m - 1)
			}
			r.slope(o.mean)[i] = float32(normMomentum * (float64(mean[i]) - mu))
			r.slope(o.variance)[i] = float32(normMomentum * (float64(variance[i]) - unbiased))
		}
		inv := 1 / math.Sqrt(sigma2+normEpsilon)
		o.mu[i], o.inv[i] = mu, inv
		a := float64(scale[i]) * inv
		o.a[i], o.b[i] = float32(a), float32(float64(shift[i])-a*mu)
	}
}

// differentiate takes the sums of dy and dy·x and sets dγ, dβ and what makes
// dx, collecting terms.
func (o *momentsOp) differentiate(r *run) {
	scale, dscale, dshift := r.param(o.scale), r.slope(o.scale), r.slope(o.shift)
	m := float64(r.n * o.rows)
	for i := range o.c {
		sdy, sdyx := o.total(r, i)
		db, dg := sdy, o.inv[i]*(sdyx-o.mu[i]*sdy)
		dshift[i], dscale[i] = float32(db), float32(dg)
		k := float64(scale[i]) * o.inv[i]
		p := -k * dg / m * o.inv[i]
		o.k[i], o.p[i], o.q[i] = float32(k), float32(p), float32(-k*db/m-p*o.mu[i])
	}
}

// normalise is the second half of a batch norm.
type normalise struct {
	half int // node of the first
	relu bool
}

func (f *normalise) rectify() { f.relu = true }

func (f *normalise) traits() traits {
	return traits{readsX: true, readsY: f.relu, spoils: f.relu, passes: true}
}

func (f *normalise) instance(ops []op) op {
	return &normaliseOp{normalise: *f, momentsOp: ops[f.half].(*momentsOp)}
}

type normaliseOp struct {
	normalise
	*momentsOp
}

func (o *normaliseOp) forward(_ *run, p *microbatch) {
	f32.ScaleShift(p.y, p.x, o.a, o.b, p.add, o.relu)
}

func (o *normaliseOp) backward(_ *run, p *microbatch) {
	s, t := o.of(p)
	f32.NormGradSums(s, t, p.dy, p.x, p.y)
}

func (o *normaliseOp) end(r *run, _ *microbatch, d direction) {
	if d == back {
		o.differentiate(r)
	}
}
