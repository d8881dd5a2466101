package sgd

import (
	"fmt"
	"slices"
	"strings"
)

// On is an update rule for some tensors: those that the rule is for, of one of Roles, if any
// is named, whose name contains one of Names, if any is named. Other tensors stay as they are,
// so on(momentum,names=[fc]) trains the last layer alone. In groups other parts take
// them.
//
//	on(momentum,roles=[bias,norm],lr=2)
//
// LR multiplies the learning rate.
//
// Paper: none.
//
// Tuning: that of the rule inside.
//
// Cost: that of the rule inside.
type On struct {
	Rule  Optimizer `doc:"the update rule"`
	Roles []string  `doc:"weight, embedding, bias, norm; none: all of them"`
	Names []string  `doc:"parts of names of tensors; none: any name"`
	LR    float64   `spec:"lr" doc:"what the learning rate is multiplied by, at least 0"`
}

var _ = Optimizers.Add("on", "an update rule for some tensors, by role or name; the others stay", On{Rule: Plain{}, LR: 1})

// Validate checks rule, roles and rate.
func (o On) Validate() error {
	if err := isRule("rule", o.Rule); err != nil {
		return err
	}
	for _, r := range o.Roles {
		if !slices.Contains(trainableRoles(), r) {
			return fmt.Errorf("option %q has %q; want some of %s", "roles", r, strings.Join(trainableRoles(), ", "))
		}
	}
	return check(o.LR >= 0, "lr", o.LR, "at least 0")
}

func trainableRoles() []string {
	return []string{Weight.String(), Embedding.String(), Bias.String(), Norm.String()}
}

// Takes says whether the rule is for span s.
func (o On) Takes(s Span) bool {
	return s.Role != Buffer && takes(o.Rule, s) &&
		(len(o.Roles) == 0 || slices.Contains(o.Roles, s.Role.String())) &&
		(len(o.Names) == 0 || contains(s.Name, o.Names))
}

// takes says whether a rule is for span s: one that is for some tensors alone says so, in a
// chain as its last part.
func takes(rule Optimizer, s Span) bool {
	switch r := rule.(type) {
	case Selective:
		return r.Takes(s)
	case Chain:
		return len(r.Parts) == 0 || takes(r.Parts[len(r.Parts)-1], s)
	}
	return true
}

// contains says whether name contains one of parts.
func contains(name string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(name, p) })
}

// NeedsWhole is true if the rule needs whole tensors.
func (o On) NeedsWhole() bool { return NeedsWhole(o.Rule) }

// Momentous is true if the rule keeps a momentum.
func (o On) Momentous() bool { return HasMomentum(o.Rule) }

// Bare is true if the rule is, and all tensors are its own.
func (o On) Bare() bool {
	return IsBare(o.Rule) && o.LR == 1 && len(o.Roles)+len(o.Names) == 0
}

// RateInside is true if the rule's state absorbs learning rates.
func (o On) RateInside() bool { return HasRateInside(o.Rule) }

// New makes the Transform; its state is the rule's.
func (o On) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rule, err := o.only(l, o.Takes)
	if err != nil {
		return nil, err
	}
	others := domain{l.Size(), l.Ranges(func(s Span) bool { return s.Role != Buffer && !o.Takes(s) })}
	still := &local{others, func(u, _ []float32, r Range, _ Step) { clear(u[r.Lo:r.Hi]) }}
	return composed(l, []Transform{rule, still}), nil
}

// only is the rule for the spans that take accepts: to it the others are buffers,
// which no rule touches.
func (o On) only(l Layout, take func(Span) bool) (Transform, error) {
	part := Layout{Spans: slices.Clone(l.Spans)}
	for i, s := range part.Spans {
		if !take(s) {
			part.Spans[i].Role = Buffer
		}
	}
	t, err := o.Rule.New(part)
	if err != nil || o.LR == 1 {
		return t, err
	}
	return scaledBy(t, o.LR), nil
}

// rated is a Transform at another learning rate.
type rated struct {
	Transform
	by float64
}

func scaledBy(t Transform, by float64) Transform {
	r := rated{t, by}
	switch t.(type) {
	case Local:
		return ratedLocal{r}
	case Tensorwise:
		return ratedTensors{r}
	}
	return r
}

func (t rated) at(s Step) Step {
	s.LR *= t.by
	return s
}

func (t rated) Apply(u, params []float32, s Step) { t.Transform.Apply(u, params, t.at(s)) }

// Slots lists the state of the Transform inside.
func (t rated) Slots() []Slot {
	if s, ok := t.Transform.(Stateful); ok {
		return s.Slots()
	}
	return nil
}

type ratedLocal struct{ rated }

func (t ratedLocal) ApplyRange(u, params []float32, r Range, s Step) {
	t.Transform.(Local).ApplyRange(u, params, r, t.at(s))
}

type ratedTensors struct{ rated }

func (t ratedTensors) Tensors() []Range { return t.Transform.(Tensorwise).Tensors() }

func (t ratedTensors) ApplyTensor(u, params []float32, r Range, s Step) {
	t.Transform.(Tensorwise).ApplyTensor(u, params, r, t.at(s))
}

// isRule checks an option that holds an update rule.
func isRule(key string, o Optimizer) error {
	if o == nil {
		return fmt.Errorf("option %q is missing; want an update rule, such as momentum", key)
	}
	if _, filter := o.(Filter); filter {
		return fmt.Errorf("option %q is %s, which only changes the gradient; want an update rule, as in chain(%[2]s,sgd)", key, Optimizers.Spec(o))
	}
	return nil
}
