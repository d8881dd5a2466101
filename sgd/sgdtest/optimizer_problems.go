package sgdtest

import "math"

// Problem is a function to minimise; its minimum is 0.
type Problem struct {
	Name  string
	Start []float64
	// F returns the value at x and writes the gradient to g.
	F     func(x, g []float64) float64
	Steps int     // allowed
	Reach float64 // share of the value at Start to come down to
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
