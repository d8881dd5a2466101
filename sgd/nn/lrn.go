package nn

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/sgd"
)

// LRN is local response normalisation within a channel, as in Caffe: with W(i)
// the n×n window around pixel i, zeros outside the image,
//
//	s_i = 1 + α/n² Σ_{j∈W(i)} x_j²,   y_i = x_i · s_i^−β
//	dx_i = dy_i · s_i^−β − 2αβ/n² · x_i Σ_{j∈W(i)} dy_j · x_j · s_j^−β−1
//
// (Krizhevsky et al. 2012 normalise across channels instead: LRNAcross.)
type LRN struct {
	Size        int // n, odd
	Alpha, Beta float64
}

func (l LRN) bind(b *builder, x int) (int, error) {
	name := b.name("lrn")
	if l.Size < 1 || l.Size%2 == 0 {
		return 0, fmt.Errorf("nn: %s needs an odd size ≥ 1, not %d", name, l.Size)
	}
	x = b.images(x)
	return b.emit(lrn{l, b.shape(x)}, x, b.shape(x)), nil
}

type lrn struct {
	LRN
	sgd.Shape
}

func (lrn) traits() traits     { return traits{readsX: true} }
func (l lrn) instance([]op) op { return &lrnOp{lrn: l} }

type lrnOp struct {
	noHooks
	lrn
	s, f []float32 // s as above and s^−β, of the batch
}

func (o *lrnOp) begin(r *run, _ *microbatch, d direction) {
	if d == ahead {
		grow(&o.s, r.n*o.Len())
		grow(&o.f, r.n*o.Len())
	}
}

func (o *lrnOp) forward(r *run, p *microbatch) {
	size := o.Len()
	square := r.space(p.slot, size)
	alpha := float32(o.Alpha / float64(o.Size*o.Size))
	for i := range p.n() {
		x, y := p.x[i*size:(i+1)*size], p.y[i*size:(i+1)*size]
		at := (p.lo + i) * size
		s, f := o.s[at:at+size], o.f[at:at+size]
		for j, v := range x {
			square[j] = v * v
		}
		o.boxSums(s, square, y)
		for j, v := range x {
			t := 1 + float32(alpha*s[j])
			w := powerDown(t, o.Beta)
			s[j], f[j], y[j] = t, w, v*w
		}
	}
}

func (o *lrnOp) backward(r *run, p *microbatch) {
	if p.dx == nil {
		return
	}
	size := o.Len()
	q := r.space(p.slot, 2*size)
	q, tmp := q[:size], q[size:]
	k := float32(-2 * o.Alpha * o.Beta / float64(o.Size*o.Size))
	for i := range p.n() {
		x, dy, dx := p.x[i*size:(i+1)*size], p.dy[i*size:(i+1)*size], p.dx[i*size:(i+1)*size]
		at := (p.lo + i) * size
		s, f := o.s[at:at+size], o.f[at:at+size]
		for j, v := range dy {
			q[j] = v * x[j] * f[j] / s[j]
		}
		o.boxSums(dx, q, tmp)
		for j, v := range dy {
			dx[j] = float32(v*f[j]) + float32(k*x[j]*dx[j])
		}
	}
}

// powerDown is t^−β, by square roots for the usual β = 3/4.
func powerDown(t float32, beta float64) float32 {
	if beta == 0.75 {
		r := float32(math.Sqrt(float64(t)))
		return 1 / (r * float32(math.Sqrt(float64(r))))
	}
	return float32(portable.Pow(float64(t), -beta))
}

// boxSums sets dst to the sums of src, one image, over windows: first down the
// columns into tmp, then along the rows.
func (o *lrnOp) boxSums(dst, src, tmp []float32) {
	shifted(tmp, src, o.W*o.C, o.H, o.Size/2)
	for h := range o.H {
		lo, hi := h*o.W*o.C, (h+1)*o.W*o.C
		shifted(dst[lo:hi], tmp[lo:hi], o.C, o.W, o.Size/2)
	}
}

// shifted sets dst to the sum of src shifted by −half … half steps, of n.
func shifted(dst, src []float32, step, n, half int) {
	copy(dst, src)
	for k := 1; k <= min(half, n-1); k++ {
		d := k * step
		f32.Add(dst[:len(dst)-d], src[d:])
		f32.Add(dst[d:], src[:len(src)-d])
	}
}
