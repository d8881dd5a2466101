// Package staleness decides when a parameter server applies a gradient and when
// a worker gets its answer. Policies are pure: no clock, no socket, no gradient,
// only counts and what workers say of their loss. Correctors scale a late
// gradient, or amend it.
package staleness

import "github.com/gradlab/gradlab/registry"

// Verdict is a policy's word on one push.
type Verdict uint8

const (
	Apply Verdict = iota // one update from this push alone, now
	Hold                 // keep it until Flush
	Drop                 // too late or void: reject it
)

func (v Verdict) String() string { return [...]string{"apply", "hold", "drop"}[v] }

// View is all a policy may know of a shard. Slices are indexed by worker and
// must not be modified.
type View struct {
	Live    []bool // still members
	Pushed  []int  // pushes taken from each worker so far (its clock)
	Held    []int  // pushes of each worker now held
	Waiting []bool // has pushed and not been answered
	Version int    // updates applied
	Delay   int    // Admit: staleness of the push in question, Version − its version

	// Loss is the training loss of late, as workers report it, and First what it
	// was at the beginning; both 0 until a worker has told one.
	Loss, First float64
}

// NumLive counts members.
func (v View) NumLive() int {
	n := 0
	for _, l := range v.Live {
		if l {
			n++
		}
	}
	return n
}

// NumHeld counts held pushes.
func (v View) NumHeld() int {
	n := 0
	for _, h := range v.Held {
		n += h
	}
	return n
}

// MinClock is the smallest clock among live workers, 0 if none lives.
func (v View) MinClock() int {
	m, any := 0, false
	for w, l := range v.Live {
		if l && (!any || v.Pushed[w] < m) {
			m, any = v.Pushed[w], true
		}
	}
	return m
}

// Policy decides. After each push the server asks Admit once, then Flush (held
// pushes become one update, their mean) and then, for every waiting worker in
// rank order, Release. After a worker leaves it asks Flush and Release again.
type Policy interface {
	Admit(v View, worker int) Verdict
	Flush(v View) bool
	Release(v View, worker int) bool
	// Cancel lists workers whose running gradient has become void after an
	// update (K-sync): they start over on the new parameters. nil for most.
	Cancel(v View) []int
}

// Spec is an option struct that makes a Policy for a number of workers.
type Spec interface {
	New(workers int) (Policy, error)
	// Traits is what its Policies for that number of workers, at least 1, claim.
	Traits(workers int) PolicyTraits
}

// Policies holds every policy by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Policies = registry.New[Spec]("policy")

// Past is what a corrector may know of a late gradient.
type Past struct {
	Delay  int // staleness in updates
	Worker int
	Update int     // updates applied before
	Mean   float64 // staleness of all gradients applied before, 0 if there are none
	Rate   float64 // the schedule's learning rate; 0 where only Scale is asked
}

// Corrector gives the factor a gradient's learning rate is multiplied by.
type Corrector interface {
	Scale(p Past) float64
	Traits() CorrectorTraits
}

// Correctors holds every corrector by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Correctors = registry.New[Corrector]("corrector")
