// Package lrschedule holds learning-rate schedules. A schedule is a function of
// progress and knows of nothing else, so resuming, plotting and composing are
// free.
//
// One schedule a file, enrolled with one line. Schedules hold schedules, so a
// recipe is read inside out:
//
//	warmup(linear(step(lr=0.1,at=[30,60,80])),epochs=5,from=0.1)
//
// is the 0.1 of 256 samples, scaled to the batch, divided by ten three times,
// and approached over five epochs.
package lrschedule

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/registry"
)

// Progress is how far a run has come. Epoch counts passes over the training
// set by samples drawn, so it stays right when batch sizes change. Total is
// the planned number of updates.
type Progress struct {
	Step    int
	Total   int
	Epoch   float64
	Samples uint64
}

// Fraction is the share of the planned updates that is done, in [0, 1]; 0 when
// there is no plan.
func (p Progress) Fraction() float64 {
	if p.Total <= 0 {
		return 0
	}
	return clamp(float64(p.Step) / float64(p.Total))
}

// Schedule gives the learning rate at p: finite and ≥ 0.
type Schedule func(p Progress) float64

// Run is what a schedule may know of a run when it is made.
type Run struct {
	Batch         int     // samples per update, all workers together
	StepsPerEpoch float64 // updates per pass over the training set
	Epochs        float64 // planned passes
	Steps         int     // planned updates
}

// Spec is an option struct that makes a Schedule.
type Spec interface {
	New(Run) (Schedule, error)
}

// Unplanned is implemented by a Spec that can claim that its rates do not depend on
// how many updates are planned: then the beginning of a long run is a short run, and
// one that has ended can be extended.
type Unplanned interface {
	Unplanned() bool
}

// IsUnplanned reports whether s claims that its rates do not depend on how many
// updates are planned. It is false for a Spec without the claim.
func IsUnplanned(s Spec) bool {
	u, ok := s.(Unplanned)
	return ok && u.Unplanned()
}

// Specs holds every schedule by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Specs = registry.New[Spec]("schedule")

// check returns an error unless ok; key names the option at fault.
func check(ok bool, key string, got float64, want string) error {
	if ok && !math.IsInf(got, 0) {
		return nil
	}
	return fmt.Errorf("option %q is %v; want %s", key, got, want)
}

// rate checks an option that is a learning rate.
func rate(key string, lr float64) error { return check(lr >= 0, key, lr, "a rate of at least 0") }

// inner makes the schedule that another one holds.
func inner(s Spec, r Run) (Schedule, error) {
	if s == nil {
		return nil, fmt.Errorf("there is no schedule inside; want one of %v", Specs.Names())
	}
	f, err := s.New(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Specs.Spec(s), err)
	}
	return f, nil
}

func clamp(x float64) float64 { return max(0, min(1, x)) }

// mix is a at x = 0 and b at x = 1, exactly; in between it is monotone and
// never leaves the two.
func mix(a, b, x float64) float64 {
	if x == 1 {
		return b
	}
	a, b = float64(a), float64(b) // products of the caller's are rounded
	return max(min(a, b), min(max(a, b), a+float64((b-a)*x)))
}
