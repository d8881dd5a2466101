package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/pool"
)

// MaxPool is the largest value under each window; its gradient goes to where
// that value (the first of equals) was. A ReLU behind it is done in the same
// pass.
type MaxPool struct {
	Kernel int // its square at most pool.MaxPixels
	Stride int // 0 is Kernel
	Pad    int // never chosen as maximum
	Ceil   bool
}

func (l MaxPool) bind(b *builder, x int) (int, error) {
	name := b.name("maxpool")
	if l.Kernel > 0 && l.Kernel > pool.MaxPixels/l.Kernel {
		return 0, fmt.Errorf("nn: %s needs a kernel of at most %d values, not %d×%d", name, pool.MaxPixels, l.Kernel, l.Kernel)
	}
	x = b.images(x)
	g, err := newPool(name, b.shape(x), l.Kernel, l.Stride, l.Pad, l.Ceil)
	if err != nil {
		return 0, err
	}
	return b.emit(&maxPool{poolGeometry: g}, x, g.shape()), nil
}

type maxPool struct {
	poolGeometry
	relu bool
}

func (m *maxPool) rectify()         { m.relu = true }
func (m *maxPool) traits() traits   { return traits{readsY: m.relu, spoils: m.relu} }
func (m *maxPool) instance([]op) op { return &maxPoolOp{maxPool: *m} }

type maxPoolOp struct {
	noHooks
	maxPool
	where []uint8 // per output, which pixel of its window
}

func (m *maxPoolOp) begin(r *run, _ *microbatch, d direction) {
	if d == ahead {
		grow(&m.where, r.n*m.shape().Len())
	}
}

func (m *maxPoolOp) forward(_ *run, p *microbatch) {
	where := m.where[p.lo*m.shape().Len():]
	m.each(p.n(), func(o int, w window) {
		lo, hi := o*m.c, (o+1)*m.c
		pool.Max(p.y[lo:hi], where[lo:hi], p.x[w.at*m.c:], w.w, w.h, m.w*m.c, m.relu)
	})
}

func (m *maxPoolOp) backward(_ *run, p *microbatch) {
	if p.dx == nil {
		return
	}
	if m.relu {
		f32.ReLUGrad(p.dy, p.dy, p.y)
	}
	where := m.where[p.lo*m.shape().Len():]
	add := !m.tiles()
	if add {
		clear(p.dx)
	}
	m.each(p.n(), func(o int, w window) {
		lo, hi := o*m.c, (o+1)*m.c
		pool.MaxGrad(p.dx[w.at*m.c:], p.dy[lo:hi], where[lo:hi], w.w, w.h, m.w*m.c, add)
	})
}
