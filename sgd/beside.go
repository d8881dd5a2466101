package sgd

import "fmt"

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
