package sgd

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
)

// Local is a Transform that treats every value by itself, so that any stretch
// of a vector can take its step alone, with the same bits. Every Transform of
// this package is Local but those that need norms or whole matrices: clip, and
// lars, lamb, muon and others, which are Tensorwise.
type Local interface {
	Transform
	// ApplyRange is Apply on the values r.Lo … r.Hi−1 alone; u and params are
	// whole vectors. Buffer spans inside the stretch are left alone.
	ApplyRange(u, params []float32, r Range, s Step)
}

// blockLen is how many values Advance takes at a time: gradient, parameters and
// two moments of a block fit a core's second-level cache several times.
const blockLen = 4096

// Advance takes one step: t.Apply(u, params, s), then Update(params, u), with
// the same bits. For a Local t it goes block by block, so that gradient, state
// and parameters pass between memory and core once, however many parts a chain
// has; for a Tensorwise tensor by tensor. u holds the update afterwards. Lengths that do not fit panic.
func Advance(t Transform, u, params []float32, s Step) {
	sameLen(u, params)
	l, ok := t.(Local)
	if !ok {
		if tw, ok := t.(Tensorwise); ok {
			advanceTensors(tw, u, params, s)
			return
		}
		t.Apply(u, params, s)
		Update(params, u)
		return
	}
	for r := (Range{}); ; r.Lo = r.Hi {
		r.Hi = min(r.Lo+blockLen, len(u))
		l.ApplyRange(u, params, r, s)
		f32.Sub(params[r.Lo:r.Hi], u[r.Lo:r.Hi])
		if r.Hi == len(u) {
			return
		}
	}
}

// Update applies an update: params −= u, over everything. On buffer spans u is
// still old − new, so there the new value comes out.
func Update(params, u []float32) {
	sameLen(u, params)
	f32.Sub(params, u)
}

func sameLen(u, params []float32) {
	if len(u) != len(params) {
		panic(fmt.Sprintf("sgd: an update of %d values for %d parameters", len(u), len(params)))
	}
}

// local makes a Local of a kernel over one stretch without buffers.
type local struct {
	domain
	kernel func(u, params []float32, r Range, s Step)
}

func (t *local) Apply(u, params []float32, s Step) {
	for _, r := range t.of(u) {
		t.kernel(u, params, r, s)
	}
}

func (t *local) ApplyRange(u, params []float32, in Range, s Step) {
	for _, r := range t.of(u) {
		if r = (Range{max(r.Lo, in.Lo), min(r.Hi, in.Hi)}); r.Lo < r.Hi {
			t.kernel(u, params, r, s)
		}
	}
}
