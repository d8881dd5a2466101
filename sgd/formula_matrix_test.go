package sgd_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gradlab/gradlab/internal/rng"
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
	"normuon": func() formula { return hidden(normuon64(sgd.NorMuon{Muon: muonDefaults, Beta2: 0.95})) },
	"normuon(beta=0.5,nesterov=false,decay=0.3,coefficients=cubic,steps=9,scale=moonshot,beta2=0.7)": func() formula {
		o := sgd.NorMuon{Muon: muonDefaults, Beta2: 0.7}
		o.Beta, o.Nesterov, o.Decay, o.Coefficients, o.Steps, o.Scale = 0.5, false, 0.3, "cubic", 9, "moonshot"
		return hidden(normuon64(o))
	},
	// One basis: that of the longer side is not determined, as squares of few gradients have low rank.
	"soap(most=2)": func() formula { return bothSoap(soapDefaults(2)) },
	"soap(beta1=0.8,beta2=0.9,beta=0.7,eps=0.01,decay=0.2,every=3,most=2)": func() formula {
		return bothSoap(sgd.SOAP{Beta1: 0.8, Beta2: 0.9, Beta: 0.7, Eps: 0.01, Decay: 0.2, Every: 3, Most: 2})
	},
	"shampoo(most=2)": func() formula { return bothShampoo(shampooDefaults(2)) },
	"shampoo(beta1=0.8,beta2=0.9,beta=0.7,eps=0.01,graft=0.1,decay=0.2,every=3,most=3)": func() formula {
		return bothShampoo(sgd.Shampoo{Beta1: 0.8, Beta2: 0.9, Beta: 0.7, Eps: 0.01, Graft: 0.1, Decay: 0.2, Every: 3, Most: 3})
	},
	"shampoo(eps=0.001)": func() formula {
		o := shampooDefaults(8192)
		o.Eps = 0.001
		return bothShampoo(o)
	},
	"dion(0.5)": func() formula { return hidden(dion64(sgd.Dion{Fraction: 0.5, Mu: 0.95}, nil)) },
	"dion(1,mu=0.4,decay=0.2)": func() formula {
		return hidden(dion64(sgd.Dion{Fraction: 1, Mu: 0.4, Decay: 0.2}, nil))
	},
}

// loose are the tolerances of rules that amplify what float32 rounds: an iteration
// multiplies small singular values some hundred times.
var loose = map[string]float64{
	"muon": 1e-5,
	"muon(beta=0.8,nesterov=false,decay=0.2,coefficients=polar,scale=moonshot)": 3e-5,
	"muon(beta=0,coefficients=cubic,scale=spectral)":                            1e-5,
	"groups(muon,on(adamw(decay=0),lr=0.1))":                                    1e-5,
	"normuon":                                                                   1e-5,
	"normuon(beta=0.5,nesterov=false,decay=0.3,coefficients=cubic,steps=9,scale=moonshot,beta2=0.7)": 3e-5,
	"shampoo(most=2)": 1e-4,
	"shampoo(beta1=0.8,beta2=0.9,beta=0.7,eps=0.01,graft=0.1,decay=0.2,every=3,most=3)": 1e-4,
	"shampoo(eps=0.001)": 1e-4,
	"soap(most=2)":       1e-4,
	"soap(beta1=0.8,beta2=0.9,beta=0.7,eps=0.01,decay=0.2,every=3,most=2)": 1e-4,
	"dion(0.5)":                1e-4,
	"dion(1,mu=0.4,decay=0.2)": 1e-4,
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

// normuon64 is Li et al. 2025, as in nanochat.
func normuon64(o sgd.NorMuon) rule64 {
	plain := o.Muon
	plain.Decay, plain.Scale = 0, "jordan"
	base := muon64(plain)
	var v []float64
	return func(g, w matrix64, lr float64, n int) matrix64 {
		r, c := float64(len(g)), float64(len(g[0]))
		x := base(g, w, 1/scale64("jordan", r, c), n)
		lines := x
		if r < c {
			lines = x.t()
		}
		if n == 0 {
			v = make([]float64, len(lines))
		}
		y := zeros64(len(lines), len(lines[0]))
		for i, line := range lines {
			v[i] = o.Beta2*v[i] + (1-o.Beta2)*length(line)*length(line)/float64(len(line))
			for j := range line {
				y[i][j] = line[j] / math.Sqrt(max(v[i], 1e-10))
			}
		}
		if r < c {
			y = y.t()
		}
		return y.plus(lr*scale64(o.Scale, r, c)*length(x.flat())/length(y.flat()), lr*o.Decay, w)
	}
}

// eigen64 is the eigenvectors of a symmetric matrix in columns, the greatest eigenvalue first.
func eigen64(a matrix64) matrix64 {
	n := len(a)
	var e mat.EigenSym
	if !e.Factorize(mat.NewSymDense(n, a.flat()), true) {
		panic("no eigenvectors")
	}
	var v mat.Dense
	e.VectorsTo(&v)
	out := zeros64(n, n)
	for i := range n {
		for j := range n {
			out[i][j] = v.At(i, n-1-j)
		}
	}
	return out
}

// columns64 is the orthonormal factor of a.
func columns64(a matrix64) matrix64 {
	r, c := len(a), len(a[0])
	var f mat.QR
	f.Factorize(mat.NewDense(r, c, a.flat()))
	var q mat.Dense
	f.QTo(&q)
	out := zeros64(r, c)
	for i := range r {
		for j := range c {
			out[i][j] = q.At(i, j)
		}
	}
	return out
}

func soapDefaults(most int) sgd.SOAP {
	return sgd.SOAP{Beta1: 0.95, Beta2: 0.95, Beta: 0.95, Eps: 1e-8, Decay: 0.01, Every: 10, Most: most}
}

// soap64 is Vyas et al. 2024, as in the authors' code.
func soap64(o sgd.SOAP) rule64 {
	var l, r, ql, qr, m, v matrix64
	return func(g, w matrix64, lr float64, n int) matrix64 {
		left, right := len(g) > 1 && len(g) <= o.Most, len(g) > 1 && len(g[0]) <= o.Most
		sum := func() {
			if left {
				l = l.plus(o.Beta, 1-o.Beta, g.times(g.t()))
			}
			if right {
				r = r.plus(o.Beta, 1-o.Beta, g.t().times(g))
			}
		}
		turn := func(x matrix64) matrix64 {
			if left {
				x = ql.t().times(x)
			}
			if right {
				x = x.times(qr)
			}
			return x
		}
		back := func(x matrix64) matrix64 {
			if left {
				x = ql.times(x)
			}
			if right {
				x = x.times(qr.t())
			}
			return x
		}
		if n == 0 {
			l, r = zeros64(len(g), len(g)), zeros64(len(g[0]), len(g[0]))
			m, v = zeros64(len(g), len(g[0])), zeros64(len(g), len(g[0]))
			if sum(); left {
				ql = eigen64(l)
			}
			if right {
				qr = eigen64(r)
			}
			return zeros64(len(g), len(g[0]))
		}
		turned := turn(g)
		m = m.plus(o.Beta1, 1-o.Beta1, turned)
		step := zeros64(len(g), len(g[0]))
		rate := lr * math.Sqrt(1-math.Pow(o.Beta2, float64(n))) / (1 - math.Pow(o.Beta1, float64(n)))
		for i := range v {
			for j := range v[i] {
				v[i][j] = o.Beta2*v[i][j] + (1-o.Beta2)*turned[i][j]*turned[i][j]
				step[i][j] = rate * m[i][j] / (math.Sqrt(v[i][j]) + o.Eps)
			}
		}
		step = back(step)
		if sum(); n%o.Every == 0 {
			m = back(m)
			if left {
				ql, v = power64(l, ql, v)
			}
			if right {
				qr, turned = power64(r, qr, v.t())
				v = turned.t()
			}
			m = turn(m)
		}
		return step.plus(1, lr*o.Decay, w)
	}
}

// power64 sorts the columns of q and the rows of v, and takes a power step.
func power64(l, q, v matrix64) (matrix64, matrix64) {
	along, columns := q.t().times(l).times(q), q.t()
	order := make([]int, len(q))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return int(math.Copysign(1, along[j][j]-along[i][i]))
	})
	sorted, rows := make(matrix64, len(q)), make(matrix64, len(q))
	for i, from := range order {
		sorted[i], rows[i] = columns[from], v[from]
	}
	return columns64(l.times(sorted.t())), rows
}

// both has a rule for the matrix, and one for the bias.
func both(matrix, vector rule64) formula {
	return func(g, w []float64, lr float64, n int) []float64 {
		out := matrix(rows64(g[:formulaWeights], 2), rows64(w[:formulaWeights], 2), lr, n).flat()
		return append(out, vector(rows64(g[formulaWeights:], 1), rows64(w[formulaWeights:], 1), lr, n).flat()...)
	}
}

// bothSoap has the rule for the matrix, and Adam's part of it for the bias.
func bothSoap(o sgd.SOAP) formula {
	vector := o
	vector.Decay = 0
	return both(soap64(o), soap64(vector))
}

func TestSoapVector(t *testing.T) {
	gradients := []matrix64{{{1, 2}, {3, 4}}, {{1, 0}, {0, 1}}}
	o := soapDefaults(10000)
	o.Decay = 0
	twin, rule := weights(t, "soap(decay=0)", soap64(o), zeros64(2, 2), 3e-3, gradients...)
	want := []float64{-.0035300902, -.0023533930, .0023533930, -.0035300902}
	near64(t, "weights", twin[1], 1e-9, want...)
	near64(t, "weights, float32", rule[1], 1e-6*3e-3, want...)
}

// With both bases, sorted and renewed, of a square matrix, and with one of a tall one.
func TestSoapBases(t *testing.T) {
	for _, c := range []struct {
		text       string
		rows, cols int
		o          sgd.SOAP
	}{
		{"soap(every=2,decay=0)", 3, 3, sgd.SOAP{Beta1: 0.95, Beta2: 0.95, Beta: 0.95, Eps: 1e-8, Every: 2, Most: 10000}},
		{"soap(every=1,beta=0.2)", 4, 4, sgd.SOAP{Beta1: 0.95, Beta2: 0.95, Beta: 0.2, Eps: 1e-8, Decay: 0.01, Every: 1, Most: 10000}},
		{"soap(every=3,most=3)", 5, 3, sgd.SOAP{Beta1: 0.95, Beta2: 0.95, Beta: 0.95, Eps: 1e-8, Decay: 0.01, Every: 3, Most: 3}},
	} {
		var gradients []matrix64
		for n := range 12 {
			g := zeros64(c.rows, c.cols)
			for i := range g {
				for j := range g[i] {
					g[i][j] = math.Round(16*math.Sin(float64(1+7*i+3*j+11*n+i*j*n))) / 16
				}
				g[i][i%c.cols] += 2
			}
			gradients = append(gradients, g)
		}
		twin, rule := weights(t, c.text, soap64(c.o), zeros64(c.rows, c.cols), 0.01, gradients...)
		for n := range twin {
			near64(t, c.text, rule[n], 1e-4*0.01, twin[n].flat()...)
		}
	}
}

// dion64 is Ahn et al. 2025, from q on, which is drawn if it is nil.
func dion64(o sgd.Dion, q matrix64) rule64 {
	var m matrix64
	return func(g, w matrix64, lr float64, n int) matrix64 {
		r, c := len(g), len(g[0])
		if n == 0 {
			m = zeros64(r, c)
			if q == nil {
				q = zeros64(c, int(math.Ceil(o.Fraction*float64(min(r, c)))))
				for i := range q {
					for j := range q[i] {
						q[i][j] = float64(float32(rng.New(0, "dion").With(0).Norm(uint64(j*len(q) + i))))
					}
				}
			}
		}
		m = m.plus(1, 1, g)
		p := columns64(m.times(q))
		right := m.t().times(p)
		m = m.plus(1, o.Mu-1, p.times(right.t()))
		columns := right.t()
		for i, column := range columns {
			columns[i] = matrix64{column}.by(1 / (length(column) + 1e-8))[0]
		}
		q = columns.t()
		return p.times(q.t()).plus(lr*math.Sqrt(float64(r)/float64(c)), lr*o.Decay, w)
	}
}

func TestDionVector(t *testing.T) {
	rule := dion64(sgd.Dion{Fraction: 0.5, Mu: 0.95}, matrix64{{1}, {0}})
	near64(t, "step", rule(tall, zeros64(3, 2), 1, 0), 1e-9,
		.1288746217, .1620138101, .3866238650, .4860414303, .6443731083, .8100690505)
	// Behind it M is [[.95, 1.9371428571], …], so the next step without a gradient is that of it.
	m := matrix64{{.95, 1.9371428571}, {2.85, 3.8114285714}, {4.75, 5.6857142857}}
	again := dion64(sgd.Dion{Fraction: 0.5, Mu: 0.95}, matrix64{{.6225235652}, {.7826010534}})
	near64(t, "second step", rule(zeros64(3, 2), m, 1, 1), 1e-9, again(m, m, 1, 0).flat()...)
}

func shampooDefaults(most int) sgd.Shampoo {
	return sgd.Shampoo{Beta1: 0.9, Beta2: 0.999, Beta: 0.99, Eps: 1e-12, Graft: 1e-8, Decay: 0.01, Every: 10, Most: most}
}

// power of a symmetric matrix plus eps·I.
func (m matrix64) power(p, eps float64) matrix64 {
	q := eigen64(m)
	d := q.t().times(m).times(q)
	for i := range d {
		for j := range d {
			if i != j {
				d[i][j] = 0
			}
		}
		d[i][i] = math.Pow(max(d[i][i], 0)+eps, p)
	}
	return q.times(d).times(q.t())
}

// shampoo64 is Shi et al. 2023, grafted on Adam.
func shampoo64(o sgd.Shampoo) rule64 {
	var l, r, a, b, m, v matrix64
	return func(g, w matrix64, lr float64, n int) matrix64 {
		rows, cols := len(g), len(g[0])
		left, right := rows > 1 && rows <= o.Most, rows > 1 && cols <= o.Most
		if n == 0 {
			l, r, m, v = zeros64(rows, rows), zeros64(cols, cols), zeros64(rows, cols), zeros64(rows, cols)
		}
		l, r = l.plus(o.Beta, 1-o.Beta, g.times(g.t())), r.plus(o.Beta, 1-o.Beta, g.t().times(g))
		m = m.plus(o.Beta1, 1-o.Beta1, g)
		step := zeros64(rows, cols)
		t := float64(n + 1)
		for i := range v {
			for j := range v[i] {
				v[i][j] = o.Beta2*v[i][j] + (1-o.Beta2)*g[i][j]*g[i][j]
				step[i][j] = m[i][j] / (1 - math.Pow(o.Beta1, t)) / (math.Sqrt(v[i][j]/(1-math.Pow(o.Beta2, t))) + o.Graft)
			}
		}
		if left || right {
			p := -0.5
			if left && right {
				p = -0.25
			}
			if n%o.Every == 0 {
				full := 1 / (1 - math.Pow(o.Beta, t))
				a, b = l.by(full).power(p, o.Eps), r.by(full).power(p, o.Eps)
			}
			s := m
			if left {
				s = a.times(s)
			}
			if right {
				s = s.times(b)
			}
			step = s.by(length(step.flat()) / length(s.flat()))
		}
		return step.plus(lr, lr*o.Decay, w)
	}
}

// bothShampoo has the rule for the matrix, and Adam for the bias.
func bothShampoo(o sgd.Shampoo) formula {
	vector := o
	vector.Decay = 0
	return both(shampoo64(o), shampoo64(vector))
}
