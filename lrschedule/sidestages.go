package lrschedule

import (
	"fmt"
	"slices"
)

// SideStages is a side of training pictures for each stretch of epochs: progressive
// resizing as fast.ai has it in its entries to DAWNBench (Howard et al. 2018,
// imagenet18).
//
//	side = sides[k],   k = how many of the epochs in At have begun
//
// so Sides has one entry more than At. Sides may also become smaller. The defaults are
// those of ResNet-50 on one machine, in 35 epochs to 93 % top-5.
//
// Tuning: two thirds of the epochs at half the side or so; a batch that no longer fits
// into memory at a larger side can fall with it (batch_schedule=stages).
//
// Cost: none; operations go with the square of the side.
type SideStages struct {
	Of []int     `spec:"sides,show" doc:"sides in pixels, none above the size of the data set; one more than epochs in at"`
	At []float64 `spec:"at,show" doc:"epochs at which the next one begins, ascending"`
}

var _ = Sides.Add("stages", "a side of its own for each stretch of epochs, as fast.ai's", SideStages{Of: []int{128, 224, 288}, At: []float64{14, 32}})

// Validate checks ranges and order.
func (o SideStages) Validate() error {
	if len(o.Of) != len(o.At)+1 {
		return fmt.Errorf("option %q has %d sides for the %d epochs of option %q; want one side more than epochs", "sides", len(o.Of), len(o.At), "at")
	}
	for _, n := range o.Of {
		if err := side("sides", n); err != nil {
			return err
		}
	}
	return ascending(o.At)
}

// Side implements SideSpec.
func (o SideStages) Side(p Progress) int { return o.Of[begun(o.At, p.Epoch)] }

// Sides implements SideSpec.
func (o SideStages) Sides() []int {
	sides := slices.Sorted(slices.Values(o.Of))
	return slices.Compact(sides)
}
