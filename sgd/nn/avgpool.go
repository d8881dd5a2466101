package nn

import "github.com/gradlab/gradlab/sgd"

// AvgPool is the mean under each window. As in Caffe, padding counts towards
// the number of values; what a ceil-mode window has beyond it does not.
type AvgPool struct {
	Kernel int
	Stride int // 0 is Kernel
	Pad    int
	Ceil   bool
}

func (l AvgPool) bind(b *builder, in sgd.Shape) (module, error) {
	g, err := newPool(b.name("avgpool"), in, l.Kernel, l.Stride, l.Pad, l.Ceil)
	if err != nil {
		return module{}, err
	}
	return bindAverage(b, in, g), nil
}

// GlobalAvgPool is the mean of each plane: C×H×W to C×1×1.
type GlobalAvgPool struct{}

func (GlobalAvgPool) bind(b *builder, in sgd.Shape) (module, error) {
	// One window of the plane's size: rectangular, but otherwise the same.
	g := poolGeometry{c: in.C, h: 1, w: in.H * in.W, k: in.H * in.W, stride: in.H * in.W, outH: 1, outW: 1}
	return bindAverage(b, in, g), nil
}

func bindAverage(b *builder, in sgd.Shape, g poolGeometry) module {
	return b.leaf(
		leafInfo{in: in, out: g.shape()},
		func() op[float32] { return newAvgPool[float32](g) },
		func() op[float64] { return newAvgPool[float64](g) })
}

type avgPool[T Float] struct {
	poolGeometry
	x, y, dy, dx []T

	forwardImage, backwardImage func(i, slot int)
}

func newAvgPool[T Float](g poolGeometry) *avgPool[T] {
	a := &avgPool[T]{poolGeometry: g}
	a.forwardImage, a.backwardImage = a.doForward, a.doBackward
	return a
}

func (a *avgPool[T]) forward(r *run[T], x, y []T) {
	a.x, a.y = x, y
	r.each(r.n, len(x), a.forwardImage)
}

func (a *avgPool[T]) backward(r *run[T], x, y, dy, dx []T) {
	if dx != nil {
		a.dy, a.dx = dy, dx
		r.each(r.n, len(dx), a.backwardImage)
	}
}

func (a *avgPool[T]) doForward(s, _ int) {
	in, out := a.h*a.w, a.outH*a.outW
	for oy := range a.outH {
		y0, y1, rows := a.window(oy, a.h)
		for ox := range a.outW {
			x0, x1, cols := a.window(ox, a.w)
			scale := 1 / T(rows*cols)
			for p := s * a.c; p < (s+1)*a.c; p++ {
				plane, t := a.x[p*in:(p+1)*in], T(0)
				for y := y0; y < y1; y++ {
					for _, v := range plane[y*a.w+x0 : y*a.w+x1] {
						t += v
					}
				}
				a.y[p*out+oy*a.outW+ox] = t * scale
			}
		}
	}
}

func (a *avgPool[T]) doBackward(s, _ int) {
	in, out := a.h*a.w, a.outH*a.outW
	clear(a.dx[s*a.c*in : (s+1)*a.c*in])
	for oy := range a.outH {
		y0, y1, rows := a.window(oy, a.h)
		for ox := range a.outW {
			x0, x1, cols := a.window(ox, a.w)
			scale := 1 / T(rows*cols)
			for p := s * a.c; p < (s+1)*a.c; p++ {
				plane, v := a.dx[p*in:(p+1)*in], a.dy[p*out+oy*a.outW+ox]*scale
				for y := y0; y < y1; y++ {
					row := plane[y*a.w+x0 : y*a.w+x1]
					for i := range row {
						row[i] += v
					}
				}
			}
		}
	}
}
