package sgd

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
)

// beside keeps values for tensors that are not of their shape, such as the square matrices
// of a matrix's sides. A checkpoint stores state as it stores parameters, so these lie in as
// many vectors of the layout's length as the tensor needs that has the most to keep: a
// tensor has its stretch of each, one behind the other.
type beside [][]float32

// newBeside has room for need values of each span.
func newBeside(l Layout, spans []Span, need func(Span) int) beside {
	vectors := 0
	for _, s := range spans {
		vectors = max(vectors, (need(s)+s.Len()-1)/s.Len())
	}
	b := make(beside, vectors)
	for i := range b {
		b[i] = make([]float32, l.Size())
	}
	return b
}

// load reads the values of a tensor.
func (b beside) load(dst []float32, s Span) {
	for _, v := range b {
		dst = dst[copy(dst, v[s.Off:s.End()]):]
	}
}

// store writes the values of a tensor.
func (b beside) store(s Span, src []float32) {
	for _, v := range b {
		src = src[copy(v[s.Off:s.End()], src):]
	}
}

// slots lists the vectors.
func (b beside) slots() (out []Slot) {
	for i, v := range b {
		out = append(out, Slot{fmt.Sprintf("beside%d", i+1), v})
	}
	return out
}

// sided says which sides of a span have a square matrix: those of a matrix of up to most.
func sided(s Span, most int) (rows, cols int) {
	if s.Rows == 1 || s.Cols == 1 || s.Role == Bias || s.Role == Norm {
		return 0, 0
	}
	if s.Rows <= most {
		rows = s.Rows
	}
	if s.Cols <= most {
		cols = s.Cols
	}
	return rows, cols
}

// basis is a side of a matrix: its sums, and a matrix made of them, such as their eigenvectors
// as rows.
type basis struct {
	n          int // 0: none
	sums, rows []float32
}

// sides keeps what the sides of matrices have: sums of squares of gradients, and a matrix
// made of them.
type sides struct {
	beside
	most int     // longest side that has any
	beta float64 // memory of the sums

	// Of one tensor at a time.
	values, g, next []float32 // what is beside it; a gradient; a product
	a, b, d, e      []float64 // of a side
	order           []int
}

func newSides(l Layout, spans []Span, most int, beta float64) sides {
	t := sides{most: most, beta: beta}
	need := func(s Span) int {
		r, c := sided(s, most)
		return 2 * (r*r + c*c)
	}
	t.beside = newBeside(l, spans, need)
	values, longest, side := 0, 0, 0
	for _, s := range spans {
		if r, c := sided(s, most); r+c > 0 {
			values, longest, side = max(values, need(s)), max(longest, s.Len()), max(side, r, c)
		}
	}
	t.values, t.g, t.next = make([]float32, values), make([]float32, longest), make([]float32, longest)
	t.a, t.b, t.d, t.e = make([]float64, side*side), make([]float64, side*side), make([]float64, side), make([]float64, side)
	t.order = make([]int, side)
	return t
}

// open loads what a tensor has.
func (t *sides) open(s Span) (left, right basis) {
	r, c := sided(s, t.most)
	v := t.values[:2*(r*r+c*c)]
	t.load(v, s)
	cut := func(n int) (b basis) {
		b.n, b.sums, b.rows, v = n, v[:n*n], v[n*n:2*n*n], v[2*n*n:]
		return b
	}
	left = cut(r)
	return left, cut(c)
}

// close stores what a tensor has.
func (t *sides) close(s Span) {
	r, c := sided(s, t.most)
	t.store(s, t.values[:2*(r*r+c*c)])
}

// turn multiplies a matrix by those of its sides: into their bases, or back.
func (t *sides) turn(x []float32, s Span, left, right basis, back bool) {
	y, r, c := t.next[:s.Len()], s.Rows, s.Cols
	if left.n > 0 {
		f32.Gemm(back, false, r, c, r, 1, left.rows, r, x, c, 0, y, c)
		copy(x, y)
	}
	if right.n > 0 {
		f32.Gemm(false, !back, r, c, c, 1, x, c, right.rows, c, 0, y, c)
		copy(x, y)
	}
}

// sum adds a gradient's squares to those of the sides.
func (t *sides) sum(left, right basis, s Span, g []float32) {
	keep, add, r, c := float32(t.beta), float32(1-t.beta), s.Rows, s.Cols
	if left.n > 0 {
		f32.Gemm(false, true, r, r, c, add, g, c, g, c, keep, left.sums, r)
	}
	if right.n > 0 {
		f32.Gemm(true, false, c, c, r, add, g, c, g, c, keep, right.sums, c)
	}
}

// round sets x to what is in y.
func round(x []float32, y []float64) {
	for i := range x {
		x[i] = float32(y[i])
	}
}
