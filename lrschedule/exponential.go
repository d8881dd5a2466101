package lrschedule

import (
	"cmp"
	"math"

	"github.com/gradlab/gradlab/internal/portable"
)

// Exponential multiplies the rate by Factor every so many epochs:
//
//	lr · factor^(epoch/every)
//
// a little with each update, or with Stairs at whole multiples of Every only.
// The defaults are those of Inception (Szegedy et al. 2016, "Rethinking the
// Inception architecture": 0.045, times 0.94 every two epochs).
//
// Tuning: factor = (last rate / first rate)^(every/epochs) ends at a rate of
// your choice. Cosine or poly need one number less.
//
// Cost: none.
type Exponential struct {
	LR     float64 `spec:"lr,show" doc:"first learning rate"`
	Factor float64 `doc:"what the rate is multiplied by, in (0, 1]"`
	Every  float64 `doc:"epochs between two multiplications, more than 0"`
	Stairs bool    `doc:"fall at once, at multiples of every"`
}

var _ = Specs.Add("exponential", "multiply the rate by a factor every so many epochs", Exponential{LR: 0.045, Factor: 0.94, Every: 2})

// Validate checks the ranges.
func (o Exponential) Validate() error {
	return cmp.Or(
		rate("lr", o.LR),
		check(o.Factor > 0 && o.Factor <= 1, "factor", o.Factor, "more than 0 and at most 1"),
		check(o.Every > 0, "every", o.Every, "more than 0"),
	)
}

// Unplanned says that rates do not depend on how many updates are planned.
func (Exponential) Unplanned() bool { return true }

// New makes the Schedule.
func (o Exponential) New(Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return func(p Progress) float64 {
		k := p.Epoch / o.Every
		if o.Stairs {
			k = math.Floor(k)
		}
		return o.LR * portable.Pow(o.Factor, k)
	}, nil
}
