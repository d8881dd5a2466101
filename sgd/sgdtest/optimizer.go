// Package sgdtest is the conformance suite of package sgd: what an Optimizer
// and a Model promise, as tests that anyone's implementation can be put through.
package sgdtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
//     change of rate needs no correction, unless it claims that its state absorbs
//     rates (sgd.RateInside): then it does;
//   - a run resumed from Slots is bit-equal to one that was not stopped, and so
//     are two runs of the same steps;
//   - it has a momentum if, and only if, it claims one (sgd.Momentous): with a single
//     gradient, and none after it, later updates are zero without;
//   - it is plain gradient descent if, and only if, it claims so (sgd.Bare): w −= lr·g,
//     to the last bit, for gradients and parameters small and large;
//   - if it says which tensors it is for (sgd.Selective), it moves those, and no others;
//   - unless it needs whole tensors, shards of a vector move as the whole does;
//   - if it is sgd.Local, so do the stretches of a vector, and sgd.Advance is
//     Apply and then Update for it as for any other; if it is sgd.Tensorwise, so do
//     its tensors;
//   - a step allocates nothing, and a vector of the wrong length panics.
func Optimizer(t *testing.T, o sgd.Optimizer) {
	for _, c := range optimizerChecks {
		t.Run(c.name, func(t *testing.T) {
			if err := c.check(o); err != nil {
				t.Error(err)
			}
		})
	}
	for _, p := range Problems() {
		t.Run(p.Name, func(t *testing.T) {
			if err := p.Solve(o); err != nil {
				t.Error(err)
			}
		})
	}
}

var optimizerChecks = []struct {
	name  string
	check func(sgd.Optimizer) error
}{
	{"spec", readsBack},
	{"buffers", leavesBuffers},
	{"rate", scalesWithRate},
	{"resume", resumes},
	{"momentum", remembers},
	{"bare", descends},
	{"selection", selects},
	{"shards", splits},
	{"stretches", stretches},
	{"tensors", byTensors},
	{"advance", advances},
	{"allocs", allocatesNothing},
	{"length", refusesLength},
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

// build makes n instances.
func build(o sgd.Optimizer, l sgd.Layout, n int) ([]sgd.Transform, error) {
	out := make([]sgd.Transform, n)
	for i := range out {
		t, err := o.New(l)
		if err != nil {
			return nil, err
		}
		out[i] = t
	}
	return out, nil
}

// at is the step the checks take: a rate that changes as a schedule's would.
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

func sameBits(what string, got, want []float32) error {
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			return fmt.Errorf("%s: value %d is %v, not %v", what, i, got[i], want[i])
		}
	}
	return nil
}

func slots(tr sgd.Transform) []sgd.Slot {
	if s, ok := tr.(sgd.Stateful); ok {
		return s.Slots()
	}
	return nil
}

func readsBack(o sgd.Optimizer) error {
	text := sgd.Optimizers.Spec(o)
	back, err := sgd.Optimizers.Parse(text)
	if err != nil {
		return err
	}
	if again := sgd.Optimizers.Spec(back); again != text {
		return fmt.Errorf("%s reads back as %s", text, again)
	}
	return nil
}

func leavesBuffers(o sgd.Optimizer) error {
	l := Layout()
	poison := func(v []float32) []float32 {
		for i, s := range l.Spans {
			if s.Role == sgd.Buffer {
				for j := range l.View(v, i) {
					l.View(v, i)[j] = float32(math.NaN())
				}
			}
		}
		return v
	}
	tr, err := build(o, l, 2)
	if err != nil {
		return err
	}
	for n := range 5 {
		u, params := noise(l.Size(), uint64(n)), noise(l.Size(), 7)
		before, bad := slices.Clone(u), poison(slices.Clone(u))
		tr[0].Apply(u, params, at(n))
		tr[1].Apply(bad, poison(slices.Clone(params)), at(n))
		each(l, func(i int) { before[i] = u[i] })
		if err := sameBits("buffers after a step", u, before); err != nil {
			return err
		}
		if err := sameBits("NaN in buffers leaked", bad, poison(u)); err != nil {
			return err
		}
	}
	return nil
}

func scalesWithRate(o sgd.Optimizer) (err error) {
	l := Layout()
	tr, err := build(o, l, 2)
	if err != nil {
		return err
	}
	params, inside := noise(l.Size(), 7), false
	defer func() {
		if claimed := sgd.HasRateInside(o); err == nil && claimed && !inside {
			err = fmt.Errorf("%s claims that its state absorbs learning rates, but no slot depends on them; drop RateInside, or let it say no", sgd.Optimizers.Spec(o))
		}
	}()
	for n := range 6 {
		u, v := noise(l.Size(), uint64(n)), noise(l.Size(), uint64(n))
		s := at(n)
		tr[0].Apply(u, params, s)
		s.LR *= 2
		tr[1].Apply(v, params, s)
		each(l, func(i int) { u[i] *= 2 })
		if err := sameBits(fmt.Sprintf("step %d at twice the rate", n), v, u); err != nil {
			return err
		}
		twin := slots(tr[1])
		for i, s := range slots(tr[0]) {
			if err := sameBits("the rate got into slot "+s.Name, twin[i].V, s.V); err != nil {
				if !sgd.HasRateInside(o) {
					return fmt.Errorf("%w; keep it out, or implement sgd.RateInside", err)
				}
				inside = true
			}
		}
	}
	return nil
}

func resumes(o sgd.Optimizer) error {
	l := Layout()
	tr, err := build(o, l, 3)
	if err != nil {
		return err
	}
	straight, stopped, resumed := tr[0], tr[1], tr[2]
	a, b := noise(l.Size(), 7), noise(l.Size(), 7)
	run(straight, a, 0, 10)
	run(stopped, b, 0, 10)
	if err := sameBits("two runs of the same steps", b, a); err != nil {
		return err
	}
	from, to := slots(stopped), slots(resumed)
	if len(from) != len(to) {
		return fmt.Errorf("%d slots after ten steps, %d before any", len(from), len(to))
	}
	seen := map[string]bool{}
	for i, s := range from {
		if s.Name == "" || s.Name != to[i].Name || seen[s.Name] {
			return fmt.Errorf("slot %d is called %q here and %q there; names are unique and lasting", i, s.Name, to[i].Name)
		}
		seen[s.Name] = true
		if len(s.V) != l.Size() || len(to[i].V) != l.Size() {
			return fmt.Errorf("slot %q has %d values for a layout of %d", s.Name, len(s.V), l.Size())
		}
		copy(to[i].V, s.V)
	}
	run(straight, a, 10, 20)
	run(resumed, b, 10, 20)
	return sameBits("a resumed run", b, a)
}

// remembers compares what o claims of a momentum with how it answers one gradient.
func remembers(o sgd.Optimizer) error {
	switch claimed, shows := sgd.HasMomentum(o), sgd.ShowsMomentum(o, Layout()); {
	case claimed && !shows:
		return fmt.Errorf("%s claims a momentum, but a gradient is in no update after its own; drop Momentous, or let it say no", sgd.Optimizers.Spec(o))
	case !claimed && shows:
		return fmt.Errorf("%s has a momentum and does not claim it: a gradient is in updates after its own; implement sgd.Momentous", sgd.Optimizers.Spec(o))
	}
	return nil
}

// descends compares with w −= lr·g.
func descends(o sgd.Optimizer) error {
	l := Layout()
	tr, err := o.New(l)
	if err != nil {
		return err
	}
	bare := true
	for n := range 8 {
		s := at(n)
		scale := float32(math.Pow(10, float64(n-4)))
		u, params := noise(l.Size(), uint64(n)), noise(l.Size(), uint64(n)+50)
		for i := range u {
			u[i], params[i] = u[i]*scale, params[i]*scale
		}
		want := slices.Clone(u)
		each(l, func(i int) { want[i] *= float32(s.LR) })
		tr.Apply(u, params, s)
		bare = bare && sameBits("", u, want) == nil
	}
	switch claimed := sgd.IsBare(o); {
	case claimed && !bare:
		return fmt.Errorf("%s claims to be plain gradient descent, but its update is not lr·g; drop Bare, or let it say no", sgd.Optimizers.Spec(o))
	case !claimed && bare:
		return fmt.Errorf("%s is plain gradient descent and does not claim it: its update is lr·g; implement sgd.Bare", sgd.Optimizers.Spec(o))
	}
	return nil
}

// selects compares the tensors that move with those that o says it is for.
func selects(o sgd.Optimizer) error {
	chosen, ok := o.(sgd.Selective)
	if !ok {
		return nil
	}
	l := Layout()
	tr, err := o.New(l)
	if err != nil {
		return err
	}
	moved := make([]bool, len(l.Spans))
	for n := range 8 {
		u := noise(l.Size(), uint64(n))
		tr.Apply(u, noise(l.Size(), uint64(n)+50), at(n))
		for i, s := range l.Spans {
			moves := s.Role != sgd.Buffer && slices.ContainsFunc(u[s.Off:s.End()], func(v float32) bool { return v != 0 })
			if moves && !chosen.Takes(s) {
				return fmt.Errorf("%s says that it is not for %s, but that tensor moves; see sgd.Selective", sgd.Optimizers.Spec(o), s.Name)
			}
			moved[i] = moved[i] || moves
		}
	}
	for i, s := range l.Spans {
		if chosen.Takes(s) && !moved[i] {
			return fmt.Errorf("%s says that it is for %s, but that tensor stays; see sgd.Selective", sgd.Optimizers.Spec(o), s.Name)
		}
	}
	return nil
}

func splits(o sgd.Optimizer) error {
	if sgd.NeedsWhole(o) {
		return nil
	}
	l := Layout()
	whole, err := build(o, l, 1)
	if err != nil {
		return err
	}
	want := noise(l.Size(), 7)
	run(whole[0], want, 0, 10)
	for cut := 1; cut < l.Size(); cut++ {
		left, err := o.New(part(l, 0, cut))
		if err != nil {
			return err
		}
		right, err := o.New(part(l, cut, l.Size()))
		if err != nil {
			return err
		}
		got := noise(l.Size(), 7)
		for n := range 10 {
			u := noise(l.Size(), uint64(n)+100)
			left.Apply(u[:cut], got[:cut], at(n))
			right.Apply(u[cut:], got[cut:], at(n))
			sgd.Update(got, u)
		}
		if err := sameBits(fmt.Sprintf("shards cut at %d", cut), got, want); err != nil {
			return err
		}
	}
	return nil
}

// stretches cuts the vector of a Local everywhere, inside buffers too.
func stretches(o sgd.Optimizer) error {
	l := Layout()
	for cut := range l.Size() + 1 {
		tr, err := build(o, l, 2)
		if err != nil {
			return err
		}
		part, ok := tr[1].(sgd.Local)
		if !ok {
			return nil
		}
		params := noise(l.Size(), 7)
		for n := range 3 {
			want, got := noise(l.Size(), uint64(n)+100), noise(l.Size(), uint64(n)+100)
			tr[0].Apply(want, params, at(n))
			part.ApplyRange(got, params, sgd.Range{Lo: cut, Hi: l.Size()}, at(n))
			part.ApplyRange(got, params, sgd.Range{Hi: cut}, at(n))
			if err := sameBits(fmt.Sprintf("stretches cut at %d", cut), got, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// byTensors compares the tensors of a Tensorwise, last one first, with the whole.
func byTensors(o sgd.Optimizer) error {
	l := Layout()
	tr, err := build(o, l, 2)
	if err != nil {
		return err
	}
	tw, ok := tr[1].(sgd.Tensorwise)
	if !ok {
		return nil
	}
	params := noise(l.Size(), 7)
	for n := range 6 {
		u, v := noise(l.Size(), uint64(n)), noise(l.Size(), uint64(n))
		tr[0].Apply(u, params, at(n))
		for i := len(l.Spans) - 1; i >= 0; i-- {
			if s := l.Spans[i]; s.Role != sgd.Buffer && s.Len() > 0 {
				tw.ApplyTensor(v, params, sgd.Range{Lo: s.Off, Hi: s.End()}, at(n))
			}
		}
		if err := sameBits(fmt.Sprintf("step %d, tensor by tensor", n), v, u); err != nil {
			return err
		}
	}
	return nil
}

// advances compares the fused step with the two that it stands for, on a vector
// longer than a block, with buffers in between.
func advances(o sgd.Optimizer) error {
	var l sgd.Layout
	for n := 300; l.Size() < 12000; n = n*5/4 + 1 {
		l.Add("w", sgd.Weight, 30, n/30)
		l.Add("b", sgd.Bias, 1, n/20)
		l.Add("stat", sgd.Buffer, 1, n/10)
	}
	tr, err := build(o, l, 2)
	if err != nil {
		return err
	}
	got, want := noise(l.Size(), 7), noise(l.Size(), 7)
	for n := range 5 {
		u, v := noise(l.Size(), uint64(n)+100), noise(l.Size(), uint64(n)+100)
		sgd.Advance(tr[0], u, got, at(n))
		tr[1].Apply(v, want, at(n))
		sgd.Update(want, v)
		if err := sameBits("Advance: update", u, v); err != nil {
			return err
		}
		if err := sameBits("Advance: parameters", got, want); err != nil {
			return err
		}
	}
	return nil
}

// part is the layout of values lo … hi−1 of l, as vectors.
func part(l sgd.Layout, lo, hi int) sgd.Layout {
	var out sgd.Layout
	for _, s := range l.Spans {
		if n := min(s.End(), hi) - max(s.Off, lo); n > 0 {
			out.Add(s.Name, s.Role, 1, n)
		}
	}
	return out
}

func allocatesNothing(o sgd.Optimizer) error {
	l := Layout()
	tr, err := build(o, l, 1)
	if err != nil {
		return err
	}
	u, params, n := noise(l.Size(), 1), noise(l.Size(), 2), 0
	if a := testing.AllocsPerRun(50, func() { tr[0].Apply(u, params, at(n)); n++ }); a != 0 {
		return fmt.Errorf("%v allocations a step", a)
	}
	if a := testing.AllocsPerRun(50, func() { sgd.Advance(tr[0], u, params, at(n)); n++ }); a != 0 {
		return fmt.Errorf("%v allocations an Advance", a)
	}
	return nil
}

func refusesLength(o sgd.Optimizer) error {
	l := Layout()
	tr, err := build(o, l, 1)
	if err != nil {
		return err
	}
	panics := func(f func(u, params []float32, s sgd.Step), n int) (yes bool) {
		defer func() { yes = recover() != nil }()
		u, params := make([]float32, n, l.Size()+2), make([]float32, n, l.Size()+2)
		f(u, params, at(0))
		return false
	}
	advance := func(u, params []float32, s sgd.Step) { sgd.Advance(tr[0], u, params, s) }
	for _, n := range []int{0, l.Size() - 1, l.Size() + 1} {
		if !panics(tr[0].Apply, n) || !panics(advance, n) {
			return fmt.Errorf("%d values for a layout of %d went unnoticed", n, l.Size())
		}
	}
	return nil
}

// BenchmarkOptimizers times a step of every registered optimizer on n values.
func BenchmarkOptimizers(b *testing.B, n int) {
	for _, name := range sgd.Optimizers.Names() {
		o, _ := sgd.Optimizers.Proto(name)
		if f, ok := o.(sgd.Filter); ok {
			o = sgd.Chain{Parts: []sgd.Optimizer{f, sgd.Plain{}}}
		}
		b.Run(sgd.Optimizers.Spec(o), func(b *testing.B) { BenchmarkOptimizer(b, o, n) })
	}
}

// BenchmarkOptimizer times a step of o on n values: Advance, and the same in two
// calls. GB/s counts gradient, parameters and every slot, in and out, once.
func BenchmarkOptimizer(b *testing.B, o sgd.Optimizer, n int) {
	var l sgd.Layout
	l.Add("w", sgd.Weight, 1, n)
	tr, err := o.New(l)
	if err != nil {
		b.Fatal(err)
	}
	u, params, grad := noise(n, 1), noise(n, 2), noise(n, 3)
	run := func(name string, step func(s sgd.Step)) {
		b.Run(name, func(b *testing.B) {
			for i := range b.N {
				if i%8 == 0 { // an update is the next gradient, but not for long: it may grow or vanish
					b.StopTimer()
					copy(u, grad)
					b.StartTimer()
				}
				step(sgd.Step{N: i, LR: 1})
			}
			seconds := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(seconds/float64(n)*1e9, "ns/param")
			b.ReportMetric(float64(4*n*(4+2*len(slots(tr))))/seconds/1e9, "GB/s")
		})
	}
	run("advance", func(s sgd.Step) { sgd.Advance(tr, u, params, s) })
	run("apply,update", func(s sgd.Step) { tr.Apply(u, params, s); sgd.Update(params, u) })
}
