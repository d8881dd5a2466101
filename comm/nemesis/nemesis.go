// Package nemesis says what goes wrong on a cluster, as data: processes that are killed
// or paused, partitions, and links that lose, double, reorder, delay or slow what they
// carry, at instants of a run, and workers that leave or join before a step. The name is
// Jepsen's.
//
// A Schedule has a text form, which is the value of key faults:
//
//	kill(w2,at=2s)+partition([w0,w1],at=1s,for=300ms)+poisson(every=1m)+leave(w3,before=40)
//
// Faults are written down one by one, or drawn by a law. A law draws by address, so the
// same seed gives the same faults on every machine. Who carries a schedule out reads its
// Plan: package comm/sim does so for virtual ranks, package experiments for processes.
package nemesis

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/registry"
)

// Fault is something that goes wrong, or a law of such things.
type Fault interface {
	// Draw lists what a law comes to in a world: faults that are Actors. An Actor comes
	// to itself, and so does a Mover. The error names ranks that there are not.
	Draw(w World) ([]Fault, error)
}

// Actor is a fault that says by itself what happens.
type Actor interface {
	Fault
	Act(w World) (Act, error)
}

// Faults holds every kind of fault, and every law, by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Faults = registry.New[Fault]("fault")

// What says what an Act does.
type What uint8

// What an Act can do; the zero Act kills.
const (
	Killing What = iota
	Pausing
	Cutting
	Losing
	Doubling
	Reordering
	Delaying
	Slowing
	Resending
	Joining
)

// Act is a fault in a world: who suffers it, when, and how much.
type Act struct {
	What   What
	Rank   int           // of Killing, Joining and Pausing
	From   Set           // otherwise: who sends
	To     Set           // and who receives
	Both   bool          // Cutting: the other direction, too
	At     time.Duration // on the run's clock
	For    time.Duration // 0: to the end
	Share  float64       // of packets, or of pushes
	By     time.Duration // how late
	Jitter time.Duration // standard deviation of By
	Times  float64       // as long
	Key    rng.Key       // addresses its draws
}

// Until is the instant at which the fault is over.
func (a Act) Until() time.Duration {
	if a.For == 0 {
		return 1<<63 - 1
	}
	return a.At + a.For
}

// Touches says whether a frame from one rank to another is on a link of the fault.
func (a Act) Touches(from, to int) bool {
	return a.From.Has(from) && a.To.Has(to) || a.Both && a.From.Has(to) && a.To.Has(from)
}

// Schedule is the faults of a run, in any order.
type Schedule []Fault

// None is the text of a schedule without faults.
const None = "none"

// Parse reads faults joined by "+", or "none". The error names what is wrong and what is
// allowed.
func Parse(text string) (Schedule, error) {
	if strings.TrimSpace(text) == None {
		return nil, nil
	}
	var s Schedule
	for _, part := range split(text) {
		f, err := Faults.Parse(part)
		if err != nil {
			return nil, fmt.Errorf("want none, or faults joined by +, such as kill(w2,at=2s)+leave(w1,before=40): %w", err)
		}
		s = append(s, f)
	}
	return s, nil
}

// String is the text that Parse reads.
func (s Schedule) String() string {
	if len(s) == 0 {
		return None
	}
	var parts []string
	for _, f := range s {
		parts = append(parts, Faults.Spec(f))
	}
	return strings.Join(parts, "+")
}

// split cuts text at every + outside brackets and quotes.
func split(text string) (parts []string) {
	depth, start := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += max(0, registry.Quoted(text[i:])-1)
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '+':
			if depth == 0 {
				parts, start = append(parts, text[start:i]), i+1
			}
		}
	}
	return append(parts, text[start:])
}

// Drawn is the schedule with every law replaced by the faults that it draws, in order of
// time: what a minimised schedule is a part of. The number of a law among the faults at
// instants addresses its draws, so that moves do not change them.
func (s Schedule) Drawn(w World) (Schedule, error) {
	var out Schedule
	var errs []error
	i := uint64(0)
	for _, f := range s {
		w := w
		w.Key = w.Key.With(i)
		if _, ok := f.(Mover); !ok {
			i++
		}
		drawn, err := f.Draw(w)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", Faults.Spec(f), err))
		}
		out = append(out, drawn...)
	}
	return out, errors.Join(errs...)
}

// Plan is what happens at instants in a world, in order of time. Faults of one instant keep
// the order of the schedule. What happens before steps is in Moves.
func (s Schedule) Plan(w World) ([]Act, error) {
	drawn, err := s.Drawn(w)
	if err != nil {
		return nil, err
	}
	var plan []Act
	for _, f := range drawn {
		if _, ok := f.(Mover); ok {
			continue
		}
		a, ok := f.(Actor)
		if !ok {
			return nil, fmt.Errorf("%s drew %s, which says nothing of what happens", s, Faults.Spec(f))
		}
		act, err := a.Act(w)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Faults.Spec(f), err)
		}
		act.Key = rng.New(uint64(w.Key), Faults.Spec(f)) // whatever else happens
		plan = append(plan, act)
	}
	slices.SortStableFunc(plan, func(a, b Act) int { return cmp.Compare(a.At, b.At) })
	return plan, nil
}
