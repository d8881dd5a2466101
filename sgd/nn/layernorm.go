package nn

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/sgd"
)

// LayerNorm normalises the C values of each position by themselves (Ba et al. 2016, arXiv
// 1607.06450, equation 4):
//
//	μ = Σx/C,  σ² = Σ(x − μ)²/C,  x̂ = (x − μ)/√(σ² + ε),  y = γ·x̂ + β
//	dβ = Σdy,  dγ = Σdy·x̂,  dx = (γdy − mean(γdy) − x̂·mean(γdy·x̂))/√(σ² + ε)
//
// Means are over the position, sums over all positions and samples.
type LayerNorm struct {
	NoBias  bool    // β is 0 for good
	Epsilon float64 // ε; 0 is 1e-5
}

// RMSNorm divides the C values of each position by their root mean square (Zhang and
// Sennrich 2019, arXiv 1910.07467, equation 4):
//
//	x̂ = x/√(Σx²/C + ε),  y = γ·x̂,  dγ = Σdy·x̂,  dx = (γdy − x̂·mean(γdy·x̂))/√(Σx²/C + ε)
type RMSNorm struct {
	Epsilon float64 // ε; 0 is 1e-5
}

func (l LayerNorm) bind(b *builder, x int) (int, error) {
	return rowNorm{epsilon: l.Epsilon, centred: true}.bind(b, x, "norm", !l.NoBias)
}

func (l RMSNorm) bind(b *builder, x int) (int, error) {
	return rowNorm{epsilon: l.Epsilon}.bind(b, x, "rmsnorm", false)
}

func (n rowNorm) bind(b *builder, x int, kind string, bias bool) (int, error) {
	name := b.name(kind)
	if n.epsilon == 0 {
		n.epsilon = 1e-5
	}
	if !(n.epsilon > 0) {
		return 0, fmt.Errorf("nn: %s needs ε > 0, not %g", name, n.epsilon)
	}
	x = b.images(x)
	s := b.shape(x)
	n.width = s.C
	n.scale, n.shift = b.claim(name+".scale", sgd.Norm, 1, s.C, constant(1), 8*float64(s.Len())), -1
	spans := []int{n.scale}
	if bias {
		n.shift = b.claim(name+".shift", sgd.Norm, 1, s.C, constant(0), 0)
		spans = append(spans, n.shift)
	}
	return b.emit(&n, x, s, spans...), nil
}

// rowNorm is a norm of rows by themselves.
type rowNorm struct {
	epsilon      float64
	centred      bool // by the mean
	width        int
	scale, shift int // spans; shift is −1 without
}

func (*rowNorm) traits() traits { return traits{readsX: true} }

func (n *rowNorm) instance([]op) op {
	o := &rowNormOp{rowNorm: n}
	o.dScale.init(n.width)
	if n.shift >= 0 {
		o.dShift.init(n.width)
	}
	return o
}

type rowNormOp struct {
	*rowNorm
	dScale, dShift biasSums
}

func (*rowNormOp) begin(*run, *microbatch, direction) {}

// moments is the mean of a row, 0 where it is not centred, and one over its deviation.
func (n *rowNorm) moments(x []float32) (mean, inverse float32) {
	sum := 0.0
	if n.centred {
		for _, v := range x {
			sum += float64(v)
		}
	}
	mu, squares := sum/float64(len(x)), 0.0
	for _, v := range x {
		d := float64(v) - mu
		squares += float64(d * d)
	}
	return float32(mu), float32(1 / math.Sqrt(squares/float64(len(x))+n.epsilon))
}

func (n *rowNormOp) forward(r *run, p *microbatch) {
	scale, c := r.param(n.scale), n.width
	var shift []float32
	if n.shift >= 0 {
		shift = r.param(n.shift)
	}
	for at := 0; at < len(p.x); at += c {
		x, y := p.x[at:at+c], p.y[at:at+c]
		mean, inverse := n.moments(x)
		for i, v := range x {
			y[i] = float32((v-mean)*inverse) * scale[i]
		}
		for i, v := range shift {
			y[i] += v
		}
	}
}

func (n *rowNormOp) backward(r *run, p *microbatch) {
	scale, c := r.param(n.scale), n.width
	dScale, dShift := n.dScale[p.lane], n.dShift[p.lane]
	if p.fresh {
		clear(dScale)
		clear(dShift)
	}
	for at := 0; at < len(p.x); at += c {
		x, dy := p.x[at:at+c], p.dy[at:at+c]
		mean, inverse := n.moments(x)
		sum, product := 0.0, 0.0
		for i, v := range x {
			hat := float64((v - mean) * inverse)
			d := float64(dy[i])
			dScale[i] += float64(d * hat)
			g := float64(d * float64(scale[i]))
			sum += g
			product += float64(g * hat)
		}
		for i, v := range dy[:len(dShift)] {
			dShift[i] += float64(v)
		}
		if p.dx == nil {
			continue
		}
		if !n.centred {
			sum = 0
		}
		a, b := float32(sum/float64(c)), float32(product/float64(c))
		dx := p.dx[at : at+c]
		for i, v := range x {
			hat := (v - mean) * inverse
			dx[i] = (float32(dy[i]*scale[i]) - a - float32(hat*b)) * inverse
		}
	}
}

// end of the backward pass: sums over the lanes.
func (n *rowNormOp) end(r *run, _ *microbatch, d direction) {
	if d == ahead {
		return
	}
	n.dScale.sum(r.slope(n.scale), r.lanes)
	if n.shift >= 0 {
		n.dShift.sum(r.slope(n.shift), r.lanes)
	}
}
