package nn

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// ReLU is y = max(x, 0), dx = dy where y > 0. NaN stays NaN, so that a net
// that has diverged shows it.
//
// Behind a layer that can do it in passing (a convolution, a dense layer, a
// batch norm, a sum, a maximum) it is no operation of its own.
type ReLU struct{}

// rectifier is an operation that can end in a ReLU.
type rectifier interface{ rectify() }

func (ReLU) bind(b *builder, x int) (int, error) {
	if f, ok := b.last(x).(rectifier); ok {
		f.rectify()
		return x, nil
	}
	return b.emit(reluBound{}, x, b.shape(x)), nil
}

type reluBound struct{}

func (reluBound) traits() traits   { return traits{readsY: true, spoils: true, passes: true} }
func (reluBound) instance([]op) op { return relu{} }

type relu struct{ noHooks }

func (relu) forward(_ *run, p *microbatch)  { f32.ReLU(p.y, p.x) }
func (relu) backward(_ *run, p *microbatch) { f32.ReLUGrad(p.dy, p.dy, p.y) }

// GELU is the Gaussian error linear unit (Hendrycks and Gimpel 2016), with the
// normal distribution Φ itself and not one of its approximations by tanh:
//
//	y = x·Φ(x),  dx = dy·(Φ(x) + x·φ(x)),  φ(x) = exp(−x²/2)/√(2π)
type GELU struct{}

func (GELU) bind(b *builder, x int) (int, error) {
	return b.emit(geluBound{}, x, b.shape(x)), nil
}

type geluBound struct{}

func (geluBound) traits() traits   { return traits{readsX: true, spoils: true, passes: true} }
func (geluBound) instance([]op) op { return gelu{} }

type gelu struct{ noHooks }

func (gelu) forward(_ *run, p *microbatch)  { f32.GELU(p.y[:len(p.x)], p.x) }
func (gelu) backward(_ *run, p *microbatch) { f32.GELUGrad(p.dy[:len(p.x)], p.x) }

// SwiGLU multiplies the second half of each row by the first behind a SiLU (Shazeer 2020,
// arXiv 2002.05202, equation 6). With σ(a) = 1/(1 + e^−a) and rows (a, b):
//
//	y = a·σ(a)∘b,  da = dy∘b·σ(a)(1 + a(1 − σ(a))),  db = dy∘a·σ(a)
type SwiGLU struct{}

func (SwiGLU) bind(b *builder, x int) (int, error) {
	name := b.name("swiglu")
	x = b.images(x)
	s := b.shape(x)
	if s.C%2 != 0 {
		return 0, fmt.Errorf("nn: %s needs rows of an even width, not %d", name, s.C)
	}
	return b.emit(swiglu{s.C / 2}, x, sgd.Shape{C: s.C / 2, H: s.H, W: s.W}), nil
}

type swiglu struct{ half int }

func (swiglu) traits() traits     { return traits{readsX: true} }
func (g swiglu) instance([]op) op { return swigluOp{swiglu: g} }

type swigluOp struct {
	noHooks
	swiglu
}

func (g swigluOp) forward(_ *run, p *microbatch) {
	for at := 0; at < len(p.y); at += g.half {
		f32.SwiGLU(p.y[at:at+g.half], p.x[2*at:2*at+g.half], p.x[2*at+g.half:2*at+2*g.half])
	}
}

func (g swigluOp) backward(_ *run, p *microbatch) {
	if p.dx == nil {
		return
	}
	for at := 0; at < len(p.dy); at += g.half {
		from, to := p.x[2*at:2*at+2*g.half], p.dx[2*at:2*at+2*g.half]
		f32.SwiGLUGrad(to[:g.half], to[g.half:], p.dy[at:at+g.half], from[:g.half], from[g.half:])
	}
}

// Scale multiplies every value by a constant: y = By·x, dx = By·dy.
type Scale struct{ By float64 }

func (l Scale) bind(b *builder, x int) (int, error) {
	if math.IsNaN(l.By) || math.IsInf(l.By, 0) {
		return 0, fmt.Errorf("nn: %s needs a finite factor, not %g", b.name("scale"), l.By)
	}
	return b.emit(scaleBound{float32(l.By)}, x, b.shape(x)), nil
}

type scaleBound struct{ by float32 }

func (scaleBound) traits() traits     { return traits{spoils: true, passes: true} }
func (s scaleBound) instance([]op) op { return scaleOp{by: s.by} }

type scaleOp struct {
	noHooks
	by float32
}

func (o scaleOp) forward(_ *run, p *microbatch) {
	copy(p.y, p.x)
	f32.Scale(p.y, o.by)
}

func (o scaleOp) backward(_ *run, p *microbatch) { f32.Scale(p.dy, o.by) }
