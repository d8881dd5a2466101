package sgd_test

import (
	"maps"
	"math"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// Rules for matrices, a second time, in float64. The parameters of the formula test are a
// matrix of two rows, which these take, and a bias.

func init() { maps.Copy(formulas, matrixFormulas) }

var matrixFormulas = map[string]func() formula{
	"muon": func() formula { return hidden(muon64(muonDefaults)) },
	"muon(beta=0.8,nesterov=false,decay=0.2,coefficients=polar,scale=moonshot)": func() formula {
		o := muonDefaults
		o.Beta, o.Nesterov, o.Decay, o.Coefficients, o.Scale = 0.8, false, 0.2, "polar", "moonshot"
		return hidden(muon64(o))
	},
	"muon(beta=0,coefficients=cubic,scale=spectral)": func() formula {
		o := muonDefaults
		o.Beta, o.Coefficients, o.Scale = 0, "cubic", "spectral"
		return hidden(muon64(o))
	},
	"muon(beta=0.5,decay=0.7,steps=3)": func() formula {
		o := muonDefaults
		o.Beta, o.Decay, o.Steps = 0.5, 0.7, 3
		return hidden(muon64(o))
	},
	"groups(muon,on(adamw(decay=0),lr=0.1))": func() formula {
		return apart(hidden(muon64(muonDefaults)), faster(0.1, kingma(0.9, 0.999, 1e-8)))
	},
}

// loose are the tolerances of rules that amplify what float32 rounds: an iteration
// multiplies small singular values some hundred times.
var loose = map[string]float64{
	"muon": 1e-5,
	"muon(beta=0.8,nesterov=false,decay=0.2,coefficients=polar,scale=moonshot)": 3e-5,
	"muon(beta=0,coefficients=cubic,scale=spectral)":                            1e-5,
	"groups(muon,on(adamw(decay=0),lr=0.1))":                                    1e-5,
}

// matrix64 is a matrix by rows.
type matrix64 [][]float64

func zeros64(r, c int) matrix64 {
	m := make(matrix64, r)
	for i := range m {
		m[i] = make([]float64, c)
	}
	return m
}

// rows64 is x as a matrix of r rows.
func rows64(x []float64, r int) matrix64 {
	m := zeros64(r, len(x)/r)
	for i := range m {
		copy(m[i], x[i*len(m[i]):])
	}
	return m
}

func (m matrix64) flat() (out []float64) {
	for _, row := range m {
		out = append(out, row...)
	}
	return out
}

func (m matrix64) t() matrix64 {
	out := zeros64(len(m[0]), len(m))
	for i, row := range m {
		for j, v := range row {
			out[j][i] = v
		}
	}
	return out
}

func (m matrix64) times(b matrix64) matrix64 {
	out := zeros64(len(m), len(b[0]))
	for i := range m {
		for k := range b {
			for j := range b[k] {
				out[i][j] += m[i][k] * b[k][j]
			}
		}
	}
	return out
}

// plus is a·m + b·x.
func (m matrix64) plus(a, b float64, x matrix64) matrix64 {
	out := zeros64(len(m), len(m[0]))
	for i := range m {
		for j := range m[i] {
			out[i][j] = a*m[i][j] + b*x[i][j]
		}
	}
	return out
}

// by is m times a number.
func (m matrix64) by(a float64) matrix64 { return m.plus(a, 0, m) }

// rule64 is a rule for one matrix: what is taken off w.
type rule64 func(g, w matrix64, lr float64, n int) matrix64

// hidden has a rule for the matrix of the formula test; the bias stays.
func hidden(rule rule64) formula {
	return apart(func(g, w []float64, lr float64, n int) []float64 {
		out := rule(rows64(g[:formulaWeights], 2), rows64(w[:formulaWeights], 2), lr, n).flat()
		return append(out, make([]float64, len(g)-len(out))...)
	}, still)
}

var muonDefaults = sgd.Muon{Beta: 0.95, Nesterov: true, Coefficients: "jordan", Scale: "jordan"}

// triples64 is coefficients of every step, and what the Frobenius norm is multiplied by and
// added to.
func triples64(name string, steps int) (all [][3]float64, over, eps float64) {
	switch over, eps = 1, 1e-7; name {
	case "jordan":
		for range 5 {
			all = append(all, [3]float64{3.4445, -4.7750, 2.0315})
		}
	case "cubic":
		for range 12 {
			all = append(all, [3]float64{2, -1.5, 0.5})
		}
	case "polar":
		over, eps = 1.02, 1e-6
		all = [][3]float64{
			{8.156554524902461, -22.48329292557795, 15.878769915207462},
			{4.042929935166739, -2.808917465908714, .5000178451051316},
			{3.8916678022926607, -2.772484153217685, .5060648178503393},
			{3.285753657755655, -2.3681294933426376, .46449024233003106},
			{2.3465413258596377, -1.7097828382687081, .42323551169305323},
		}
	}
	if steps > 0 {
		all = all[:steps]
	}
	return all, over, eps
}

func orthogonal64(u matrix64, name string, steps int) matrix64 {
	if len(u) > len(u[0]) {
		return orthogonal64(u.t(), name, steps).t()
	}
	triples, over, eps := triples64(name, steps)
	x := u.by(1 / (over*length(u.flat()) + eps))
	for _, k := range triples {
		a := x.times(x.t())
		x = x.plus(k[0], 1, a.plus(k[1], k[2], a.times(a)).times(x))
	}
	return x
}

func scale64(name string, r, c float64) float64 {
	switch name {
	case "moonshot":
		return 0.2 * math.Sqrt(max(r, c))
	case "spectral":
		return math.Sqrt(r / c)
	}
	return math.Sqrt(max(1, r/c))
}

// muon64 is Jordan et al. 2024.
func muon64(o sgd.Muon) rule64 {
	var m matrix64
	return func(g, w matrix64, lr float64, n int) matrix64 {
		if n == 0 {
			m = zeros64(len(g), len(g[0]))
		}
		m = m.plus(o.Beta, 1-o.Beta, g)
		u := m
		if o.Nesterov {
			u = g.plus(1-o.Beta, o.Beta, m)
		}
		x := orthogonal64(u, o.Coefficients, o.Steps)
		return x.plus(lr*scale64(o.Scale, float64(len(g)), float64(len(g[0]))), lr*o.Decay, w)
	}
}

// near64 compares with a vector of a reference.
func near64(t *testing.T, what string, got matrix64, tolerance float64, want ...float64) {
	t.Helper()
	for i, v := range got.flat() {
		if !(math.Abs(v-want[i]) <= tolerance) {
			t.Errorf("%s: value %d is %.12f, want %.12f", what, i, v, want[i])
		}
	}
}

// weights are those of a rule in float64 and of the enrolled one, from w on, behind each of
// some gradients.
func weights(t *testing.T, text string, rule rule64, w matrix64, lr float64, gradients ...matrix64) (after, enrolled []matrix64) {
	t.Helper()
	r, c := len(w), len(w[0])
	var l sgd.Layout
	l.Add("w", sgd.Weight, r, c)
	tr, err := sgd.Optimizers.MustParse(text).New(l)
	if err != nil {
		t.Fatal(err)
	}
	params, u := make([]float32, r*c), make([]float32, r*c)
	for i, v := range w.flat() {
		params[i] = float32(v)
	}
	for n, g := range gradients {
		w = w.plus(1, -1, rule(g, w, lr, n))
		for i, v := range g.flat() {
			u[i] = float32(v)
		}
		sgd.Advance(tr, u, params, sgd.Step{N: n, LR: lr})
		now := make([]float64, len(params))
		for i, v := range params {
			now[i] = float64(v)
		}
		after, enrolled = append(after, w), append(enrolled, rows64(now, r))
	}
	return after, enrolled
}

// tall is the matrix of the vectors of Muon and Dion.
var tall = matrix64{{1, 2}, {3, 4}, {5, 6}}

// Vectors worked out in float64 from the authors' code.
func TestMuonVectors(t *testing.T) {
	for name, want := range map[string][]float64{
		"jordan": {-.4675185654, .5734733071, .0724322875, .4094526223, .6123831404, .2454319375},
		"cubic":  {-.5510032430, .7278246764, .1361585187, .5610652289, .8233202803, .3943057815},
		"polar":  {-.6146092141, .8128879148, .1528985598, .6274127286, .9204063336, .4419375423},
	} {
		near64(t, name, orthogonal64(tall, name, 0), 1e-9, want...)
	}
	twin, rule := weights(t, "muon", muon64(muonDefaults), zeros64(3, 2), 0.02, tall, matrix64{{1, 0}, {0, 1}, {1, 1}})
	for i, want := range [][]float64{
		{.0114518168, -.0140471686, -.0017742229, -.0100295006, -.0150002625, -.0060118326},
		{-.0024317319, -.0089365141, .0060884040, -.0275378729, -.0285374160, -.0134731803},
	} {
		near64(t, "weights", twin[i], 1e-9, want...)
		near64(t, "weights, float32", rule[i], 1e-5*0.02, want...)
	}
}
