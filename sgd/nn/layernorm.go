package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
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
	n.width, n.rows = s.C, s.H*s.W
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
	width, rows  int  // rows of a sample
	scale, shift int  // spans; shift is −1 without
}

func (*rowNorm) traits() traits { return traits{readsX: true, spoils: true, passes: true} }

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
	mean, inverse  []float32 // of each row
	dScale, dShift rowSums
}

func (n *rowNormOp) begin(r *run, _ *microbatch, d direction) {
	if d == ahead {
		grow(&n.mean, r.n*n.rows)
		grow(&n.inverse, r.n*n.rows)
	}
}

func (n *rowNormOp) forward(r *run, p *microbatch) {
	scale, c := r.param(n.scale), n.width
	var shift []float32
	if n.shift >= 0 {
		shift = r.param(n.shift)
	}
	row := p.lo * n.rows
	for at := 0; at < len(p.x); at, row = at+c, row+1 {
		if n.centred {
			n.mean[row], n.inverse[row] = f32.LayerNorm(p.y[at:at+c], p.x[at:at+c], scale, shift, n.epsilon)
		} else {
			n.inverse[row] = f32.RMSNorm(p.y[at:at+c], p.x[at:at+c], scale, n.epsilon)
		}
	}
}

func (n *rowNormOp) backward(r *run, p *microbatch) {
	scale, c := r.param(n.scale), n.width
	dScale, dShift := n.dScale.lane(p), n.dShift.lane(p)
	row := p.lo * n.rows
	for at := 0; at < len(p.x); at, row = at+c, row+1 {
		x, dy := p.x[at:at+c], p.dy[at:at+c]
		if n.centred {
			f32.LayerNormGrad(dy, dScale, dShift, dy, x, scale, n.mean[row], n.inverse[row])
		} else {
			f32.RMSNormGrad(dy, dScale, dy, x, scale, n.inverse[row])
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

// rowSums is a gradient that kernels add rows to, by lanes.
type rowSums [maxLanes][]float32

func (s *rowSums) init(width int) {
	for i := range s {
		s[i] = make([]float32, width)
	}
}

// lane is the sums of a microbatch's lane, zeros at its first.
func (s *rowSums) lane(p *microbatch) []float32 {
	if p.fresh {
		clear(s[p.lane])
	}
	return s[p.lane]
}

// sum sets to to the sums over all lanes.
func (s *rowSums) sum(to []float32, lanes int) {
	for i := range to {
		sum := 0.0
		for _, lane := range s[:lanes] {
			sum += float64(lane[i])
		}
		to[i] = float32(sum)
	}
}
