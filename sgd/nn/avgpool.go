package nn

import "github.com/gradlab/gradlab/internal/f32"

// AvgPool is the mean under each window. As in Caffe, padding counts towards
// the number of values; what a ceil-mode window has beyond it does not.
type AvgPool struct {
	Kernel int
	Stride int // 0 is Kernel
	Pad    int
	Ceil   bool
}

func (l AvgPool) bind(b *builder, x int) (int, error) {
	name := b.name("avgpool")
	x = b.images(x)
	g, err := newPool(name, b.shape(x), l.Kernel, l.Stride, l.Pad, l.Ceil)
	if err != nil {
		return 0, err
	}
	return b.emit(avgPool{g}, x, g.shape()), nil
}

// GlobalAvgPool is the mean of each plane: C×H×W to C×1×1.
type GlobalAvgPool struct{}

func (GlobalAvgPool) bind(b *builder, x int) (int, error) {
	x = b.images(x)
	in := b.shape(x)
	// One window of the plane's size: rectangular, but otherwise the same.
	side := in.H * in.W
	g := poolGeometry{c: in.C, h: 1, w: side, k: side, stride: side, outH: 1, outW: 1}
	return b.emit(avgPool{g}, x, g.shape()), nil
}

type avgPool struct{ poolGeometry }

func (avgPool) traits() traits     { return traits{spoils: true} }
func (a avgPool) instance([]op) op { return avgPoolOp{avgPool: a} }

type avgPoolOp struct {
	noHooks
	avgPool
}

func (a avgPoolOp) forward(_ *run, p *microbatch) {
	clear(p.y)
	a.each(p.n(), func(o int, w window) {
		y := p.y[o*a.c : (o+1)*a.c]
		for h := range w.h {
			for x := range w.w {
				at := (w.at + h*a.w + x) * a.c
				f32.Add(y, p.x[at:at+a.c])
			}
		}
		f32.Scale(y, 1/float32(w.padded))
	})
}

func (a avgPoolOp) backward(r *run, p *microbatch) {
	if p.dx == nil {
		return
	}
	clear(p.dx)
	a.each(p.n(), func(o int, w window) {
		dy := p.dy[o*a.c : (o+1)*a.c]
		f32.Scale(dy, 1/float32(w.padded))
		for h := range w.h {
			for x := range w.w {
				at := (w.at + h*a.w + x) * a.c
				f32.Add(p.dx[at:at+a.c], dy)
			}
		}
	})
}
