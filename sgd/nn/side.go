package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// At implements sgd.Resizable: the layers of n, bound to pictures of another side. A
// Scratch of n, or of any of its sizes, serves all of them: its memory is that of the
// largest and goes along.
func (n *Net) At(side int) (sgd.Model, error) {
	switch {
	case n.in.H != n.in.W || n.in.H < 2:
		return nil, fmt.Errorf("nn: inputs of %v are no square pictures", n.in.Shape)
	case side < 1 || side > n.in.H:
		return nil, fmt.Errorf("nn: no side of %d within %v", side, n.in.Shape)
	}
	in := n.in
	in.H, in.W = side, side
	other, err := build(in, n.smoothing, n.layers, n.options)
	if err != nil {
		return nil, fmt.Errorf("it does not fit pictures of side %d: %w", side, err)
	}
	for i, s := range n.layout.Spans {
		if o := other.layout.Spans[i]; o.Rows != s.Rows || o.Cols != s.Cols {
			return nil, fmt.Errorf("its %s has %d×%d values for pictures of side %d and %d×%d for side %d: it has a fixed side, as it does not end in a mean over the grid",
				s.Name, s.Rows, s.Cols, n.in.H, o.Rows, o.Cols, side)
		}
	}
	other.modules, other.forms, other.first, other.looks, other.whole = n.modules, n.forms, n.first, n.looks, n.family()
	return other, nil
}

// family is the net whose scratch n takes.
func (n *Net) family() *Net {
	if n.whole != nil {
		return n.whole
	}
	return n
}

// enterNet makes the net of another size the one whose passes run. Memory goes over to
// them, so that a scratch has that of one size, the largest.
func (s *scratch) enterNet(n *Net) {
	if s.net == n {
		return
	}
	r := s.sizes[n]
	if r == nil {
		r = s.newRun(n)
	}
	r.inherit(s.run)
	s.run, s.net = r, n
}

// newRun makes the working parts of a net.
func (s *scratch) newRun(n *Net) *run {
	r := new(run)
	r.init(n.plan, &n.layout, n.options.Precision)
	r.least = s.whole.plan
	if s.sizes == nil {
		s.sizes = map[*Net]*run{}
	}
	s.sizes[n] = r
	return r
}

// inherit takes the memory of a run that makes no pass.
func (r *run) inherit(from *run) {
	r.acts, r.slopes = from.acts, from.slopes
	r.rounded, r.wholeX, r.wholeDY = from.rounded, from.wholeX, from.wholeDY
	r.packed, r.partial = from.packed, from.partial
	for i := range r.slots {
		to, of := &r.slots[i], &from.slots[i]
		to.local, to.space, to.conv, to.loads = of.local, of.space, of.conv, of.loads
	}
}
