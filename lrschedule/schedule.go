// Package lrschedule holds learning-rate schedules. A schedule is a function of
// progress and knows of nothing else, so resuming, plotting and composing are
// free.
package lrschedule

import "github.com/gradlab/gradlab/internal/registry"

// Progress is how far a run has come. Epoch counts passes over the training
// set by samples drawn, so it stays right when batch sizes change. Total is
// the planned number of updates.
type Progress struct {
	Step    int
	Total   int
	Epoch   float64
	Samples uint64
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

// Specs holds every schedule by name; see registry for the spec text.
var Specs = registry.New[Spec]("schedule")
