package lbfgs_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/sgd/lbfgs"
)

// problem is a function with its gradient; cut says into how many pieces the
// vectors are cut, as they are on shards.
type problem struct {
	f    func(x []float64) float64
	grad func(g, x []float64)
	cut  int
	mem  lbfgs.Memory
	at   []float64 // losses, as evaluated
}

func (p *problem) pieces() (out []lbfgs.Memory) {
	n := len(p.mem[0])
	for i := range p.cut {
		var piece lbfgs.Memory
		for _, v := range p.mem {
			piece = append(piece, v[i*n/p.cut:(i+1)*n/p.cut])
		}
		out = append(out, piece)
	}
	return out
}

func (p *problem) Do(_ context.Context, ops ...lbfgs.Op) ([]float64, error) {
	ops, err := lbfgs.ParseOps(lbfgs.AppendOps(nil, ops), len(p.mem))
	if err != nil {
		return nil, err
	}
	var sum []float64
	for _, piece := range p.pieces() {
		dots := piece.Do(nil, ops)
		if sum == nil {
			sum = make([]float64, len(dots))
		}
		for i, d := range dots {
			sum[i] += d
		}
	}
	return sum, nil
}

func (p *problem) Evaluate(context.Context) (float64, error) {
	x := wide(p.mem[lbfgs.X])
	g := make([]float64, len(x))
	p.grad(g, x)
	for i := range g {
		p.mem[lbfgs.G][i] = float32(g[i])
	}
	p.at = append(p.at, p.f(x))
	return p.at[len(p.at)-1], nil
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func quadratic(n int, condition float64) (f func([]float64) float64, grad func(g, x []float64)) {
	lambda := func(i int) float64 { return math.Pow(condition, -float64(i)/float64(n-1)) }
	f = func(x []float64) (sum float64) {
		for i, v := range x {
			sum += lambda(i) * (v - 1) * (v - 1) / 2
		}
		return sum
	}
	return f, func(g, x []float64) {
		for i, v := range x {
			g[i] = lambda(i) * (v - 1)
		}
	}
}

func rosenbrock(x []float64) (sum float64) {
	for i := range len(x) - 1 {
		a, b := 1-x[i], x[i+1]-x[i]*x[i]
		sum += a*a + 100*b*b
	}
	return sum
}

func rosenbrockGrad(g, x []float64) {
	clear(g)
	for i := range len(x) - 1 {
		b := x[i+1] - x[i]*x[i]
		g[i] += -2*(1-x[i]) - 400*x[i]*b
		g[i+1] += 200 * b
	}
}

// pair is a step and how the gradient changed over it.
type pair struct{ s, y *mat.VecDense }

// inverse is the approximation of the inverse Hessian that the BFGS formula makes
// of pairs, oldest first: H ← (I − ρsyᵀ)H(I − ρysᵀ) + ρssᵀ.
func inverse(n int, pairs []pair) *mat.Dense {
	h := mat.NewDense(n, n, nil)
	last := pairs[len(pairs)-1]
	for i := range n {
		h.Set(i, i, mat.Dot(last.s, last.y)/mat.Dot(last.y, last.y))
	}
	for _, q := range pairs {
		rho := 1 / mat.Dot(q.s, q.y)
		left, outer := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
		left.Outer(-rho, q.s, q.y)
		for i := range n {
			left.Set(i, i, 1+left.At(i, i))
		}
		outer.Outer(rho, q.s, q.s)
		h.Product(left, h, left.T())
		h.Add(h, outer)
	}
	return h
}

// trajectory is the losses that L-BFGS goes through on one machine in float64,
// with matrices in place of the two loops.
func trajectory(p *problem, start []float64, history, iterations int) (out []float64) {
	n := len(start)
	at := func(x *mat.VecDense) (float64, *mat.VecDense) {
		g := mat.NewVecDense(n, nil)
		p.grad(g.RawVector().Data, x.RawVector().Data)
		return p.f(x.RawVector().Data), g
	}
	x := mat.NewVecDense(n, start)
	f, g := at(x)
	var pairs []pair
	for out = append(out, f); len(out) <= iterations; out = append(out, f) {
		d, t := mat.NewVecDense(n, nil), 1.0
		if len(pairs) == 0 {
			d.CloneFromVec(g)
			t = 1 / mat.Norm(g, 2)
		} else {
			d.MulVec(inverse(n, pairs), g)
		}
		for ; ; t /= 2 {
			next := mat.NewVecDense(n, nil)
			next.AddScaledVec(x, -t, d)
			ft, gt := at(next)
			if ft > f-1e-4*t*mat.Dot(d, g) {
				continue
			}
			q := pair{mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)}
			q.s.SubVec(next, x)
			q.y.SubVec(gt, g)
			pairs = append(pairs, q)
			pairs = pairs[max(0, len(pairs)-history):]
			x, f, g = next, ft, gt
			break
		}
	}
	return out
}

// The points are those of the textbook on one machine, whether vectors are whole
// or in pieces, until rounding parts them.
func TestSameTrajectory(t *testing.T) {
	for _, c := range []struct {
		name                string
		n, history, compare int
		rosenbrock          bool
	}{
		{"quadratic", 40, 5, 30, false}, {"quadratic, long history", 40, 10, 30, false}, {"rosenbrock", 4, 6, 12, true},
	} {
		for _, cut := range []int{1, 3} {
			p := &problem{cut: cut, mem: lbfgs.NewMemory(c.history, c.n)}
			if p.f, p.grad = quadratic(c.n, 100); c.rosenbrock {
				p.f, p.grad = rosenbrock, rosenbrockGrad
			}
			for i := range p.mem[lbfgs.X] {
				p.mem[lbfgs.X][i] = -1 + float32(i%3)/4
			}
			want := trajectory(p, wide(p.mem[lbfgs.X]), c.history, c.compare)
			m := lbfgs.New(p, c.history)
			worst := 0.0
			for k := 1; k < len(want); k++ {
				if _, err := m.Iterate(context.Background()); err != nil {
					t.Fatalf("%s: iteration %d: %v", c.name, k, err)
				}
				worst = max(worst, math.Abs(m.Loss-want[k])/(math.Abs(want[k])+1e-3*want[0]))
			}
			if len(want) < c.compare || worst > 1e-3 {
				t.Errorf("%s in %d pieces: %d iterations, off by up to %g", c.name, cut, len(want), worst)
			}
		}
	}
}

// The two-loop recursion multiplies by the matrix that the BFGS formula makes of
// the same pairs.
func TestDirectionIsThatOfBFGS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "n")
		history := rapid.IntRange(1, 4).Draw(t, "history")
		steps := rapid.IntRange(1, 5).Draw(t, "steps")
		f, grad := quadratic(n, 8)
		p := &problem{f: f, grad: grad, cut: 1, mem: lbfgs.NewMemory(history, n)}
		for i := range n {
			p.mem[lbfgs.X][i] = float32(rapid.Float64Range(-3, 3).Draw(t, "x"))
		}
		m := lbfgs.New(p, history)
		var pairs []pair
		for range steps {
			if _, err := m.Iterate(context.Background()); err != nil {
				return // at the minimum already
			}
			d := func(a, b lbfgs.Vec) *mat.VecDense {
				v := mat.NewVecDense(n, wide(p.mem[a]))
				v.SubVec(v, mat.NewVecDense(n, wide(p.mem[b])))
				return v
			}
			pairs = append(pairs, pair{d(lbfgs.X, lbfgs.X0), d(lbfgs.G, lbfgs.G0)})
		}
		if len(m.Pairs) != min(steps, history) {
			return // a pair was left out
		}
		var want mat.VecDense
		g := mat.NewVecDense(n, wide(p.mem[lbfgs.G]))
		want.MulVec(inverse(n, pairs[len(pairs)-len(m.Pairs):]), g)
		if mat.Norm(g, 2) < 1e-3 {
			return // differences of such gradients are rounding
		}
		_, _ = m.Iterate(context.Background())
		got := mat.NewVecDense(n, wide(p.mem[lbfgs.D]))
		got.AddVec(got, &want)
		if mat.Norm(got, 2) > 1e-2*mat.Norm(&want, 2) {
			t.Fatalf("d = %v, want −%v", p.mem[lbfgs.D], want.RawVector().Data)
		}
	})
}

// A search ends at the minimum, as far as float32 can tell, and says so.
func TestConverges(t *testing.T) {
	p := &problem{f: rosenbrock, grad: rosenbrockGrad, cut: 2, mem: lbfgs.NewMemory(8, 6)}
	m := lbfgs.New(p, 8)
	var err error
	for k := 0; k < 500 && err == nil; k++ {
		_, err = m.Iterate(context.Background())
	}
	if !errors.Is(err, lbfgs.ErrConverged) || m.Loss > 1e-8 {
		t.Errorf("loss %g, %v", m.Loss, err)
	}
}

// Where there is no loss a step is halved; a start without one is an error.
func TestBeyondTheEdge(t *testing.T) {
	p := &problem{cut: 1, mem: lbfgs.NewMemory(3, 1)}
	p.f = func(x []float64) float64 { return x[0] - math.Log(x[0]) } // NaN below 0, minimum at 1
	p.grad = func(g, x []float64) { g[0] = 1 - 1/x[0] }
	p.mem[lbfgs.X][0] = 8
	m := lbfgs.New(p, 3)
	var err error
	for k := 0; k < 100 && err == nil; k++ {
		_, err = m.Iterate(context.Background())
	}
	if math.Abs(float64(p.mem[lbfgs.X][0])-1) > 1e-2 || !slices.ContainsFunc(p.at, math.IsNaN) {
		t.Errorf("ended at %v after losses %v", p.mem[lbfgs.X], p.at)
	}
	p.mem[lbfgs.X][0] = -1
	m.Changed()
	if _, err := m.Iterate(context.Background()); err == nil || errors.Is(err, lbfgs.ErrConverged) {
		t.Errorf("began where there is no loss: %v", err)
	}
}

func FuzzParseOps(f *testing.F) {
	f.Add(lbfgs.AppendOps(nil, []lbfgs.Op{lbfgs.Copied(lbfgs.D, lbfgs.G), lbfgs.Added(lbfgs.X, -0.5, lbfgs.D), lbfgs.Dotted(lbfgs.D, lbfgs.G)}))
	f.Add([]byte{9, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		ops, err := lbfgs.ParseOps(b, lbfgs.Vectors(2))
		if err != nil {
			return
		}
		if again := lbfgs.AppendOps(nil, ops); !slices.Equal(again, b) {
			t.Errorf("%x became %x", b, again)
		}
		lbfgs.NewMemory(2, 3).Do(nil, ops)
	})
}
