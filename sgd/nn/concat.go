package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// Concat runs branches on one input and puts their channels side by side, those of
// the first branch first (Szegedy et al. 2014). Branches must agree in height and
// width.
type Concat []Sequential

func (l Concat) bind(b *builder, x int) (int, error) {
	name := b.name("concat")
	if len(l) == 0 {
		return 0, fmt.Errorf("nn: %s needs at least one branch", name)
	}
	x = b.images(x)
	b.values[x].pinned = true
	var all []*put
	var out sgd.Shape
	y, channels := -1, 0
	first := -1
	for i, branch := range l {
		v, err := branch.bind(b, x)
		if err != nil {
			return 0, fmt.Errorf("%w (branch %d of %s)", err, i+1, name)
		}
		v = b.images(v)
		in := b.shape(v)
		if i == 0 {
			out = in
		} else if in.H != out.H || in.W != out.W {
			return 0, fmt.Errorf("nn: %s joins a branch of %v to one of %v; height and width must be equal", name, in, out)
		}
		p := &put{from: channels, c: in.C}
		all = append(all, p)
		channels += in.C
		next := b.emit(p, v, in)
		if y >= 0 {
			b.attach(y) // what is there stays, in the same memory
			b.values[next].store = b.values[y].store
		} else {
			first = next
		}
		y = next
	}
	out.C = channels
	for _, p := range all {
		p.total = channels
	}
	for v := first; v <= y; v++ {
		if b.values[v].store == first {
			b.values[v].shape = out
		}
	}
	return y, nil
}

// put is y = add, but for channels from … from+c−1 of total, which are x.
type put struct{ from, c, total int }

func (*put) traits() traits     { return traits{} }
func (f *put) instance([]op) op { return putOp{put: f} }

type putOp struct {
	noHooks
	*put
}

func (o putOp) forward(_ *run, p *microbatch) {
	if p.add != nil && &p.add[0] != &p.y[0] {
		copy(p.y, p.add)
	}
	for x, y := p.x, p.y[o.from:]; ; y = y[o.total:] {
		copy(y, x[:o.c])
		if x = x[o.c:]; len(x) == 0 {
			return
		}
	}
}

func (o putOp) backward(_ *run, p *microbatch) {
	if p.dx == nil {
		return
	}
	for dx, dy := p.dx, p.dy[o.from:]; ; dy = dy[o.total:] {
		copy(dx[:o.c], dy)
		if dx = dx[o.c:]; len(dx) == 0 {
			return
		}
	}
}
