package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// Residual adds a shortcut to a body: y = body(x) + shortcut(x) (He et al.
// 2015). Without Shortcut it is the identity; where the body has more channels
// or a coarser grid, option A of that paper: every stride-th pixel, and zeros
// for the channels behind the input's. The activation after the sum is a layer
// of its own.
//
// Where the body ends in a batch norm, its last pass does the sum as well.
type Residual struct {
	Body     Sequential
	Shortcut Sequential // a projection, nil for the identity
}

func (l Residual) bind(b *builder, x int) (int, error) {
	name := b.name("residual")
	x = b.images(x)
	b.values[x].pinned = true
	in := b.shape(x)
	y, err := l.Body.bind(b, x)
	if err != nil {
		return 0, fmt.Errorf("%w (body of %s)", err, name)
	}
	out := b.shape(y)

	// A batch norm at the end waits for the shortcut.
	var last []node
	if f, ok := b.last(y).(*normalise); ok && !f.relu && b.nodes[len(b.nodes)-1].add < 0 {
		last = append(last, b.nodes[len(b.nodes)-1])
		b.nodes = b.nodes[:len(b.nodes)-1]
	}
	s := x
	if l.Shortcut != nil {
		if s, err = l.Shortcut.bind(b, x); err != nil {
			return 0, fmt.Errorf("%w (shortcut of %s)", err, name)
		}
		if b.shape(s) != out {
			return 0, fmt.Errorf("nn: %s adds a body of %v to a shortcut of %v", name, out, b.shape(s))
		}
	} else if in != out {
		t := thin{in: in, out: out, stride: (in.H + out.H - 1) / out.H}
		if t.stride < 1 || in.C > out.C || (in.H+t.stride-1)/t.stride != out.H || (in.W+t.stride-1)/t.stride != out.W {
			return 0, fmt.Errorf("nn: %s has no identity from %v to %v; give it a shortcut", name, in, out)
		}
		s = b.emit(t, x, out)
	}
	if last != nil {
		b.nodes = append(b.nodes, last...)
	} else {
		y = b.emit(&join{}, y, out)
	}
	b.attach(s)
	return y, nil
}

// join is y = x + add, with a ReLU if there is one behind it.
type join struct{ relu bool }

func (j *join) rectify() { j.relu = true }

func (j *join) traits() traits {
	return traits{readsY: j.relu, spoils: j.relu, passes: true}
}

func (j *join) instance([]op) op { return joinOp{join: *j} }

type joinOp struct {
	noHooks
	join
}

func (j joinOp) forward(_ *run, p *microbatch) {
	if j.relu {
		f32.AddReLU(p.y, p.x, p.add)
	} else {
		add(p.y, p.x, p.add)
	}
}

func (j joinOp) backward(_ *run, p *microbatch) {
	if j.relu {
		f32.ReLUGrad(p.dy, p.dy, p.y)
	}
}

// thin is the identity of option A.
type thin struct {
	in, out sgd.Shape
	stride  int
}

func (thin) traits() traits     { return traits{} }
func (t thin) instance([]op) op { return &thinOp{thin: t} }

type thinOp struct {
	noHooks
	thin
}

func (t *thinOp) forward(_ *run, p *microbatch) {
	clear(p.y)
	t.pixels(p.n(), func(at, to int) { copy(p.y[to:], p.x[at:at+t.in.C]) })
}

func (t *thinOp) backward(_ *run, p *microbatch) {
	if p.dx == nil {
		return
	}
	clear(p.dx)
	t.pixels(p.n(), func(at, to int) { copy(p.dx[at:at+t.in.C], p.dy[to:]) })
}

// pixels calls fn with the offset of each pixel that stays and of its place.
func (t *thinOp) pixels(n int, fn func(at, to int)) {
	to := 0
	for s := range n {
		for h := 0; h < t.in.H; h += t.stride {
			for w := 0; w < t.in.W; w += t.stride {
				fn(((s*t.in.H+h)*t.in.W+w)*t.in.C, to)
				to += t.out.C
			}
		}
	}
}
