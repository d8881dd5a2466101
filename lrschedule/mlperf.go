package lrschedule

import (
	"cmp"
	"math"

	"github.com/gradlab/gradlab/internal/portable"
)

// MLPerf is the schedule of the MLPerf reference of ResNet-50 (PolynomialDecayWithWarmup
// of mlcommons/training, image_classification), to the update: with w = Warmup
// epochs of updates, rounded down, and T updates planned,
//
//	lr·n/w                                        update n ≤ w
//	end + (lr−end)·(1−(n−w)/(T−w+1))^power        afterwards
//
// The first update is taken at rate 0. It is the schedule of the LARS rows and of
// SGD with polynomial decay. Departure: computed in float64, there in float32.
//
// Tuning: rates and warm-up by batch size as the reference convergence points of
// MLPerf have them, with lars: 4,096: 10 and 5 epochs; 8,192: 17 and 5; 32,768:
// 21.2 and 16; 65,536: 24.699 and 31.
//
// Paper: none; the rule is MLPerf's reference.
//
// Cost: none; rates depend on the plan.
type MLPerf struct {
	LR     float64 `spec:"lr,show" doc:"highest learning rate"`
	Warmup float64 `doc:"epochs of warm-up"`
	End    float64 `doc:"last learning rate"`
	Power  float64 `doc:"exponent, more than 0"`
}

var _ = Specs.Add("mlperf", "warm-up and polynomial decay as in MLPerf's ResNet-50", MLPerf{LR: 10, Warmup: 5, End: 1e-4, Power: 2})

// Validate checks the ranges.
func (o MLPerf) Validate() error {
	return cmp.Or(rate("lr", o.LR), check(o.Warmup >= 0, "warmup", o.Warmup, "at least 0"), rate("end", o.End), check(o.Power > 0, "power", o.Power, "more than 0"))
}

// New makes the Schedule.
func (o MLPerf) New(r Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	w := math.Floor(o.Warmup * r.StepsPerEpoch)
	return func(p Progress) float64 {
		n, total := float64(p.Step), float64(p.Total)
		if n <= w && w > 0 {
			return o.LR * (n / w)
		}
		left := clamp(1 - (n-w)/max(1, total-w+1))
		return mix(o.End, o.LR, portable.Pow(left, o.Power))
	}, nil
}
