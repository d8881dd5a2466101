package lrschedule

import (
	"cmp"
	"fmt"
	"math"
	"sort"

	"github.com/gradlab/gradlab/internal/portable"
)

// Step multiplies the rate by Factor at given epochs:
//
//	lr · factorᵏ,   k = how many of the epochs in At have begun
//
// The defaults are those of residual networks over 90 epochs (He et al. 2016,
// Goyal et al. 2017). Epochs may be fractions.
//
// Tuning: keep the shares of the run (a third, two thirds, eight ninths) when
// the number of epochs changes.
//
// Cost: none.
type Step struct {
	LR     float64   `spec:"lr,show" doc:"first learning rate"`
	At     []float64 `doc:"epochs at which the rate falls, ascending"`
	Factor float64   `doc:"what the rate is multiplied by, at least 0"`
}

var _ = Specs.Add("step", "multiply the rate by a factor at given epochs", Step{LR: 0.1, At: []float64{30, 60, 80}, Factor: 0.1})

// Validate checks ranges and order.
func (o Step) Validate() error {
	if err := cmp.Or(rate("lr", o.LR), check(o.Factor >= 0, "factor", o.Factor, "at least 0")); err != nil {
		return err
	}
	if err := ascending(o.At); err != nil {
		return err
	}
	if last := o.at(len(o.At)); math.IsInf(last, 0) {
		return fmt.Errorf("option %q is %v; after %d steps the rate is no longer finite", "factor", o.Factor, len(o.At))
	}
	return nil
}

// ascending checks the option "at" of schedules that change at given epochs.
func ascending(at []float64) error {
	for i, e := range at {
		if !(e >= 0) || i > 0 && e <= at[i-1] {
			return fmt.Errorf("option %q is %v; want ascending epochs", "at", at)
		}
	}
	return nil
}

// at is the rate after k drops.
func (o Step) at(k int) float64 { return o.LR * portable.Pow(o.Factor, float64(k)) }

// Unplanned says that rates do not depend on how many updates are planned.
func (Step) Unplanned() bool { return true }

// New makes the Schedule.
func (o Step) New(Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.At = append([]float64(nil), o.At...)
	return func(p Progress) float64 {
		return o.at(sort.Search(len(o.At), func(i int) bool { return o.At[i] > p.Epoch }))
	}, nil
}
