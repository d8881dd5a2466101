package sgd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Chain sets filters before an update rule:
//
//	chain(decay(rate=1e-4),clip(norm=1),momentum)
//
// The gradient passes through the parts from left to right. All but the last
// are Filters; the last is an update rule (or a chain, which ends in one) and
// multiplies by the learning rate.
//
// Paper: none; it is how parts are put together.
//
// Tuning: the order matters: what stands before clip is clipped with the
// gradient.
//
// Cost: the sum of its parts; one pass where all of them are local (Local).
type Chain struct {
	Parts []Optimizer `doc:"filters, then one update rule"`
}

var _ = Optimizers.Add("chain", "filters, then one update rule", Chain{
	Parts: []Optimizer{Decay{Rate: 1e-4}, Momentum{Beta: 0.9}},
})

// Validate checks that the last part, and no other, is an update rule.
func (o Chain) Validate() error {
	if len(o.Parts) == 0 {
		return errors.New("chain is empty; name filters and then an update rule, as in chain(decay,momentum)")
	}
	for i, p := range o.Parts {
		last := i == len(o.Parts)-1
		_, filter := p.(Filter)
		switch {
		case p == nil:
			return fmt.Errorf("chain: part %d is nil", i)
		case !last && !filter:
			return fmt.Errorf("%s is an update rule and must come last in a chain; before it may stand %s",
				Optimizers.Spec(p), strings.Join(filters(), ", "))
		case last && filter:
			return fmt.Errorf("the chain ends in %s, which only changes the gradient; add an update rule, such as sgd or momentum",
				Optimizers.Spec(p))
		}
	}
	return nil
}

// filters lists the names of the filters there are.
func filters() []string {
	var out []string
	for _, n := range Optimizers.Names() {
		if p, _ := Optimizers.Proto(n); p != nil {
			if _, ok := p.(Filter); ok {
				out = append(out, n)
			}
		}
	}
	return out
}

// NeedsWhole is true if any part needs whole tensors.
func (o Chain) NeedsWhole() bool {
	return slices.ContainsFunc(o.Parts, NeedsWhole)
}

// Momentous is true if any part keeps a momentum.
func (o Chain) Momentous() bool { return slices.ContainsFunc(o.Parts, HasMomentum) }

// Bare is true if its only part is.
func (o Chain) Bare() bool { return len(o.Parts) == 1 && IsBare(o.Parts[0]) }

// RateInside is true if the state of any part absorbs learning rates.
func (o Chain) RateInside() bool { return slices.ContainsFunc(o.Parts, HasRateInside) }

// New makes the Transforms of all parts.
func (o Chain) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	var parts []Transform
	for _, p := range o.Parts {
		build := p.New
		if f, ok := p.(Filter); ok {
			build = f.NewFilter
		}
		t, err := build(l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Optimizers.Spec(p), err)
		}
		parts = append(parts, t)
	}
	return composed(l, parts), nil
}

type chain []Transform

func (c chain) Apply(u, params []float32, s Step) {
	for _, t := range c {
		t.Apply(u, params, s)
	}
}

// Slots lists the state of all parts, in order. A name that was there before
// gets a number, so that names stay unique.
func (c chain) Slots() []Slot {
	var out []Slot
	seen := map[string]int{}
	for _, t := range c {
		st, ok := t.(Stateful)
		if !ok {
			continue
		}
		for _, s := range st.Slots() {
			if seen[s.Name]++; seen[s.Name] > 1 {
				s.Name = fmt.Sprintf("%s#%d", s.Name, seen[s.Name])
			}
			out = append(out, s)
		}
	}
	return out
}

// localChain is a chain of Locals.
type localChain struct{ chain }

func (c localChain) ApplyRange(u, params []float32, r Range, s Step) {
	for _, t := range c.chain {
		t.(Local).ApplyRange(u, params, r, s)
	}
}
