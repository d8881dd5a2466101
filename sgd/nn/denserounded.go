package nn

import "github.com/gradlab/gradlab/internal/f32"

// roundedDense does the products of a dense layer with operands rounded to bfloat16. All
// that it multiplies is rounded first, some rows at a time, by all threads; what is kept
// in that form only changes its order.
type roundedDense struct {
	operands [2]operand
	tasks    int // of the first
	round    func(i, slot int)
}

// operand is a matrix, and where it is rounded to. Its rows lie along the sum of the
// product or across it.
type operand struct {
	from       f32.Values
	rows, cols int
	across     bool
	to         []float32
}

// operandRows are rounded in one task: an even number.
const operandRows = 16

func (o *operand) set(from f32.Values, rows, cols int, across bool) {
	o.from, o.rows, o.cols, o.across = from, rows, cols, across
	size := rows * f32.RoundedLen(cols)
	if across {
		size = f32.RoundedLen(rows) * cols
	}
	grow(&o.to, size)
}

// stride is from row to row, in words.
func (o *operand) stride() int {
	if o.across {
		return o.cols
	}
	return f32.RoundedLen(o.cols)
}

func (o *operand) tasks() int { return (o.rows + operandRows - 1) / operandRows }

func (o *operand) round(task int) {
	lo := task * operandRows
	rows := min(operandRows, o.rows-lo)
	if o.across {
		o.from.From(lo*o.cols).Across(o.to[f32.RoundedLen(lo)*o.cols:], o.cols, o.cols, o.cols, rows)
		return
	}
	for i := lo; i < lo+rows; i++ {
		o.from.From(i*o.cols).Along(o.to[i*o.stride():][:o.stride()], o.cols)
	}
}

func newRoundedDense() *roundedDense {
	d := new(roundedDense)
	d.round = func(i, _ int) {
		if i < d.tasks {
			d.operands[0].round(i)
		} else {
			d.operands[1].round(i - d.tasks)
		}
	}
	return d
}

// multiply sets c = op(A)·op(B), of m×n with k terms, where a matrix whose rows lie across
// k is transposed if it is A, and one whose rows lie along k if it is B.
func (d *roundedDense) multiply(r *run, m, n, k int, c []float32) {
	a, b := &d.operands[0], &d.operands[1]
	d.tasks = a.tasks()
	r.share(d.tasks+b.tasks(), a.rows*a.cols+b.rows*b.cols, d.round)
	f32.GemmRounded(r.threads, a.across, !b.across, m, n, k, a.to, a.stride(), b.to, b.stride(), false, c, n)
	a.from, b.from = f32.Values{}, f32.Values{} // keep nothing alive
}

func (d *roundedDense) forward(r *run, l *dense, p *microbatch) {
	d.operands[0].set(f32.Values{Full: p.x, Half: p.xHalf}, r.n*l.rows, l.in, false)
	d.operands[1].set(f32.Values{Full: r.param(l.weight)}, l.out, l.in, false)
	d.multiply(r, r.n*l.rows, l.out, l.in, p.y)
}

func (d *roundedDense) backward(r *run, l *dense, p *microbatch) {
	d.operands[0].set(f32.Values{Full: p.dy}, r.n*l.rows, l.out, true)
	d.operands[1].set(f32.Values{Full: p.x, Half: p.xHalf}, r.n*l.rows, l.in, true)
	d.multiply(r, l.out, l.in, r.n*l.rows, r.slope(l.weight))
	if p.dx != nil {
		d.operands[0].set(f32.Values{Full: p.dy}, r.n*l.rows, l.out, false)
		d.operands[1].set(f32.Values{Full: r.param(l.weight)}, l.out, l.in, true)
		d.multiply(r, r.n*l.rows, l.in, l.out, p.dx)
	}
}
