package lrschedule

import "math"

// Sqrt is the square-root scaling rule (Krizhevsky 2014; hardsync of Gupta et
// al. 2016, with reference 128):
//
//	in(p) · √(batch/reference)
//
// It keeps the variance of an update where Linear keeps its mean. On ImageNet
// at 8k images it lost to Linear, 26.22 % against 23.74 % top-1 error (Goyal et
// al. 2017); it is the usual rule for adam and other adaptive methods.
//
// Tuning: reference is the batch at which the inner rate is known to be good.
//
// Cost: none.
type Sqrt struct {
	In        Spec `doc:"the schedule for the reference batch"`
	Reference int  `doc:"batch size the schedule was tuned for"`
}

var _ = Specs.Add("sqrt", "square-root scaling rule: rate × √(batch/reference)", Sqrt{In: Constant{LR: 0.1}, Reference: 256})

// Validate checks the ranges.
func (o Sqrt) Validate() error { return reference(o.Reference) }

// Unplanned says that rates do not depend on how many updates are planned, where those of the schedule inside do not.
func (o Sqrt) Unplanned() bool { return IsUnplanned(o.In) }

// New makes the Schedule.
func (o Sqrt) New(r Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return scaled(o.In, r, math.Sqrt(float64(r.Batch)/float64(o.Reference)))
}
