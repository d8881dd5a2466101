package conv

import "github.com/gradlab/gradlab/internal/f32"

// pointwise is the gradient of the weights where windows are one pixel and stride
// and padding do nothing: a product of two matrices as they lie, dw = dyᵀ·x. It
// adds up what weights does in the same order, a strip of positions at a time, and
// has its lanes, so that the bits are the same; but nothing is copied, cleared or
// stored apart.
type pointwise struct {
	*weights
	parts int // rows of dw that are done apart
}

const (
	// pointwiseRows is about how many rows of dw are worth a product of their own.
	pointwiseRows = 96
	// pointwiseTerms is how many terms f32.Gemm adds up without a break.
	pointwiseTerms = 320
)

// newPointwise returns nil where w is not such a gradient, or where its kernels round
// otherwise than those of f32.
func newPointwise(w *weights) *pointwise {
	g := w.g
	if !fused || g.Kernel > 1 || g.Stride > 1 || g.Pad > 0 {
		return nil
	}
	for _, st := range w.strips {
		if st.left.n*g.W*w.images > pointwiseTerms {
			return nil
		}
	}
	return &pointwise{w, max(1, g.Out/pointwiseRows)}
}

// pieces is as of Plan.WeightPieces.
func (p *pointwise) pieces(n int) (pieces, floats int) {
	lanes := p.lanes(n)
	if lanes > 1 {
		floats = lanes * p.g.In * p.g.Out
	}
	return lanes * p.parts, floats
}

// piece is as of Plan.BackwardWeights.
func (p *pointwise) piece(piece int, dw, part, x, dy []float32, n int) {
	g, lanes := p.g, p.lanes(n)
	lane, row := piece%lanes, piece/lanes
	if size := g.In * g.Out; lanes > 1 {
		dw = part[lane*size:][:size]
	}
	from, to := row*g.Out/p.parts, (row+1)*g.Out/p.parts
	clear(dw[from*g.In : to*g.In])
	last := (lane + 1) * n / lanes
	for i := lane * n / lanes; i < last; i += p.images {
		count := min(p.images, last-i)
		for _, st := range p.strips {
			at := (i*g.H + st.left.from) * g.W
			f32.GemmSerial(true, false, to-from, g.In, count*st.left.n*g.W, 1,
				dy[at*g.Out+from:], g.Out, x[at*g.In:], g.In, 1, dw[from*g.In:], g.In)
		}
	}
}

// sumLanes adds up the lanes of dw, if there are several.
func sumLanes(dw, part []float32, lanes int) {
	if lanes == 1 {
		return
	}
	copy(dw, part)
	for l := 1; l < lanes; l++ {
		f32.Add(dw, part[l*len(dw):][:len(dw)])
	}
}
