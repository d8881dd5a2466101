package lrschedule

import (
	"fmt"
	"sort"
)

// Piecewise is a rate for each stretch of epochs:
//
//	lr[k],   k = how many of the epochs in At have begun
//
// so LR has one entry more than At. Step is the same with one factor for all
// falls.
//
// Tuning: write down the rates of a paper that names them; scale them to
// another batch with linear around it.
//
// Paper: none.
//
// Cost: none.
type Piecewise struct {
	LR []float64 `spec:"lr,show" doc:"learning rates, one more than epochs in at"`
	At []float64 `spec:"at,show" doc:"epochs at which the next rate begins, ascending"`
}

var _ = Specs.Add("piecewise", "a rate of its own for each stretch of epochs", Piecewise{
	LR: []float64{0.1, 0.01, 0.001}, At: []float64{30, 60},
})

// Validate checks ranges and order.
func (o Piecewise) Validate() error {
	if len(o.LR) != len(o.At)+1 {
		return fmt.Errorf("option %q has %d rates for the %d epochs of option %q; want one rate more than epochs", "lr", len(o.LR), len(o.At), "at")
	}
	for _, lr := range o.LR {
		if err := rate("lr", lr); err != nil {
			return err
		}
	}
	return ascending(o.At)
}

// Unplanned says that rates do not depend on how many updates are planned.
func (Piecewise) Unplanned() bool { return true }

// New makes the Schedule.
func (o Piecewise) New(Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rates, at := append([]float64(nil), o.LR...), append([]float64(nil), o.At...)
	return func(p Progress) float64 {
		return rates[sort.Search(len(at), func(i int) bool { return at[i] > p.Epoch })]
	}, nil
}
