package nn

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/sgd"
)

// LRN is local response normalisation within a channel, as in Caffe: with W(i)
// the n×n window around i, zeros outside the plane,
//
//	s_i = 1 + α/n² Σ_{j∈W(i)} x_j²,   y_i = x_i · s_i^−β
//	dx_i = dy_i · s_i^−β − 2αβ/n² · x_i Σ_{j∈W(i)} dy_j · x_j · s_j^−β−1
//
// (Krizhevsky et al. 2012 normalise across channels instead.)
type LRN struct {
	Size        int // n, odd
	Alpha, Beta float64
}

func (l LRN) bind(b *builder, in sgd.Shape) (module, error) {
	name := b.name("lrn")
	if l.Size < 1 || l.Size%2 == 0 {
		return module{}, fmt.Errorf("nn: %s needs an odd size ≥ 1, not %d", name, l.Size)
	}
	return b.leaf(
		leafInfo{in: in, out: in},
		func() op[float32] { return newLRN[float32](l, in) },
		func() op[float64] { return newLRN[float64](l, in) }), nil
}

type lrn[T Float] struct {
	LRN
	sgd.Shape
	r         *run[T]
	x, dy, dx []T
	y         []T
	s, f      []T // s as above and s^−β

	forwardImage, backwardImage func(i, slot int)
}

func newLRN[T Float](l LRN, in sgd.Shape) *lrn[T] {
	o := &lrn[T]{LRN: l, Shape: in}
	o.forwardImage, o.backwardImage = o.doForward, o.doBackward
	return o
}

func (o *lrn[T]) forward(r *run[T], x, y []T) {
	o.r, o.x, o.y = r, x, y
	grow(&o.s, len(x))
	grow(&o.f, len(x))
	r.reserve(2 * o.H * o.W)
	r.each(r.n, 16*len(x), o.forwardImage)
}

func (o *lrn[T]) backward(r *run[T], x, y, dy, dx []T) {
	if dx != nil {
		o.r, o.x, o.dy, o.dx = r, x, dy, dx
		r.reserve(2 * o.H * o.W)
		r.each(r.n, 16*len(x), o.backwardImage)
	}
}

func (o *lrn[T]) doForward(img, slot int) {
	plane := o.H * o.W
	sq, tmp := o.r.work[slot][:plane], o.r.work[slot][plane:2*plane]
	alpha := T(o.Alpha / float64(o.Size*o.Size))
	for c := img * o.C; c < (img+1)*o.C; c++ {
		lo, hi := c*plane, (c+1)*plane
		x, y, s, f := o.x[lo:hi], o.y[lo:hi], o.s[lo:hi], o.f[lo:hi]
		for i, v := range x {
			sq[i] = v * v
		}
		boxSum(s, sq, tmp, o.H, o.W, o.Size)
		for i, v := range x {
			t := 1 + alpha*s[i]
			p := o.power(t)
			s[i], f[i], y[i] = t, p, v*p
		}
	}
}

func (o *lrn[T]) doBackward(img, slot int) {
	plane := o.H * o.W
	q, tmp := o.r.work[slot][:plane], o.r.work[slot][plane:2*plane]
	k := T(-2 * o.Alpha * o.Beta / float64(o.Size*o.Size))
	for c := img * o.C; c < (img+1)*o.C; c++ {
		lo, hi := c*plane, (c+1)*plane
		x, s, f, dy, dx := o.x[lo:hi], o.s[lo:hi], o.f[lo:hi], o.dy[lo:hi], o.dx[lo:hi]
		for i, v := range dy {
			q[i] = v * x[i] * f[i] / s[i]
		}
		boxSum(dx, q, tmp, o.H, o.W, o.Size)
		for i, v := range dy {
			dx[i] = v*f[i] + k*x[i]*dx[i]
		}
	}
}

// power is t^−β, by square roots for the usual β = 3/4.
func (o *lrn[T]) power(t T) T {
	if o.Beta == 0.75 {
		r := T(math.Sqrt(float64(t)))
		return 1 / (r * T(math.Sqrt(float64(r))))
	}
	return T(math.Pow(float64(t), -o.Beta))
}

// boxSum sets dst to the sums of src, h×w, over size×size windows: first down
// the columns into tmp, then along the rows.
func boxSum[T Float](dst, src, tmp []T, h, w, size int) {
	half := size / 2
	for y := range h {
		row := tmp[y*w : (y+1)*w]
		clear(row)
		for k := max(y-half, 0); k <= min(y+half, h-1); k++ {
			addTo(row, src[k*w:(k+1)*w])
		}
	}
	for y := range h {
		row, to := tmp[y*w:(y+1)*w], dst[y*w:(y+1)*w]
		copy(to, row)
		for k := 1; k <= min(half, w-1); k++ {
			addTo(to[:w-k], row[k:])
			addTo(to[k:], row[:w-k])
		}
	}
}
