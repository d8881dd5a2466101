package sgd

import "github.com/gradlab/gradlab/internal/f32"

// Tensorwise is a Transform that treats every tensor by itself, as those that take
// norms of layers do (lars, lamb). A tensor is the smallest part that can take its
// step alone. Every Local could be one; Advance asks for Local first.
type Tensorwise interface {
	Transform
	// Tensors lists the trainable tensors as ranges, ascending.
	Tensors() []Range
	// ApplyTensor is Apply on tensor r of the vector alone; u and params are whole
	// vectors. Tensors that are not among Tensors stay.
	ApplyTensor(u, params []float32, r Range, s Step)
}

// RateInside is implemented by Optimizers whose state absorbs learning rates, so
// that a change of rate acts only on what comes after it. Of all others the suite
// proves that the rate stays out of the state.
type RateInside interface {
	// RateInside says whether, with these options, it does.
	RateInside() bool
}

// HasRateInside tells whether o's state absorbs learning rates; see RateInside.
func HasRateInside(o Optimizer) bool {
	r, ok := o.(RateInside)
	return ok && r.RateInside()
}

// tensors lists the trainable tensors of a layout.
func tensors(l Layout) []Range {
	var out []Range
	for _, s := range l.Spans {
		if s.Role != Buffer && s.Len() > 0 {
			out = append(out, Range{s.Off, s.End()})
		}
	}
	return out
}

// advanceTensors is Advance for a Tensorwise: what a core's cache can hold of a
// tensor passes between memory and core once.
func advanceTensors(t Tensorwise, u, params []float32, s Step) {
	done := 0
	for _, r := range t.Tensors() {
		t.ApplyTensor(u, params, r, s)
		f32.Sub(params[done:r.Hi], u[done:r.Hi]) // buffers before it too
		done = r.Hi
	}
	f32.Sub(params[done:], u[done:])
}

// layered makes a Tensorwise of a kernel over one tensor. Skipped tensors are not
// adapted: what that means is the kernel's matter.
type layered struct {
	domain
	adapted map[Range]bool // by tensor; others' tensors are not in it
	kernel  func(u, params []float32, r Range, adapted bool, s Step)
}

// newLayered adapts tensors that are weights (Role.IsWeight), or all with all, but for those whose
// name contains one of skip.
func newLayered(l Layout, all bool, skip []string) layered {
	t := layered{domain: domain{l.Size(), tensors(l)}, adapted: map[Range]bool{}}
	for _, s := range l.Spans {
		if s.Role != Buffer && s.Len() > 0 {
			t.adapted[Range{s.Off, s.End()}] = (all || s.Role.IsWeight()) && !contains(s.Name, skip)
		}
	}
	return t
}

func (t *layered) Apply(u, params []float32, s Step) {
	for _, r := range t.of(u) {
		t.ApplyTensor(u, params, r, s)
	}
}

func (t *layered) Tensors() []Range { return t.ranges }

func (t *layered) ApplyTensor(u, params []float32, r Range, s Step) {
	t.of(u)
	if adapted, mine := t.adapted[r]; mine {
		t.kernel(u, params, r, adapted, s)
	}
}

// composed makes one Transform of parts that are applied in order: Local if all
// are, else Tensorwise if all are at least that.
func composed(l Layout, parts []Transform) Transform {
	local, tensorwise := true, true
	for _, t := range parts {
		_, isLocal := t.(Local)
		_, isTensorwise := t.(Tensorwise)
		local, tensorwise = local && isLocal, tensorwise && (isLocal || isTensorwise)
	}
	switch c := chain(parts); {
	case local:
		return localChain{c}
	case tensorwise:
		return tensorChain{c, tensors(l)}
	default:
		return c
	}
}

// tensorChain is a chain of Locals and Tensorwises.
type tensorChain struct {
	chain
	tensors []Range
}

func (c tensorChain) Tensors() []Range { return c.tensors }

func (c tensorChain) ApplyTensor(u, params []float32, r Range, s Step) {
	for _, t := range c.chain {
		applyTensor(t, u, params, r, s)
	}
}

// applyTensor is the step of one tensor by a Local or Tensorwise.
func applyTensor(t Transform, u, params []float32, r Range, s Step) {
	if l, ok := t.(Local); ok {
		l.ApplyRange(u, params, r, s)
		return
	}
	t.(Tensorwise).ApplyTensor(u, params, r, s)
}
