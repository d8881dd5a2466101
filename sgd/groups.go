package sgd

import (
	"fmt"
	"slices"
)

// Groups has an update rule for every group of tensors: a tensor goes by the first
// part that takes it. All parts but the last are on(…), or another rule that is Selective;
// the last takes what is left.
//
//	groups(on(momentum,roles=[bias,norm],lr=2),chain(decay(rate=5e-4),momentum))
//
// gives biases and normalisations twice the rate and no decay. A group's own rate is
// lr of on; momentum and decay are those of its rule.
//
// Paper: none.
//
// Tuning: that of each part's rule.
//
// Cost: the state of every part is as long as the parameters; the pages of what a
// part does not take are never touched.
type Groups struct {
	Parts []Optimizer `doc:"on(…) for some tensors, in order, then an update rule for the rest"`
}

var _ = Optimizers.Add("groups", "an update rule for each group of tensors", Groups{
	Parts: []Optimizer{On{Rule: Momentum{Beta: 0.9}, Roles: []string{"bias", "norm"}, LR: 2}, Momentum{Beta: 0.9}},
})

// Validate checks that all parts are rules, and all but the last Selective.
func (o Groups) Validate() error {
	if len(o.Parts) == 0 {
		return fmt.Errorf("groups is empty; name on(…) for some tensors and then a rule for the rest, as in groups(on(sgd,roles=[bias]),momentum)")
	}
	for i, p := range o.Parts {
		if err := isRule("parts", p); err != nil {
			return err
		}
		if _, is := p.(Selective); !is && i < len(o.Parts)-1 {
			return fmt.Errorf("part %d of groups is %s; all but the last say for which tensors they are, as on(…) does", i+1, Optimizers.Spec(p))
		}
		if on, is := p.(On); is {
			if err := on.Validate(); err != nil {
				return fmt.Errorf("part %d of groups: %w", i+1, err)
			}
		}
	}
	return nil
}

// NeedsWhole is true if any part needs whole tensors.
func (o Groups) NeedsWhole() bool { return slices.ContainsFunc(o.Parts, NeedsWhole) }

// Momentous is true if any part keeps a momentum.
func (o Groups) Momentous() bool { return slices.ContainsFunc(o.Parts, HasMomentum) }

// Bare is true if its only part is.
func (o Groups) Bare() bool { return len(o.Parts) == 1 && IsBare(o.Parts[0]) }

// RateInside is true if the state of any part absorbs learning rates.
func (o Groups) RateInside() bool { return slices.ContainsFunc(o.Parts, HasRateInside) }

// New makes the Transforms of all parts.
func (o Groups) New(l Layout) (Transform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	taken := make(map[int]bool, len(l.Spans)) // by offset
	var parts []Transform
	for i, p := range o.Parts {
		on, is := p.(On)
		if !is {
			on = On{Rule: p, LR: 1}
		}
		takes := on.Takes
		if chosen, says := p.(Selective); says {
			takes = chosen.Takes
		}
		var mine []int
		t, err := on.only(l, func(s Span) bool {
			ok := s.Role != Buffer && !taken[s.Off] && takes(s)
			if ok {
				mine = append(mine, s.Off)
			}
			return ok
		})
		if err != nil {
			return nil, fmt.Errorf("part %d of groups: %w", i+1, err)
		}
		for _, off := range mine {
			taken[off] = true
		}
		parts = append(parts, t)
	}
	left := domain{l.Size(), l.Ranges(func(s Span) bool { return s.Role != Buffer && !taken[s.Off] })}
	if len(left.ranges) > 0 { // the last part is on(…), too: what nobody takes stays
		parts = append(parts, &local{left, func(u, _ []float32, r Range, _ Step) { clear(u[r.Lo:r.Hi]) }})
	}
	return composed(l, parts), nil
}
