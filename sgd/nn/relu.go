package nn

import (
	"math"

	"github.com/gradlab/gradlab/sgd"
)

// ReLU is y = max(x, 0), dx = dy where y > 0. NaN stays NaN, so that a net
// that has diverged shows it.
type ReLU struct{}

func (ReLU) bind(b *builder, in sgd.Shape) (module, error) {
	return b.leaf(
		leafInfo{in: in, out: in, elementwise: true, keepsOut: true},
		func() op[float32] { return newReLU[float32](in.Len()) },
		func() op[float64] { return newReLU[float64](in.Len()) }), nil
}

type relu[T Float] struct {
	size         int
	x, y, dy, dx []T

	forwardImage, backwardImage func(i, slot int)
}

func newReLU[T Float](size int) *relu[T] {
	o := &relu[T]{size: size}
	o.forwardImage, o.backwardImage = o.doForward, o.doBackward
	return o
}

func (o *relu[T]) forward(r *run[T], x, y []T) {
	o.x, o.y = x, y
	r.each(r.n, len(x), o.forwardImage)
}

func (o *relu[T]) backward(r *run[T], x, y, dy, dx []T) {
	if dx != nil {
		o.y, o.dy, o.dx = y, dy, dx
		r.each(r.n, len(y), o.backwardImage)
	}
}

func (o *relu[T]) doForward(s, _ int) {
	x, y := o.x[s*o.size:(s+1)*o.size], o.y[s*o.size:(s+1)*o.size]
	for i, v := range x {
		y[i] = max(v, 0)
	}
}

func (o *relu[T]) doBackward(s, _ int) {
	lo, hi := s*o.size, (s+1)*o.size
	reluGrad(o.dx[lo:hi], o.dy[lo:hi], o.y[lo:hi])
}

// reluGrad sets dx to dy where y is not zero, to 0 elsewhere, without branches:
// signs are a coin toss to the predictor.
func reluGrad[T Float](dx, dy, y []T) {
	switch dx := any(dx).(type) {
	case []float32:
		dy, y := any(dy).([]float32)[:len(dx)], any(y).([]float32)[:len(dx)]
		for i := range dx {
			v := math.Float32bits(y[i])
			dx[i] = math.Float32frombits(math.Float32bits(dy[i]) & uint32(int32(v|-v)>>31))
		}
	case []float64:
		dy, y := any(dy).([]float64)[:len(dx)], any(y).([]float64)[:len(dx)]
		for i := range dx {
			v := math.Float64bits(y[i])
			dx[i] = math.Float64frombits(math.Float64bits(dy[i]) & uint64(int64(v|-v)>>63))
		}
	}
}
