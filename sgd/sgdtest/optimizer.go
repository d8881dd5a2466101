// Package sgdtest is the conformance suite of package sgd: what an Optimizer
// and a Model promise, as tests that anyone's implementation can be put through.
package sgdtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// Optimizers puts every registered optimizer, with its defaults, through
// Optimizer. A filter is tested in front of plain gradient descent.
func Optimizers(t *testing.T) {
	for _, name := range sgd.Optimizers.Names() {
		o, _ := sgd.Optimizers.Proto(name)
		if f, ok := o.(sgd.Filter); ok {
			t.Run(name+"/alone", func(t *testing.T) {
				if _, err := f.New(Layout()); err == nil {
					t.Error("a filter must refuse to be the whole optimizer")
				}
			})
			o = sgd.Chain{Parts: []sgd.Optimizer{f, sgd.Plain{}}}
		}
		t.Run(name, func(t *testing.T) { Optimizer(t, o) })
	}
}

// Optimizer checks all that an update rule promises:
//
//   - its spec text comes back as the same text;
//   - it brings every problem of Problems down by the factor the problem asks
//     for, at some learning rate;
//   - it reads and writes no buffer span, not even one full of NaN;
//   - the learning rate scales the update and stays out of the state, so that a
//     change of rate needs no correction;
//   - a run resumed from Slots is bit-equal to one that was not stopped, and so
//     are two runs of the same steps;
//   - unless it needs whole tensors, shards of a vector move as the whole does;
//   - a step allocates nothing, and a vector of the wrong length panics.
func Optimizer(t *testing.T, o sgd.Optimizer) {
	t.Run("spec", func(t *testing.T) {
		text := sgd.Optimizers.Spec(o)
		back, err := sgd.Optimizers.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if again := sgd.Optimizers.Spec(back); again != text {
			t.Errorf("%s reads back as %s", text, again)
		}
	})
	for _, p := range Problems() {
		t.Run(p.Name, func(t *testing.T) { converges(t, o, p) })
	}
	t.Run("buffers", func(t *testing.T) { leavesBuffers(t, o) })
	t.Run("rate", func(t *testing.T) { scalesWithRate(t, o) })
	t.Run("resume", func(t *testing.T) { resumes(t, o) })
	t.Run("shards", func(t *testing.T) { splits(t, o) })
	t.Run("allocs", func(t *testing.T) { allocatesNothing(t, o) })
	t.Run("length", func(t *testing.T) { refusesLength(t, o) })
}

// Layout is the suite's vector: every role, buffers at the start, in the middle
// and at the end, and neighbours to be merged.
func Layout() sgd.Layout {
	var l sgd.Layout
	l.Add("in.stat", sgd.Buffer, 1, 3)
	l.Add("in.w", sgd.Weight, 4, 5)
	l.Add("in.b", sgd.Bias, 1, 4)
	l.Add("norm.scale", sgd.Norm, 1, 4)
	l.Add("norm.mean", sgd.Buffer, 1, 4)
	l.Add("norm.var", sgd.Buffer, 1, 4)
	l.Add("out.w", sgd.Weight, 3, 4)
	l.Add("out.none", sgd.Buffer, 0, 0)
	l.Add("out.b", sgd.Bias, 1, 3)
	l.Add("end", sgd.Buffer, 1, 1)
	return l
}

// each calls f on the offset of every trainable value.
func each(l sgd.Layout, f func(i int)) {
	for _, s := range l.Spans {
		if s.Role == sgd.Buffer {
			continue
		}
		for i := s.Off; i < s.End(); i++ {
			f(i)
		}
	}
}

// noise is a vector of normal numbers; equal seeds give equal vectors.
func noise(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func build(t testing.TB, o sgd.Optimizer, l sgd.Layout) sgd.Transform {
	t.Helper()
	tr, err := o.New(l)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// at is the step the tests take: a rate that changes as a schedule's would.
func at(n int) sgd.Step {
	return sgd.Step{N: n, Epoch: float64(n) / 8, LR: 0.1 / float64(1+n%3)}
}

// run takes steps from … to−1 on random gradients, in place.
func run(tr sgd.Transform, params []float32, from, to int) {
	for n := from; n < to; n++ {
		u := noise(len(params), uint64(n)+100)
		tr.Apply(u, params, at(n))
		sgd.Update(params, u)
	}
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %v, not %v", what, i, got[i], want[i])
		}
	}
}

func slots(tr sgd.Transform) []sgd.Slot {
	if s, ok := tr.(sgd.Stateful); ok {
		return s.Slots()
	}
	return nil
}

func converges(t *testing.T, o sgd.Optimizer, p Problem) {
	var l sgd.Layout
	l.Add("stat", sgd.Buffer, 1, 2)
	l.Add("w", sgd.Weight, 1, len(p.Start))
	var best float64 = math.Inf(1)
	for lr := 1.0; lr > 1e-5; lr /= 3 {
		tr := build(t, o, l)
		params, u := make([]float32, l.Size()), make([]float32, l.Size())
		x, g := make([]float64, len(p.Start)), make([]float64, len(p.Start))
		for i, v := range p.Start {
			params[2+i] = float32(v)
		}
		first := p.F(p.Start, g)
		for n := 0; n < p.Steps; n++ {
			for i := range x {
				x[i] = float64(params[2+i])
			}
			f := p.F(x, g) / first
			if !(f < 1e6) {
				break
			}
			if best = min(best, f); best <= p.Reach {
				return
			}
			for i, v := range g {
				u[2+i] = float32(v)
			}
			tr.Apply(u, params, sgd.Step{N: n, LR: lr})
			sgd.Update(params, u)
			u[0], u[1] = 0, 0
		}
	}
	t.Errorf("at no learning rate did %d steps bring the loss to %g of its start; the best was %g", p.Steps, p.Reach, best)
}

func leavesBuffers(t *testing.T, o sgd.Optimizer) {
	l := Layout()
	nan := float32(math.NaN())
	poison := func(v []float32) []float32 {
		for i, s := range l.Spans {
			if s.Role == sgd.Buffer {
				for j := range l.View(v, i) {
					l.View(v, i)[j] = nan
				}
			}
		}
		return v
	}
	clean, dirty := build(t, o, l), build(t, o, l)
	for n := range 5 {
		u, params := noise(l.Size(), uint64(n)), noise(l.Size(), 7)
		v := poison(append([]float32(nil), u...))
		before := append([]float32(nil), u...)
		clean.Apply(u, params, at(n))
		dirty.Apply(v, poison(append([]float32(nil), params...)), at(n))
		each(l, func(i int) { before[i] = u[i] })
		sameBits(t, "buffers after a step", u, before)
		sameBits(t, "NaN in buffers leaked", v, poison(append([]float32(nil), u...)))
	}
}

func scalesWithRate(t *testing.T, o sgd.Optimizer) {
	l := Layout()
	one, two := build(t, o, l), build(t, o, l)
	params := noise(l.Size(), 7)
	for n := range 6 {
		u, v := noise(l.Size(), uint64(n)), noise(l.Size(), uint64(n))
		s := at(n)
		one.Apply(u, params, s)
		s.LR *= 2
		two.Apply(v, params, s)
		each(l, func(i int) { u[i] *= 2 })
		sameBits(t, fmt.Sprintf("step %d at twice the rate", n), v, u)
	}
}

func resumes(t *testing.T, o sgd.Optimizer) {
	l := Layout()
	straight, stopped := build(t, o, l), build(t, o, l)
	a, b := noise(l.Size(), 7), noise(l.Size(), 7)
	run(straight, a, 0, 10)
	run(stopped, b, 0, 10)
	sameBits(t, "two runs of the same steps", b, a)

	resumed := build(t, o, l)
	from, to := slots(stopped), slots(resumed)
	if len(from) != len(to) {
		t.Fatalf("%d slots after ten steps, %d before any", len(from), len(to))
	}
	seen := map[string]bool{}
	for i, s := range from {
		if s.Name == "" || s.Name != to[i].Name || seen[s.Name] {
			t.Errorf("slot %d is called %q here and %q there; names are unique and lasting", i, s.Name, to[i].Name)
		}
		seen[s.Name] = true
		if len(s.V) != l.Size() || len(to[i].V) != l.Size() {
			t.Fatalf("slot %q has %d values for a layout of %d", s.Name, len(s.V), l.Size())
		}
		copy(to[i].V, s.V)
	}
	run(straight, a, 10, 20)
	run(resumed, b, 10, 20)
	sameBits(t, "a resumed run", b, a)
}

func splits(t *testing.T, o sgd.Optimizer) {
	if sgd.NeedsWhole(o) {
		t.Skip("needs whole tensors")
	}
	l := Layout()
	want := noise(l.Size(), 7)
	run(build(t, o, l), want, 0, 10)
	for cut := 1; cut < l.Size(); cut++ {
		left, right := cutLayout(l, 0, cut), cutLayout(l, cut, l.Size())
		lt, rt := build(t, o, left), build(t, o, right)
		got := noise(l.Size(), 7)
		for n := range 10 {
			u := noise(l.Size(), uint64(n)+100)
			lt.Apply(u[:cut], got[:cut], at(n))
			rt.Apply(u[cut:], got[cut:], at(n))
			sgd.Update(got, u)
		}
		sameBits(t, fmt.Sprintf("cut at %d", cut), got, want)
	}
}

// cutLayout is the layout of values lo … hi−1 of l, as vectors.
func cutLayout(l sgd.Layout, lo, hi int) sgd.Layout {
	var out sgd.Layout
	for _, s := range l.Spans {
		if n := min(s.End(), hi) - max(s.Off, lo); n > 0 {
			out.Add(s.Name, s.Role, 1, n)
		}
	}
	return out
}

func allocatesNothing(t *testing.T, o sgd.Optimizer) {
	l := Layout()
	tr := build(t, o, l)
	u, params, n := noise(l.Size(), 1), noise(l.Size(), 2), 0
	if a := testing.AllocsPerRun(50, func() { tr.Apply(u, params, at(n)); n++ }); a != 0 {
		t.Errorf("%v allocations a step", a)
	}
}

func refusesLength(t *testing.T, o sgd.Optimizer) {
	l := Layout()
	tr := build(t, o, l)
	for _, n := range []int{0, l.Size() - 1, l.Size() + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d values for a layout of %d went unnoticed", n, l.Size())
				}
			}()
			v := make([]float32, n, l.Size()+2)
			tr.Apply(v, v, at(0))
		}()
	}
}

// BenchmarkOptimizers times a step of every registered optimizer on n values.
// GB/s counts the gradient in, the update out, and every slot in and out, once.
func BenchmarkOptimizers(b *testing.B, n int) {
	for _, name := range sgd.Optimizers.Names() {
		o, _ := sgd.Optimizers.Proto(name)
		if f, ok := o.(sgd.Filter); ok {
			o = sgd.Chain{Parts: []sgd.Optimizer{f, sgd.Plain{}}}
		}
		b.Run(sgd.Optimizers.Spec(o), func(b *testing.B) { BenchmarkOptimizer(b, o, n) })
	}
}

// BenchmarkOptimizer times a step of o on n values.
func BenchmarkOptimizer(b *testing.B, o sgd.Optimizer, n int) {
	var l sgd.Layout
	l.Add("w", sgd.Weight, 1, n)
	tr := build(b, o, l)
	u, params, grad := noise(n, 1), noise(n, 2), noise(n, 3)
	b.ResetTimer()
	for i := range b.N {
		if i%8 == 0 { // an update is the next gradient, but not for long: it may grow or vanish
			b.StopTimer()
			copy(u, grad)
			b.StartTimer()
		}
		tr.Apply(u, params, sgd.Step{N: i, LR: 1})
	}
	bytes := 4 * n * (2 + 2*len(slots(tr)))
	b.ReportMetric(float64(bytes)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
}
