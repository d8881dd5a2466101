package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// AdaptiveAvgPool is the mean over the windows of a grid of Side×Side, whatever the
// size of the input: window i of n pixels is pixels ⌊i·n/Side⌋ to ⌈(i+1)·n/Side⌉ − 1,
// as in PyTorch. Where the input has that size already, nothing is done.
type AdaptiveAvgPool struct{ Side int }

func (l AdaptiveAvgPool) bind(b *builder, x int) (int, error) {
	name := b.name("adaptiveavgpool")
	if l.Side < 1 {
		return 0, fmt.Errorf("nn: %s needs a side of at least 1, not %d", name, l.Side)
	}
	x = b.images(x)
	in := b.shape(x)
	out := sgd.Shape{C: in.C, H: l.Side, W: l.Side}
	if in == out {
		return x, nil
	}
	return b.emit(adaptive{in: in, side: l.Side}, x, out), nil
}

type adaptive struct {
	in   sgd.Shape
	side int
}

func (adaptive) traits() traits     { return traits{spoils: true} }
func (a adaptive) instance([]op) op { return adaptiveOp{adaptive: a} }

type adaptiveOp struct {
	noHooks
	adaptive
}

// span is the pixels of window i on a side of n: lo to hi − 1.
func (a adaptive) span(i, n int) (lo, hi int) {
	return i * n / a.side, ((i+1)*n + a.side - 1) / a.side
}

func (o adaptiveOp) forward(_ *run, p *microbatch) {
	clear(p.y)
	o.each(p.n(), func(to, h0, h1, w0, w1, image int) {
		y := p.y[to : to+o.in.C]
		for h := h0; h < h1; h++ {
			for w := w0; w < w1; w++ {
				at := image + (h*o.in.W+w)*o.in.C
				f32.Add(y, p.x[at:at+o.in.C])
			}
		}
		f32.Scale(y, 1/float32((h1-h0)*(w1-w0)))
	})
}

func (o adaptiveOp) backward(_ *run, p *microbatch) {
	if p.dx == nil {
		return
	}
	clear(p.dx)
	o.each(p.n(), func(to, h0, h1, w0, w1, image int) {
		dy := p.dy[to : to+o.in.C]
		f32.Scale(dy, 1/float32((h1-h0)*(w1-w0)))
		for h := h0; h < h1; h++ {
			for w := w0; w < w1; w++ {
				at := image + (h*o.in.W+w)*o.in.C
				f32.Add(p.dx[at:at+o.in.C], dy)
			}
		}
	})
}

// each calls fn for every window of n images: the offset of its output, its rows
// and columns, and the offset of its image.
func (o adaptiveOp) each(n int, fn func(to, h0, h1, w0, w1, image int)) {
	to := 0
	for s := range n {
		for i := range o.side {
			h0, h1 := o.span(i, o.in.H)
			for j := range o.side {
				w0, w1 := o.span(j, o.in.W)
				fn(to, h0, h1, w0, w1, s*o.in.Len())
				to += o.in.C
			}
		}
	}
}
