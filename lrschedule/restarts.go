package lrschedule

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/portable"
)

// Restarts falls from LR to End along half a cosine again and again (SGDR,
// Loshchilov and Hutter 2017, equation 5):
//
//	end + (lr−end)·(1+cos(π·t/T))/2
//
// t is counted in epochs since the last restart, T is the length of the period:
// First, then Mult times as long each time. Fall multiplies LR at each restart;
// the paper has 1.
//
// Tuning: choose First and Mult so that a period ends with the run, as
// 10 + 20 + 40 = 70 epochs; evaluate at the ends of periods, where the rate is
// lowest.
//
// Cost: none.
type Restarts struct {
	LR    float64 `spec:"lr,show" doc:"learning rate at the start of a period"`
	End   float64 `doc:"learning rate at the end of a period"`
	First float64 `doc:"length of the first period in epochs, more than 0"`
	Mult  int     `doc:"how many times longer the next period is, at least 1"`
	Fall  float64 `doc:"what lr is multiplied by at a restart, in (0, 1]"`
}

var _ = Specs.Add("restarts", "half a cosine again and again, longer each time (SGDR)", Restarts{LR: 0.1, First: 10, Mult: 2, Fall: 1})

// Validate checks the ranges.
func (o Restarts) Validate() error {
	if o.Mult < 1 {
		return fmt.Errorf("option %q is %d; want at least 1", "mult", o.Mult)
	}
	return cmp.Or(
		rate("lr", o.LR), rate("end", o.End),
		check(o.First > 0, "first", o.First, "more than 0"),
		check(o.Fall > 0 && o.Fall <= 1, "fall", o.Fall, "more than 0 and at most 1"),
	)
}

// Unplanned says that rates do not depend on how many updates are planned.
func (Restarts) Unplanned() bool { return true }

// New makes the Schedule.
func (o Restarts) New(Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return func(p Progress) float64 {
		k, t, period := 0.0, p.Epoch, o.First
		if o.Mult == 1 {
			k = math.Floor(t / period)
			t -= float64(k * period)
		} else {
			for ; t >= period; k++ {
				t -= period
				period *= float64(o.Mult)
			}
		}
		top := o.LR * portable.Pow(o.Fall, k)
		return mix(o.End, top, clamp((1+portable.CosPi(t/period))/2))
	}, nil
}
