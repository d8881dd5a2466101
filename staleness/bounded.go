package staleness

import "fmt"

// Bounded is ASP without its tail: a gradient more than Max updates late is
// dropped, any other applied as it comes. Nobody waits.
//
//	admit: drop if staleness > max, else apply   release: at once
//
// With equal workers staleness is about workers − 1: a bound below that drops
// most of what they compute, and at 0 all but one of every round. A worker too
// slow for the bound contributes nothing at all; see the count of gradients
// dropped.
//
// Paper: none; it is a common rule of schedulers.
//
// Tuning: max a few times the number of workers, so that only the tail is
// dropped.
//
// Cost: the time of the gradients that are dropped.
type Bounded struct {
	Max int `spec:"max,show" doc:"largest staleness of a gradient that is applied, in updates"`
}

var _ = Policies.Add("bounded", "apply at once, drop what is too stale", Bounded{Max: 16})

// Validate checks the range of Max.
func (o Bounded) Validate() error {
	if o.Max < 0 {
		return fmt.Errorf("option %q is %d; want at least 0", "max", o.Max)
	}
	return nil
}

// New makes the Policy.
func (o Bounded) New(workers int) (Policy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return serve(workers, bounded{max: o.Max})
}

// Traits implements Spec.
func (Bounded) Traits(int) PolicyTraits { return PolicyTraits{PerUpdate: 1, Drops: true} }

type bounded struct {
	asp
	max int
}

func (p bounded) Admit(v View, _ int) Verdict {
	if v.Delay > p.max {
		return Drop
	}
	return Apply
}
