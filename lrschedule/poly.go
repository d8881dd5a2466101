package lrschedule

import (
	"cmp"

	"github.com/gradlab/gradlab/internal/portable"
)

// Poly falls from LR to End as a power of what is left of the run:
//
//	end + (lr−end)·(1−f)^power,   f = updates done / updates planned
//
// Power 1 is a straight line; 2 is the choice of many large-batch recipes (You
// et al. 2017, LARS; Mikami et al. 2018). Past the plan the rate stays at End.
//
// Tuning: power=1 or 2; lr as for a constant rate, or a little more.
//
// Cost: none; a run cannot be made longer by gradlab extend, as rates depend on
// the plan.
type Poly struct {
	LR    float64 `spec:"lr,show" doc:"first learning rate"`
	Power float64 `doc:"exponent, more than 0"`
	End   float64 `doc:"last learning rate"`
}

var _ = Specs.Add("poly", "fall to the end as a power of what is left", Poly{LR: 0.1, Power: 2})

// Validate checks the ranges.
func (o Poly) Validate() error {
	return cmp.Or(rate("lr", o.LR), check(o.Power > 0, "power", o.Power, "more than 0"), rate("end", o.End))
}

// New makes the Schedule.
func (o Poly) New(Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return func(p Progress) float64 {
		return mix(o.End, o.LR, portable.Pow(1-p.Fraction(), o.Power))
	}, nil
}
