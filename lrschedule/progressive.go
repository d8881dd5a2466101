package lrschedule

import (
	"cmp"
	"fmt"
	"math"
)

// Progressive lets training pictures grow, epoch by epoch, as FFCV does (Leclerc et al.
// 2023, "FFCV: accelerating training by removing data bottlenecks"; get_resolution of
// libffcv/ffcv-imagenet):
//
//	side = from                                            up to epoch begin
//	side = multiple · round(interpolated / multiple)       between, halves to even
//	side = to                                              from epoch end on
//
// with interpolated on the straight line from (begin, from) to (end, to). Epochs are
// whole: within one the side stays.
//
// The defaults are those of its ResNet-50 in 88 epochs, which is evaluated at 256.
//
// Tuning: early epochs bear small pictures; the last ones should have the full side. The
// size of the data set is what is evaluated, and is often an eighth or more above to
// (Touvron et al. 2019, "Fixing the train-test resolution discrepancy").
//
// Cost: none; operations go with the square of the side.
type Progressive struct {
	From     int     `spec:"from,show" doc:"the first side, in pixels"`
	To       int     `spec:"to,show" doc:"the last side, in pixels: at least from, at most the size of the data set"`
	Begin    float64 `spec:"begin,show" doc:"epoch up to which the side is from"`
	End      float64 `spec:"end,show" doc:"epoch from which on it is to"`
	Multiple int     `doc:"sides in between are rounded to multiples of this"`
}

var _ = Sides.Add("progressive", "training pictures grow along a line over epochs, as FFCV's", Progressive{From: 160, To: 192, Begin: 65, End: 76, Multiple: 32})

// Validate checks ranges and order.
func (o Progressive) Validate() error {
	if err := cmp.Or(side("from", o.From), side("to", o.To)); err != nil {
		return err
	}
	if o.To < o.From {
		return fmt.Errorf("option %q is %d; want at least %q, %d", "to", o.To, "from", o.From)
	}
	return cmp.Or(
		check(o.Begin >= 0, "begin", o.Begin, "an epoch of at least 0"),
		check(o.End >= o.Begin, "end", o.End, "an epoch no earlier than begin"),
		check(o.Multiple >= 1, "multiple", float64(o.Multiple), "at least 1"),
	)
}

// Side implements SideSpec.
func (o Progressive) Side(p Progress) int {
	epoch := math.Floor(p.Epoch)
	switch {
	case epoch <= o.Begin:
		return o.From
	case epoch >= o.End:
		return o.To
	}
	at := float64(o.From) + float64(o.To-o.From)*(epoch-o.Begin)/(o.End-o.Begin)
	return o.rounded(at)
}

// rounded is a side in between: never outside of the two ends.
func (o Progressive) rounded(at float64) int {
	n := int(math.RoundToEven(at/float64(o.Multiple))) * o.Multiple
	return max(o.From, min(o.To, n))
}

// Sides implements SideSpec.
func (o Progressive) Sides() []int {
	sides := []int{o.From}
	for n := o.From/o.Multiple + 1; n*o.Multiple < o.To; n++ {
		sides = append(sides, n*o.Multiple)
	}
	if o.To > o.From {
		sides = append(sides, o.To)
	}
	return sides
}
