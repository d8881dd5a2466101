package lrschedule

import (
	"cmp"
	"math"

	"github.com/gradlab/gradlab/internal/portable"
)

// Cyclic rises from Low to High and falls back, in straight lines, again and
// again (Smith 2017, "Cyclical learning rates for training neural networks"):
//
//	low + (high−low)·fall^(cycles done)·x,   x = t/up while rising, then 1 − (t−up)/down
//
// t is counted in epochs since the cycle began. Fall = 1 is his triangular
// policy, 0.5 his triangular2.
//
// Tuning: his range test raises the rate in one long rise (a large up). Low is
// then the rate at which accuracy starts to rise, High the one at which it gets
// ragged; a rise takes 2 to 10 epochs.
//
// Cost: none.
type Cyclic struct {
	Low  float64 `doc:"lowest learning rate"`
	High float64 `spec:"high,show" doc:"highest learning rate of the first cycle"`
	Up   float64 `doc:"epochs of a rise, more than 0"`
	Down float64 `doc:"epochs of a fall, more than 0"`
	Fall float64 `doc:"what the height is multiplied by from cycle to cycle, in (0, 1]"`
}

var _ = Specs.Add("cyclic", "rise and fall in straight lines, again and again", Cyclic{Low: 0.01, High: 0.1, Up: 4, Down: 4, Fall: 1})

// Validate checks the ranges.
func (o Cyclic) Validate() error {
	return cmp.Or(
		rate("low", o.Low), rate("high", o.High),
		check(o.Low <= o.High, "low", o.Low, "at most high"),
		check(o.Up > 0, "up", o.Up, "more than 0"), check(o.Down > 0, "down", o.Down, "more than 0"),
		check(o.Fall > 0 && o.Fall <= 1, "fall", o.Fall, "more than 0 and at most 1"),
	)
}

// Unplanned says that rates do not depend on how many updates are planned.
func (Cyclic) Unplanned() bool { return true }

// New makes the Schedule.
func (o Cyclic) New(Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return func(p Progress) float64 {
		cycle := math.Floor(p.Epoch / (o.Up + o.Down))
		t := p.Epoch - float64(cycle*(o.Up+o.Down))
		x := t / o.Up
		if t > o.Up {
			x = 1 - (t-o.Up)/o.Down
		}
		top := o.Low + float64((o.High-o.Low)*portable.Pow(o.Fall, cycle))
		return mix(o.Low, top, clamp(x))
	}, nil
}
