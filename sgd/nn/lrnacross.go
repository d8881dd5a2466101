package nn

import "fmt"

// LRNAcross is local response normalisation over neighbouring channels (Krizhevsky
// et al. 2012, section 3.3): with C(i) the Size channels around channel i, at the
// same pixel,
//
//	s_i = K + α Σ_{j∈C(i)} x_j²,   y_i = x_i · s_i^−β
//	dx_i = dy_i · s_i^−β − 2αβ · x_i Σ_{j∈C(i)} dy_j · x_j · s_j^−β−1
//
// The paper has Size 5, K 2, α 10⁻⁴ and β 0.75. (Caffe and PyTorch divide α by Size.)
type LRNAcross struct {
	Size           int // odd
	K, Alpha, Beta float64
}

func (l LRNAcross) bind(b *builder, x int) (int, error) {
	name := b.name("lrnacross")
	if l.Size < 1 || l.Size%2 == 0 || !(l.K > 0) || !(l.Alpha >= 0) {
		return 0, fmt.Errorf("nn: %s needs an odd size ≥ 1, k > 0 and α ≥ 0, not %d, %g and %g", name, l.Size, l.K, l.Alpha)
	}
	x = b.images(x)
	return b.emit(lrnAcross{l, b.shape(x).C}, x, b.shape(x)), nil
}

type lrnAcross struct {
	LRNAcross
	c int
}

func (lrnAcross) traits() traits     { return traits{readsX: true} }
func (l lrnAcross) instance([]op) op { return lrnAcrossOp{lrnAcross: l} }

type lrnAcrossOp struct {
	noHooks
	lrnAcross
}

func (o lrnAcrossOp) forward(r *run, p *microbatch) {
	s := r.space(p.slot, 2*o.c)
	s, sums := s[:o.c], s[o.c:]
	for at := 0; at < len(p.x); at += o.c {
		x, y := p.x[at:at+o.c], p.y[at:at+o.c]
		o.scales(s, sums, x)
		for i, v := range x {
			y[i] = v * powerDown(s[i], o.Beta)
		}
	}
}

func (o lrnAcrossOp) backward(r *run, p *microbatch) {
	if p.dx == nil {
		return
	}
	s := r.space(p.slot, 3*o.c)
	s, q, sums := s[:o.c], s[o.c:2*o.c], s[2*o.c:]
	k := float32(-2 * o.Alpha * o.Beta)
	for at := 0; at < len(p.x); at += o.c {
		x, dy, dx := p.x[at:at+o.c], p.dy[at:at+o.c], p.dx[at:at+o.c]
		o.scales(s, sums, x)
		for i, v := range dy {
			f := powerDown(s[i], o.Beta)
			q[i] = v * x[i] * f / s[i]
			dx[i] = v * f
		}
		o.windows(sums, q)
		for i, v := range x {
			dx[i] += float32(k * v * sums[i])
		}
	}
}

// scales sets s to s_i of one pixel x; sums is workspace.
func (o lrnAcrossOp) scales(s, sums, x []float32) {
	for i, v := range x {
		s[i] = v * v
	}
	o.windows(sums, s)
	for i, v := range sums {
		s[i] = float32(o.K) + float32(float32(o.Alpha)*v)
	}
}

// windows sets sums to the sums of v over the channels around each.
func (o lrnAcrossOp) windows(sums, v []float32) {
	half := o.Size / 2
	for i := range sums {
		var t float32
		for _, u := range v[max(0, i-half):min(len(v), i+half+1)] {
			t += u
		}
		sums[i] = t
	}
}
