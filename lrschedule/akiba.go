package lrschedule

import "cmp"

// Akiba is the slow-start schedule of "Extremely large minibatch SGD: training
// ResNet-50 on ImageNet in 15 minutes" (Akiba et al. 2017, section 3). With
// η = base·batch/reference the rate is
//
//	0.5·η for 40 epochs, 0.075·η for 30, 0.01·η for 15, 0.001·η for 5
//
// of 90 in all: lower at the start than linear scaling, for longer. It is
//
//	linear(piecewise(lr=[0.05,0.0075,0.001,0.0001],at=[40,70,85]))
//
// for base 0.1. Their warm-up is in the optimizer, which goes over from RMSprop
// to momentum SGD, not in the rate. They normalise batches by the last ones'
// statistics, averaged over all workers, in place of moving averages.
//
// Tuning: keep the shares of the run when the number of epochs changes.
//
// Cost: none.
type Akiba struct {
	Base      float64 `doc:"rate for the reference batch"`
	Reference int     `doc:"batch size of the base rate"`
	Epochs    float64 `doc:"epochs of the whole, which the four stretches divide as 40:30:15:5"`
}

var _ = Specs.Add("akiba", "ImageNet in 15 minutes: slow start of a scaled rate", Akiba{Base: 0.1, Reference: 256, Epochs: 90})

// Validate checks the ranges.
func (o Akiba) Validate() error {
	return cmp.Or(rate("base", o.Base), reference(o.Reference), check(o.Epochs > 0, "epochs", o.Epochs, "more than 0"))
}

// Unplanned says that rates do not depend on how many updates are planned.
func (Akiba) Unplanned() bool { return true }

// New makes the Schedule.
func (o Akiba) New(r Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	share := o.Epochs / 90
	return Linear{
		In: Piecewise{
			LR: []float64{0.5 * o.Base, 0.075 * o.Base, 0.01 * o.Base, 0.001 * o.Base},
			At: []float64{40 * share, 70 * share, 85 * share},
		},
		Reference: o.Reference,
	}.New(r)
}
