package conv

import "github.com/gradlab/gradlab/internal/f32"

// pointwise is the gradient of the weights where windows are one pixel and there is
// no padding: a product of two matrices as they lie, dw = dyᵀ·x. It adds up what
// weights does in the same order, a strip of positions at a time, and has its lanes,
// so that the bits are the same; but no sums are stored apart, and of x nothing is
// copied but what a stride leaves.
type pointwise struct {
	*weights
	parts  int     // rows of dw that are done apart
	at, ct []int32 // of rows of dw, from the first of a part on: in dy and in dw
}

const (
	// pointwiseRows is about how many rows of dw are worth a product of their own.
	pointwiseRows = 96
	// pointwiseInputs is up to how many input channels it pays to read dy where it lies:
	// with more, what is brought together is used more often.
	pointwiseInputs = 64
	// pointwiseTerms is how many terms f32.Gemm adds up without a break.
	pointwiseTerms = 320
)

// newPointwise returns nil where w is not such a gradient.
func newPointwise(w *weights) *pointwise {
	g := w.g
	if g.Kernel > 1 || g.Pad > 0 {
		return nil
	}
	for _, st := range w.strips {
		if w.output(st).n*g.OutW()*w.images > pointwiseTerms {
			return nil
		}
	}
	p := &pointwise{weights: w, parts: max(1, g.Out/pointwiseRows)}
	for i := range g.Out {
		p.at, p.ct = append(p.at, int32(i)), append(p.ct, int32(i*g.In))
	}
	return p
}

// part is rows of dw, in eights where there are whole ones.
func (p *pointwise) part(i int) (from, to int) {
	unit := 1
	if p.g.Out%8 == 0 {
		unit = 8
	}
	n := p.g.Out / unit
	return i * n / p.parts * unit, (i + 1) * n / p.parts * unit
}

// output is the rows of the output that a strip is of.
func (w *weights) output(st strip) span {
	if w.flip {
		return st.left
	}
	return st.right
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
func (p *pointwise) piece(s *Space, piece int, dw, part, x, dy []float32, n int) {
	g, lanes := p.g, p.lanes(n)
	lane, row := piece%lanes, piece/lanes
	if size := g.In * g.Out; lanes > 1 {
		dw = part[lane*size:][:size]
	}
	from, to := p.part(row)
	clear(dw[from*g.In : to*g.In])
	last := (lane + 1) * n / lanes
	for i := lane * n / lanes; i < last; i += p.images {
		count := min(p.images, last-i)
		for _, st := range p.strips {
			out := p.output(st)
			p.multiply(s, to-from, count*out.n*g.OutW(), dy[(i*g.OutH()+out.from)*g.OutW()*g.Out+from:], p.read(s, x, i, count, out), dw[from*g.In:])
		}
	}
}

// multiply adds dyᵀ·x of so many rows and terms to rows of dw: where they lie, or by
// f32.Gemm, which brings dy together first. The bits are the same.
func (p *pointwise) multiply(s *Space, rows, terms int, dy, x, dw []float32) {
	g := p.g
	if abreast() == 1 || rows%8 != 0 || g.In%tileCols != 0 || g.In > pointwiseInputs {
		f32.GemmSerial(true, false, rows, g.In, terms, 1, dy, g.Out, x, g.In, 1, dw, g.In)
		return
	}
	t := &s.job
	*t = job{sa: g.Out, sb: g.In, pb: tileCols, pc: tileCols, reps: 1, segs: s.segs[:1], add: true, a: dy}
	s.segs[0] = segment{n: int32(terms), mask: allRows}
	tall, short := cover(rows)
	six := tall * tileRows
	for j := 0; j < g.In/tileCols; j += t.panels {
		t.panels = together(g.In/tileCols - j)
		t.b, t.c = x[j*tileCols:], dw[j*tileCols:]
		t.rows, t.at, t.ct = tileRows, p.at[:six], p.ct[:six]
		tiles(t)
		t.rows, t.at, t.ct = 4, p.at[six:six+4*short], p.ct[six:six+4*short]
		tiles(t)
	}
}

// read returns the pixels of x that some rows of the output of count images from i
// on were made of: several rows of one image, or all of several.
func (p *pointwise) read(s *Space, x []float32, i, count int, out span) []float32 {
	g := p.g
	if g.Stride == 1 {
		return x[(i*g.H+out.from)*g.W*g.In:]
	}
	s.strip = grow(&s.strip, count*out.n*g.OutW()*g.In)
	dst := s.strip
	for j := range count {
		for oy := range out.n {
			row := x[((i+j)*g.H+(out.from+oy)*g.Stride)*g.W*g.In:]
			for ox := range g.OutW() {
				copy(dst[:g.In], row[ox*g.Stride*g.In:])
				dst = dst[g.In:]
			}
		}
	}
	return s.strip
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
