package sgdtest

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/sgd"
)

// Problem is a function to minimise; its minimum is 0.
type Problem struct {
	Name  string
	Start []float64
	// F returns the value at x and writes the gradient to g.
	F     func(x, g []float64) float64
	Steps int     // allowed
	Reach float64 // share of the value at Start to come down to
}

// layout has the problem's vector, as the shortest of the matrices that o takes if it is
// sgd.Selective. It reports false if o takes none.
func (p Problem) layout(o sgd.Optimizer) (l sgd.Layout, ok bool) {
	chosen, selective := o.(sgd.Selective)
	for rows := 1; rows <= len(p.Start); rows++ {
		s := sgd.Span{Name: "w", Off: 2, Rows: rows, Cols: len(p.Start) / rows, Role: sgd.Weight}
		if s.Len() == len(p.Start) && (!selective || chosen.Takes(s)) {
			return sgd.Layout{Spans: []sgd.Span{{Name: "stat", Rows: 1, Cols: 2, Role: sgd.Buffer}, s}}, true
		}
	}
	return l, false
}

// Solve runs o at rates from 1 down to 1e-5 until one of them brings the value
// down as far as the problem asks. An o that takes no matrix of so many values has
// nothing to solve.
func (p Problem) Solve(o sgd.Optimizer) error {
	l, ok := p.layout(o)
	if !ok {
		return nil
	}
	best := math.Inf(1)
	for lr := 1.0; lr > 1e-5; lr /= 3 {
		tr, err := o.New(l)
		if err != nil {
			return err
		}
		params, u := make([]float32, l.Size()), make([]float32, l.Size())
		x, g := make([]float64, len(p.Start)), make([]float64, len(p.Start))
		first := p.F(p.Start, g)
		for i, v := range p.Start {
			params[2+i] = float32(v)
		}
		for n := 0; n < p.Steps; n++ {
			for i := range x {
				x[i] = float64(params[2+i])
			}
			f := p.F(x, g) / first
			if !(f < 1e6) { // diverged
				break
			}
			if best = min(best, f); best <= p.Reach {
				return nil
			}
			for i, v := range g {
				u[2+i] = float32(v)
			}
			tr.Apply(u, params, sgd.Step{N: n, LR: lr})
			sgd.Update(params, u)
		}
	}
	return fmt.Errorf("at no learning rate did %d steps bring the loss to %g of its start; the best was %.3g", p.Steps, p.Reach, best)
}

// Problems lists what every optimizer must bring down: a round bowl, a bent
// valley and a long one.
func Problems() []Problem {
	return []Problem{parabola(), rosenbrock(), illConditioned()}
}

// parabola is ½‖x‖²: anything that goes downhill gets there.
func parabola() Problem {
	return Problem{
		Name: "parabola", Start: []float64{1, -2, 3, -0.5}, Steps: 2000, Reach: 1e-4,
		F: func(x, g []float64) float64 {
			f := 0.0
			for i, v := range x {
				f += v * v / 2
				g[i] = v
			}
			return f
		},
	}
}

// rosenbrock is (1−x)² + 100(y−x²)² from the usual start (Rosenbrock 1960): a
// bent valley with a flat floor.
func rosenbrock() Problem {
	return Problem{
		Name: "rosenbrock", Start: []float64{-1.2, 1}, Steps: 20000, Reach: 1e-3,
		F: func(p, g []float64) float64 {
			x, y := p[0], p[1]
			a, b := 1-x, y-x*x
			g[0], g[1] = -2*a-400*x*b, 200*b
			return a*a + 100*b*b
		},
	}
}

// illConditioned is ½xᵀAx with eigenvalues 1 … 1000, turned out of the axes by
// a reflection so that no per-coordinate rate undoes it.
func illConditioned() Problem {
	const n = 12
	start, v := make([]float64, n), make([]float64, n)
	norm := 0.0
	for i := range v {
		start[i], v[i] = 1, float64(i+1)
		norm += v[i] * v[i]
	}
	reflect := func(x []float64) [n]float64 {
		dot := 0.0
		for i, a := range v {
			dot += a * x[i]
		}
		var y [n]float64
		for i, a := range v {
			y[i] = x[i] - 2*dot/norm*a
		}
		return y
	}
	return Problem{
		Name: "ill-conditioned", Start: start, Steps: 20000, Reach: 1e-4,
		F: func(x, g []float64) float64 {
			y := reflect(x)
			f := 0.0
			for i := range y {
				e := math.Pow(1000, float64(i)/(n-1))
				f += e * y[i] * y[i] / 2
				y[i] *= e
			}
			z := reflect(y[:])
			copy(g, z[:])
			return f
		},
	}
}
