package sgd

// isMatrix says whether a span is one for rules of matrices: a weight, no table, with more
// than one row and column.
func isMatrix(s Span) bool { return s.Role == Weight && s.Rows > 1 && s.Cols > 1 }

// matrixwise makes a Tensorwise of a kernel over one tensor and its shape. Tensors that it is
// not for stay.
type matrixwise struct {
	domain
	all    map[Range]int // index in taken, −1: it stays; others' tensors are not in it
	taken  []Span
	kernel func(u, w []float32, s Span, at Step) // u and w are the tensor's
}

// newMatrixwise is for the trainable spans that take accepts.
func newMatrixwise(l Layout, take func(Span) bool) matrixwise {
	t := matrixwise{domain: domain{l.Size(), tensors(l)}, all: map[Range]int{}}
	for _, s := range l.Spans {
		if s.Role == Buffer || s.Len() == 0 {
			continue
		}
		at := Range{s.Off, s.End()}
		if t.all[at] = -1; take(s) {
			t.all[at] = len(t.taken)
			t.taken = append(t.taken, s)
		}
	}
	return t
}

func (t *matrixwise) Apply(u, params []float32, s Step) {
	for _, r := range t.of(u) {
		t.ApplyTensor(u, params, r, s)
	}
}

func (t *matrixwise) Tensors() []Range { return t.ranges }

func (t *matrixwise) ApplyTensor(u, params []float32, r Range, s Step) {
	t.of(u)
	switch i, mine := t.all[r]; {
	case !mine:
	case i < 0:
		clear(u[r.Lo:r.Hi])
	default:
		t.kernel(u[r.Lo:r.Hi], params[r.Lo:r.Hi], t.taken[i], s)
	}
}
