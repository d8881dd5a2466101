package sgd

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/registry"
)

// Optimizers holds every update rule and filter by name; see registry for the
// spec text.
//
// One optimizer a file. A file opens with its formula, paper, departures and
// tuning, and enrols itself with one line:
//
//	var _ = Optimizers.Add("momentum", "heavy-ball momentum", Momentum{Beta: 0.9})
//
// That line puts it into spec text, `gradlab list`, the conformance suite and
// the benchmarks of sgdtest. There are two kinds. An update rule (sgd,
// momentum, adam, …) turns a gradient into LR·direction. A Filter (decay,
// clip, …) only changes the gradient; chain sets filters before a rule.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Optimizers = registry.New[Optimizer]("optimizer")

// Filter is an Optimizer that only changes the gradient and leaves the
// learning rate to the update rule behind it in a chain. Its New refuses, with
// a hint at chain: alone it would apply gradients at rate 1.
type Filter interface {
	Optimizer
	NewFilter(Layout) (Transform, error)
}

// alone words the refusal of a filter that was named as the whole optimizer.
func alone(f Filter) error {
	s := Optimizers.Spec(f)
	return fmt.Errorf("%s only changes the gradient; put an update rule behind it, as in chain(%s,sgd)", s, s)
}

// NeedsWhole tells whether o must see whole tensors, and so cannot run where
// tensors are split over shards; see Whole.
func NeedsWhole(o Optimizer) bool {
	w, ok := o.(Whole)
	return ok && w.NeedsWhole()
}

// HasMomentum tells whether o keeps a momentum; see Momentous.
func HasMomentum(o Optimizer) bool {
	m, ok := o.(Momentous)
	return ok && m.Momentous()
}

// IsBare tells whether o is plain gradient descent; see Bare.
func IsBare(o Optimizer) bool {
	b, ok := o.(Bare)
	return ok && b.Bare()
}

// Range is a stretch [Lo, Hi) of the flat vector.
type Range struct{ Lo, Hi int }

// Ranges lists the spans that keep accepts as maximal contiguous stretches, so
// that a loop over many small tensors becomes a few flat loops.
func (l Layout) Ranges(keep func(Span) bool) []Range {
	var out []Range
	for _, s := range l.Spans {
		switch n := len(out); {
		case s.Len() == 0 || !keep(s):
		case n > 0 && out[n-1].Hi == s.Off:
			out[n-1].Hi = s.End()
		default:
			out = append(out, Range{s.Off, s.End()})
		}
	}
	return out
}

// domain is what a Transform works on: stretches of a vector of known length.
type domain struct {
	size   int
	ranges []Range
}

// trainable is the domain of nearly every Transform: all but buffers.
func trainable(l Layout) domain {
	return domain{l.Size(), l.Ranges(func(s Span) bool { return s.Role != Buffer })}
}

// of returns the stretches of u to work on. A wrong length is the caller's
// mistake and panics.
func (d *domain) of(u []float32) []Range {
	if len(u) != d.size {
		panic(fmt.Sprintf("sgd: an update of %d values for a layout of %d", len(u), d.size))
	}
	return d.ranges
}

// check returns an error unless ok; key names the option at fault.
func check(ok bool, key string, got float64, want string) error {
	if ok && !math.IsInf(got, 0) {
		return nil
	}
	return fmt.Errorf("option %q is %v; want %s", key, got, want)
}
