package lrschedule

import (
	"cmp"

	"github.com/gradlab/gradlab/internal/portable"
)

// Cosine falls from LR to End along half a cosine (Loshchilov and Hutter 2017,
// one period, without their restarts):
//
//	end + (lr−end)·(1+cos πf)/2,   f = updates done / updates planned
//
// It stays high for long and needs no epochs to be chosen. Inside warmup it
// runs from the first update on, not from the end of the warm-up. Past the plan
// the rate stays at End.
//
// Tuning: lr as for a constant rate, or a little more; end=0 unless the run is
// to go on.
//
// Cost: none; a run cannot be made longer by gradlab extend, as rates depend on
// the plan.
type Cosine struct {
	LR  float64 `spec:"lr,show" doc:"first learning rate"`
	End float64 `doc:"last learning rate"`
}

var _ = Specs.Add("cosine", "fall to the end along half a cosine", Cosine{LR: 0.1})

// Validate checks the ranges.
func (o Cosine) Validate() error { return cmp.Or(rate("lr", o.LR), rate("end", o.End)) }

// New makes the Schedule.
func (o Cosine) New(Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return func(p Progress) float64 {
		return mix(o.End, o.LR, clamp((1+portable.CosPi(p.Fraction()))/2))
	}, nil
}
