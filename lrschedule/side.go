package lrschedule

import (
	"fmt"

	"github.com/gradlab/gradlab/registry"
)

// SideSpec is an option struct that says how large training pictures are at p: a
// schedule of sides. It depends on the progress of the data alone, Epoch and Samples.
// Evaluations are at the size of the data set, which no side exceeds.
type SideSpec interface {
	// Side is the side of training pictures in pixels; 0: the size of the data set.
	Side(p Progress) int
	// Sides lists what Side may be, ascending, each once.
	Sides() []int
}

// Sides holds every schedule of sides by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Sides = registry.New[SideSpec]("side schedule")

// FixedSide keeps training pictures at the size of the data set.
//
// Rule: size, from the first update to the last.
//
// Paper: none.
//
// Tuning: none.
//
// Cost: none.
type FixedSide struct{}

var _ = Sides.Add("fixed", "training pictures stay at the size of the data set", FixedSide{})

// Side implements SideSpec.
func (FixedSide) Side(Progress) int { return 0 }

// Sides implements SideSpec.
func (FixedSide) Sides() []int { return nil }

// IsFixedSide says whether s, which may be nil, keeps the size.
func IsFixedSide(s SideSpec) bool {
	_, fixed := s.(FixedSide)
	return s == nil || fixed
}

// The least and the largest side of a schedule, in pixels.
const (
	leastSide = 4
	mostSide  = 1024
)

// side checks an option that is a side.
func side(key string, n int) error {
	if n >= leastSide && n <= mostSide {
		return nil
	}
	return fmt.Errorf("option %q is %d; want a side of %d to %d pixels", key, n, leastSide, mostSide)
}
