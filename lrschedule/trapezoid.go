package lrschedule

import (
	"cmp"
	"fmt"
	"math"
)

// Trapezoid rises in a straight line, stays, and falls at the end of the run:
// warm-up, stable, decay (Hu et al. 2024, MiniCPM; Hägele et al. 2024). With
// f = updates done / updates planned the rate is
//
//	from → lr          f < up
//	lr                 in between
//	lr → end           f > 1 − down
//
// Shape says how it falls: linear, or sqrt for end + (lr−end)·(1−√x), x the part
// of the fall that is done. With up + down = 1 it is a triangle. Past the plan the
// rate stays at End.
//
// Tuning: Hägele et al. match cosine with a fall over the last 20 %. The run up
// to the fall can be the beginning of a longer one, which is not so with cosine.
//
// Cost: none; rates depend on the plan.
type Trapezoid struct {
	LR    float64 `spec:"lr,show" doc:"learning rate of the middle"`
	Up    float64 `doc:"share of the updates in which the rate rises, in [0, 1]"`
	Down  float64 `doc:"share of the updates in which it falls, in [0, 1]"`
	From  float64 `doc:"first learning rate"`
	End   float64 `doc:"last learning rate"`
	Shape string  `doc:"how it falls: linear or sqrt"`
}

var _ = Specs.Add("trapezoid", "rise, stay, fall: warm-up, stable, decay", Trapezoid{LR: 0.1, Up: 0.05, Down: 0.2, Shape: "linear"})

// Validate checks the ranges.
func (o Trapezoid) Validate() error {
	if err := cmp.Or(shape(o.Shape, "linear", "sqrt"), rate("lr", o.LR),
		check(o.Up >= 0 && o.Up <= 1, "up", o.Up, "a share in [0, 1]"),
		check(o.Down >= 0 && o.Down <= 1, "down", o.Down, "a share in [0, 1]"),
		rate("from", o.From), rate("end", o.End)); err != nil {
		return err
	}
	if o.Up+o.Down > 1+1e-12 {
		return fmt.Errorf("options %q and %q are %v and %v, together more than the run; want a sum of at most 1", "up", "down", o.Up, o.Down)
	}
	return nil
}

// New makes the Schedule.
func (o Trapezoid) New(Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return func(p Progress) float64 {
		f := p.Fraction()
		switch left := 1 - f; {
		case f < o.Up:
			return mix(o.From, o.LR, f/o.Up)
		case left >= o.Down:
			return o.LR
		case o.Shape == "sqrt":
			return mix(o.LR, o.End, math.Sqrt(1-left/o.Down))
		default:
			return mix(o.End, o.LR, left/o.Down)
		}
	}, nil
}
