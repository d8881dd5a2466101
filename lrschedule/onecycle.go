package lrschedule

import (
	"cmp"
	"fmt"

	"github.com/gradlab/gradlab/internal/portable"
)

// OneCycle rises once and falls once, far below where it began (Smith and Topin
// 2018, "Super-convergence"). It gives the rates of PyTorch's OneCycleLR, to the
// update: with T planned updates,
//
//	lr/start → lr                   until update up·T − 1
//	lr → lr/start/end               until update T − 1
//
// and with Three (the paper's form) lr → lr/start as fast as it rose, then down
// to lr/start/end. Shape is how the rate goes between two of these: along half a
// cosine, or in a straight line. Past the plan the rate stays at the last one.
//
// Departure: momentum stays as it is; the paper and PyTorch lower it while the
// rate rises.
//
// Tuning: lr as large as a range test allows (see cyclic), weight decay smaller
// than usual.
//
// Cost: none; rates depend on the plan.
type OneCycle struct {
	LR    float64 `spec:"lr,show" doc:"highest learning rate"`
	Up    float64 `doc:"share of the updates in which the rate rises, in (0, 1)"`
	Start float64 `doc:"highest rate over the first, at least 1"`
	End   float64 `doc:"first rate over the last, at least 1"`
	Three bool    `doc:"fall to the first rate before the last fall"`
	Shape string  `doc:"cosine or linear"`
}

var _ = Specs.Add("onecycle", "one rise and one long fall (super-convergence)", OneCycle{LR: 0.1, Up: 0.3, Start: 25, End: 1e4, Shape: "cosine"})

// Validate checks the ranges.
func (o OneCycle) Validate() error {
	if err := shape(o.Shape, "cosine", "linear"); err != nil {
		return err
	}
	below, want := 1.0, "more than 0 and less than 1"
	if o.Three {
		below, want = 0.5, "more than 0 and at most 0.5 with three=true"
	}
	return cmp.Or(
		rate("lr", o.LR),
		check(o.Up > 0 && o.Up < 1 && o.Up <= below, "up", o.Up, want),
		check(o.Start >= 1, "start", o.Start, "at least 1"),
		check(o.End >= 1, "end", o.End, "at least 1"),
	)
}

// shape checks an option that names the form of a curve.
func shape(got string, there ...string) error {
	for _, s := range there {
		if got == s {
			return nil
		}
	}
	return fmt.Errorf("option %q is %q; want one of %v", "shape", got, there)
}

// New makes the Schedule.
func (o OneCycle) New(Run) (Schedule, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	first := o.LR / o.Start
	type phase struct{ end, from, to float64 }
	return func(p Progress) float64 {
		total := float64(p.Total)
		phases := [3]phase{{float64(o.Up*total) - 1, first, o.LR}, {total - 1, o.LR, first / o.End}}
		n := 2
		if o.Three {
			phases = [3]phase{phases[0], {float64(2*o.Up*total) - 2, o.LR, first}, {total - 1, first, first / o.End}}
			n = 3
		}
		step, begin := float64(p.Step), 0.0
		for _, ph := range phases[:n] {
			if step <= ph.end {
				x := clamp((step - begin) / (ph.end - begin))
				if o.Shape == "cosine" {
					x = 1 - float64((1+portable.CosPi(x))/2)
				}
				return mix(ph.from, ph.to, x)
			}
			begin = max(0, ph.end)
		}
		return phases[n-1].to
	}, nil
}
