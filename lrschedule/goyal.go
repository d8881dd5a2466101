package lrschedule

import "cmp"

// Goyal is the recipe of "Accurate, large minibatch SGD: training ImageNet in 1
// hour" (Goyal et al. 2017) as one spec. With batch kn, the rate is
// base·kn/reference, approached from base over the first epochs and divided by
// ten at 30, 60 and 80 of 90. It is exactly
//
//	warmup(linear(step(lr=base,at=at,factor=factor),reference=reference),epochs=warmup,from=base)
//
// The rest of the recipe: nesterov(beta=0.9) behind decay(rate=1e-4) that
// spares normalisations, the loss averaged over all kn samples, γ = 0 in the
// last normalisation of each residual block. A batch below the reference has
// nothing to warm up to: its rate is flat.
//
// Tuning: the defaults are theirs, for ImageNet; base is the rate that is good
// at the reference batch.
//
// Cost: none.
type Goyal struct {
	Base      float64   `doc:"rate for the reference batch"`
	Reference int       `doc:"batch size of the base rate"`
	Warmup    float64   `doc:"epochs of warm-up"`
	At        []float64 `doc:"epochs at which the rate falls, ascending"`
	Factor    float64   `doc:"what the rate is multiplied by there"`
}

var _ = Specs.Add("goyal", "ImageNet in 1 hour: scaling, warm-up and step decay", Goyal{
	Base: 0.1, Reference: 256, Warmup: 5, At: []float64{30, 60, 80}, Factor: 0.1,
})

// Validate checks the ranges.
func (o Goyal) Validate() error {
	return cmp.Or(
		rate("base", o.Base),
		reference(o.Reference),
		check(o.Warmup >= 0, "warmup", o.Warmup, "at least 0"),
		o.step().Validate(),
	)
}

func (o Goyal) step() Step { return Step{LR: o.Base, At: o.At, Factor: o.Factor} }

// Unplanned says that rates do not depend on how many updates are planned.
func (Goyal) Unplanned() bool { return true }

// New makes the Schedule.
func (o Goyal) New(r Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return Warmup{
		Then:   Linear{In: o.step(), Reference: o.Reference},
		Epochs: o.Warmup,
		From:   o.Base,
	}.New(r)
}
