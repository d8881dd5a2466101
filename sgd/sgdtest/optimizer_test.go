package sgdtest

import (
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// wrongLocal counts the stretches it was given.
type wrongLocal struct{ *wrongDescent }

func (t wrongLocal) ApplyRange(u, params []float32, r sgd.Range, s sgd.Step) {
	t.n++
	for i := r.Lo; i < r.Hi; i++ {
		u[i] *= t.n
	}
}

type wrongInParts struct{ wrong }

func (o wrongInParts) New(l sgd.Layout) (sgd.Transform, error) {
	t, _ := o.wrong.New(l)
	return wrongLocal{t.(*wrongDescent)}, nil
}

// wrong is gradient descent with a mistake in it.
type wrong struct {
	spoil func(t *wrongDescent, u []float32, s sgd.Step)
	slots bool
}

func (o wrong) New(l sgd.Layout) (sgd.Transform, error) {
	return &wrongDescent{o: o, l: l, v: make([]float32, l.Size())}, nil
}

type wrongDescent struct {
	o wrong
	l sgd.Layout
	n float32
	v []float32
}

func (t *wrongDescent) Apply(u, _ []float32, s sgd.Step) {
	each(t.l, func(i int) { u[i] *= float32(s.LR) })
	t.o.spoil(t, u, s)
}

func (t *wrongDescent) Slots() []sgd.Slot {
	if !t.o.slots {
		return nil
	}
	return []sgd.Slot{{Name: "v", V: t.v}}
}

// claiming says of itself whether it has a momentum.
type claiming struct {
	wrong
	momentum bool
}

func (o claiming) Momentous() bool { return o.momentum }

// modest says of itself whether it is plain gradient descent.
type modest struct {
	wrong
	bare bool
}

func (o modest) Bare() bool { return o.bare }

// choosing says that it is for some tensors.
type choosing struct {
	wrong
	takes func(sgd.Span) bool
}

func (o choosing) Takes(s sgd.Span) bool { return o.takes(s) }

// absorbing claims that its state absorbs learning rates.
type absorbing struct{ wrong }

func (absorbing) RateInside() bool { return true }

// mixing says that it treats every tensor by itself.
type mixing struct{ wrong }

func (o mixing) New(l sgd.Layout) (sgd.Transform, error) {
	t, err := o.wrong.New(l)
	return wrongTensors{t.(*wrongDescent)}, err
}

type wrongTensors struct{ *wrongDescent }

func (t wrongTensors) Tensors() []sgd.Range { return nil }

// ApplyTensor takes the step of the whole vector, once.
func (t wrongTensors) ApplyTensor(u, params []float32, r sgd.Range, s sgd.Step) {
	if r.Lo == 3 {
		t.Apply(u, params, s)
	}
}

var sink []float32

func TestSuiteFindsMistakes(t *testing.T) {
	check := func(name string) func(sgd.Optimizer) error {
		for _, c := range optimizerChecks {
			if c.name == name {
				return c.check
			}
		}
		t.Fatalf("no check %s", name)
		return nil
	}
	for what, c := range map[string]struct {
		check, want string
		spoil       func(t *wrongDescent, u []float32, s sgd.Step)
		slots       bool
	}{
		"it scales buffers": {"buffers", "buffers after a step", func(_ *wrongDescent, u []float32, _ sgd.Step) { u[0] *= 2 }, false},
		"it reads buffers":  {"buffers", "leaked", func(_ *wrongDescent, u []float32, _ sgd.Step) { u[3] += 1e-3 * u[0] }, false},
		"a rate in the state": {"rate", "got into slot v", func(t *wrongDescent, u []float32, _ sgd.Step) {
			each(t.l, func(i int) { t.v[i] = 0.9*t.v[i] + u[i]; u[i] = t.v[i] })
		}, true},
		"a rate squared": {"rate", "step 0 at twice the rate", func(t *wrongDescent, u []float32, s sgd.Step) {
			each(t.l, func(i int) { u[i] *= float32(s.LR) })
		}, false},
		"state in no slot": {"resume", "a resumed run", func(t *wrongDescent, u []float32, _ sgd.Step) {
			t.n++
			each(t.l, func(i int) { u[i] *= t.n })
		}, true},
		"state in a slot not shown": {"resume", "a resumed run", func(t *wrongDescent, u []float32, _ sgd.Step) {
			each(t.l, func(i int) { t.v[i] += u[i]; u[i] = t.v[i] })
		}, false},
		"a norm of everything": {"shards", "shards cut at", func(t *wrongDescent, u []float32, _ sgd.Step) {
			var sum float32
			each(t.l, func(i int) { sum += u[i] * u[i] })
			each(t.l, func(i int) { u[i] /= sum })
		}, false},
		"an allocation":       {"allocs", "1 allocations", func(_ *wrongDescent, u []float32, _ sgd.Step) { sink = make([]float32, len(u)) }, false},
		"not in the registry": {"spec", "", func(*wrongDescent, []float32, sgd.Step) {}, false},
	} {
		err := check(c.check)(wrong{c.spoil, c.slots})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want …%s…", what, err, c.want)
		}
	}
	absorbs := func(t *wrongDescent, u []float32, _ sgd.Step) {
		each(t.l, func(i int) { t.v[i] = 0.9*t.v[i] + u[i]; u[i] = t.v[i] })
	}
	if err := check("rate")(absorbing{wrong{absorbs, true}}); err != nil {
		t.Errorf("a rate in the state, claimed: %v", err)
	}
	idle := absorbing{wrong{func(*wrongDescent, []float32, sgd.Step) {}, true}}
	if err := check("rate")(idle); err == nil || !strings.Contains(err.Error(), "no slot depends") {
		t.Errorf("a rate claimed to be in the state: %v", err)
	}
	norm := func(t *wrongDescent, u []float32, _ sgd.Step) {
		var sum float32
		each(t.l, func(i int) { sum += u[i] * u[i] })
		each(t.l, func(i int) { u[i] /= 1 + sum })
	}
	if err := check("tensors")(mixing{wrong{norm, false}}); err != nil {
		t.Errorf("the whole vector at the last tensor is the whole: %v", err)
	}
	if err := check("advance")(mixing{wrong{norm, false}}); err == nil {
		t.Error("tensors that are not listed went unnoticed")
	}
	ball := wrong{spoil: func(t *wrongDescent, u []float32, _ sgd.Step) { // in a slot that nobody knows the name of
		each(t.l, func(i int) { t.v[i] = 0.9*t.v[i] + u[i]; u[i] = t.v[i] })
	}, slots: true}
	still := wrong{spoil: func(*wrongDescent, []float32, sgd.Step) {}}
	for what, c := range map[string]struct {
		o    sgd.Optimizer
		want string
	}{
		"a momentum that is not claimed": {ball, "does not claim it"},
		"one claimed to be off":          {claiming{ball, false}, "does not claim it"},
		"a claim without a momentum":     {claiming{still, true}, "claims a momentum"},
		"neither":                        {still, ""},
		"both":                           {claiming{ball, true}, ""},
	} {
		if err := check("momentum")(c.o); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want …%s…", what, err, c.want)
		}
	}
	clipped := wrong{spoil: func(_ *wrongDescent, u []float32, s sgd.Step) {
		for i := range u {
			u[i] = min(u[i], float32(s.LR)*1000)
		}
	}}
	for what, c := range map[string]struct {
		o    sgd.Optimizer
		want string
	}{
		"descent that is not claimed":   {still, "does not claim it"},
		"descent claimed to be off":     {modest{still, false}, "does not claim it"},
		"a claim of what is clipped":    {modest{clipped, true}, "claims to be plain"},
		"a claim of what remembers":     {modest{ball, true}, "claims to be plain"},
		"clipped, and no claim":         {clipped, ""},
		"descent, claimed":              {modest{still, true}, ""},
		"no momentum to speak of":       {sgd.Momentum{}, ""},
		"one part of a chain":           {sgd.Chain{Parts: []sgd.Optimizer{sgd.Plain{}}}, ""},
		"no decay beside it":            {sgd.Decoupled{Rule: sgd.Plain{}}, ""},
		"a group of all":                {sgd.Groups{Parts: []sgd.Optimizer{sgd.Plain{}}}, ""},
		"another part of a chain":       {sgd.Chain{Parts: []sgd.Optimizer{sgd.Decay{Rate: 1e-4}, sgd.Plain{}}}, ""},
		"at twice the rate, for biases": {sgd.On{Rule: sgd.Plain{}, LR: 2, Roles: []string{"bias"}}, ""},
	} {
		if err := check("bare")(c.o); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want …%s…", what, err, c.want)
		}
	}
	biases := func(s sgd.Span) bool { return s.Role == sgd.Bias }
	for what, c := range map[string]struct {
		o    sgd.Optimizer
		want string
	}{
		"all move":                  {choosing{still, biases}, "not for in.w, but that tensor moves"},
		"claimed to be for a norm":  {sgd.On{Rule: sgd.Plain{}, LR: 1, Names: []string{"norm.scale"}}, ""},
		"claimed to be for a rest":  {choosing{wrong{spoil: func(_ *wrongDescent, u []float32, _ sgd.Step) { clear(u) }}, biases}, "is for in.b, but that tensor stays"},
		"claimed to be for buffers": {choosing{still, func(sgd.Span) bool { return true }}, "is for in.stat, but"},
		"for no tensor":             {sgd.On{Rule: sgd.Plain{}, LR: 1, Names: []string{"nowhere"}}, ""},
		"no claim":                  {still, ""},
	} {
		if err := check("selection")(c.o); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want …%s…", what, err, c.want)
		}
	}
	for name, want := range map[string]string{"stretches": "stretches cut at", "advance": "Advance: update"} {
		err := check(name)(wrongInParts{wrong{spoil: func(*wrongDescent, []float32, sgd.Step) {}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("steps that depend on the cut: %v, want …%s…", err, want)
		}
	}
	quiet := wrong{spoil: func(_ *wrongDescent, u []float32, _ sgd.Step) { clear(u) }}
	for _, p := range Problems() {
		if err := p.Solve(quiet); err == nil || !strings.Contains(err.Error(), "the best was 1") {
			t.Errorf("%s was solved by standing still: %v", p.Name, err)
		}
	}
}
