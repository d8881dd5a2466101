package compresstest

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress"
)

// fed is a formula with error feedback around it.
type fed struct {
	in             formula
	decay, lowpass float64
	e, p           [][]float64
}

func newFed(in formula, blocks []compress.Block, decay, lowpass float64) *fed {
	return &fed{in: in, decay: decay, lowpass: lowpass, e: zeros(blocks)}
}

func feedbackFormula(f compress.Family, blocks []compress.Block, together bool) (formula, error) {
	fb := f.(compress.Feedback)
	in, err := newFormula(fb.In, blocks, together)
	return newFed(in, blocks, float64(float32(fb.Decay)), float64(float32(fb.LowPass))), err
}

func (m *fed) expect(g [][]float64, s compress.Step) []want {
	m.p = nil
	for r, x := range g {
		m.p = append(m.p, stored(combine(x, m.decay, m.e[r])))
	}
	return within(m.in.expect(m.p, s), m.p, m.e, g)
}

// stored is x as state is kept, in float32.
func stored(x []float64) []float64 {
	for i, v := range x {
		x[i] = float64(float32(v))
	}
	return x
}

// within sets what errors are small against: all that was added and taken off.
func within(w []want, of ...[][]float64) []want {
	for r := range w {
		for _, x := range of {
			w[r].scale = max(w[r].scale, largest(x[r]))
		}
	}
	return w
}

func (m *fed) took(out [][]float64) {
	m.in.took(out)
	for r, p := range m.p {
		for i := range p {
			m.e[r][i] = m.lowpass*m.e[r][i] + float64(1-float32(m.lowpass))*(p[i]-out[r][i])
		}
		stored(m.e[r])
	}
}

// tracking is an estimate of each rank's gradient, moved by a formula.
type tracking struct {
	in formula
	h  [][]float64
}

func ef21Formula(f compress.Family, blocks []compress.Block, together bool) (formula, error) {
	in, err := newFormula(f.(compress.EF21).In, blocks, together)
	return &tracking{in: in, h: zeros(blocks)}, err
}

func (t *tracking) expect(g [][]float64, s compress.Step) []want {
	var away [][]float64
	for r, x := range g {
		away = append(away, stored(combine(x, -1, t.h[r])))
	}
	out := t.in.expect(away, s)
	for r := range out {
		h := t.h[r]
		out[r] = out[r].through(func(out []float64) []float64 { return combine(out, -1, h) })
	}
	return within(out, g, t.h)
}

func (t *tracking) took(out [][]float64) {
	var moved [][]float64
	for r, x := range out {
		moved = append(moved, combine(x, -1, t.h[r]))
		t.h[r] = x
	}
	t.in.took(moved)
}

// sums is gradients added up for a formula that is asked every few steps.
type sums struct {
	in       formula
	blocks   []compress.Block
	n, every int
	a        [][]float64
}

func accumulateFormula(f compress.Family, blocks []compress.Block, together bool) (formula, error) {
	a := f.(compress.Accumulate)
	in, err := newFormula(a.In, blocks, together)
	return &sums{in: in, blocks: blocks, every: a.Every, a: zeros(blocks)}, err
}

func (a *sums) expect(g [][]float64, s compress.Step) (out []want) {
	a.n++
	for r, x := range g {
		a.a[r] = stored(combine(a.a[r], 1, x))
		out = append(out, exactly(make([]float64, len(x))))
	}
	if a.n < a.every {
		return out
	}
	return a.in.expect(a.a, s)
}

func (a *sums) took(out [][]float64) {
	if a.n == a.every {
		a.in.took(out)
		a.n, a.a = 0, zeros(a.blocks)
	}
}

// scaled is a formula whose outputs are multiplied by a factor.
type scaled struct {
	in     formula
	factor float64
}

func contractionFormula(f compress.Family, blocks []compress.Block, _ bool) (formula, error) {
	c := f.(compress.Contraction)
	claims, _ := compress.ClaimsOf(c.In, blocks[0])
	in, err := newFormula(c.In, blocks, false)
	return scaled{in, 1 / (1 + claims.Omega)}, err
}

func (c scaled) undo(out []float64) []float64 {
	return combine(make([]float64, len(out)), 1/c.factor, out)
}

func (c scaled) expect(g [][]float64, s compress.Step) []want {
	out := c.in.expect(g, s)
	for r := range out {
		out[r] = out[r].through(c.undo)
	}
	return out
}

func (c scaled) took(out [][]float64) {
	var inner [][]float64
	for _, x := range out {
		inner = append(inner, c.undo(x))
	}
	c.in.took(inner)
}

// sliced is the exchange of scatter: rank j sums the slices j of all and encodes
// the sum again.
type sliced struct {
	world    int
	up, down [][]formula // by rank and slice, by slice
	bounds   []int
	g, sum   [][]float64
}

func scatterFormula(f compress.Family, blocks []compress.Block, together bool) (formula, error) {
	in := f.(compress.Scatter).In
	if !together || len(blocks) < 2 {
		return newFormula(in, blocks, false)
	}
	x := &sliced{world: len(blocks), bounds: []int{0}}
	row := 1 // a codec that uses a matrix's shape gets whole rows
	if c, _ := compress.ClaimsOf(in, blocks[0]); c.Shaped {
		row = blocks[0].Cols
	}
	for j := range x.world {
		x.bounds = append(x.bounds, blocks[0].Len()/row*(j+1)/x.world*row)
	}
	for r := range x.world {
		x.up, x.down = append(x.up, nil), append(x.down, nil)
		for j := range x.world {
			b := blocks[r]
			b.Rows, b.Cols = (x.bounds[j+1]-x.bounds[j])/row, row
			if row == 1 {
				b.Rows, b.Cols = 1, b.Rows
			}
			up, err := newFormula(in, []compress.Block{b}, false)
			if err != nil {
				return nil, err
			}
			down, err := newFormula(in, []compress.Block{b}, false)
			if err != nil {
				return nil, err
			}
			x.up[r], x.down[r] = append(x.up[r], up), append(x.down[r], down)
		}
	}
	return x, nil
}

func (x *sliced) of(v []float64, j int) []float64 { return v[x.bounds[j]:x.bounds[j+1]] }

// expect: what a rank is credited with on the slice of another is its encoding. On
// its own slice it is what it put in and what the second encoding, of the sum,
// changed; the sum is known from the credits of the others.
func (x *sliced) expect(g [][]float64, s compress.Step) []want {
	x.g = g
	out := make([]want, x.world)
	x.sum = make([][]float64, x.world)
	for j := range x.world {
		x.sum[j] = append([]float64(nil), x.of(g[j], j)...)
	}
	for r := range x.world {
		var ups []want
		for j := range x.world {
			w := want{}
			if j != r {
				w = x.up[r][j].expect([][]float64{x.of(g[r], j)}, s)[0]
			}
			ups = append(ups, w)
		}
		out[r] = want{law: func(credited []float64) error {
			for j, w := range ups {
				if j == r {
					continue
				}
				if err := w.check(x.of(credited, j)); err != nil {
					return fmt.Errorf("slice %d: %w", j, err)
				}
				x.sum[j] = combine(x.sum[j], 1, x.of(credited, j))
			}
			if r < x.world-1 { // not all credits are known
				return nil
			}
			return x.last(s, credited)
		}}
	}
	return out
}

// last is called when all credits but those of owners for their slices are known.
// Rank world−1 owns the last slice; that of the others is held by the exchange
// check: credits add up to the output, which is the second encoding.
func (x *sliced) last(s compress.Step, credited []float64) error {
	j := x.world - 1
	second := combine(combine(x.of(credited, j), -1, x.of(x.g[j], j)), 1, x.sum[j])
	w := x.down[j][j].expect([][]float64{x.sum[j]}, s)[0]
	w.scale = max(w.scale, largest(x.sum[j]), largest(x.g[j]))
	if err := w.check(second); err != nil {
		return fmt.Errorf("the sum of slice %d: %w", j, err)
	}
	x.down[j][j].took([][]float64{second})
	return nil
}

func (x *sliced) took(out [][]float64) {
	for r, v := range out {
		for j := range x.world {
			if j != r {
				x.up[r][j].took([][]float64{x.of(v, j)})
			}
		}
	}
}

// factored is PowerSGD: each rank is credited with P̂P̂ᵀM, where P̂ spans the columns
// of ΣM·Q, and Q spans the rows of the last output.
type factored struct {
	rows, cols, rank int
	together         bool
	last             [][]float64 // outputs
}

func powerFormula(f compress.Family, blocks []compress.Block, together bool) (formula, error) {
	p, b := f.(compress.PowerSGD), blocks[0]
	if float64(p.Rank*(b.Rows+b.Cols))*p.Gain > float64(b.Len()) {
		return formulas["raw"](compress.Raw{}, blocks, together)
	}
	return &factored{rows: b.Rows, cols: b.Cols, rank: p.Rank, together: together}, nil
}

func (x *factored) expect(g [][]float64, _ compress.Step) (out []want) {
	bases := make([][][]float64, len(g))
	if x.together {
		sum := make([]float64, x.rows*x.cols)
		for _, m := range g {
			sum = combine(sum, 1, m)
		}
		bases[0] = x.basis(sum, 0)
		for r := range g {
			bases[r] = bases[0]
		}
	} else {
		for r, m := range g {
			bases[r] = x.basis(m, r)
		}
	}
	for r, m := range g {
		basis := bases[r]
		if len(basis) == x.rank { // nothing is left to draws
			w := exactly(x.project(basis, m))
			w.scale = 10 * largest(m) // orthonormal only as far as float32 goes
			out = append(out, w)
			continue
		}
		rankOfLast := 0
		if x.last != nil && !x.together && x.faded(m, r) {
			rankOfLast = x.rank
		} else if x.last != nil && !x.together {
			rankOfLast = len(orthonormal(x.rowsOf(x.last[r]), x.rank, 1e-14))
		}
		out = append(out, want{law: func(out []float64) error { return x.isProjection(m, out, basis, rankOfLast) }})
	}
	return out
}

// basis spans the columns of M·Q as far as the last output of rank r tells Q, which
// is nothing at first.
func (x *factored) basis(m []float64, r int) [][]float64 {
	if x.last == nil || x.faded(m, r) {
		return nil
	}
	// The columns of M·lastᵀ span those of M·Q.
	var columns [][]float64
	all := 0.0
	for _, row := range x.rowsOf(x.last[r]) {
		columns = append(columns, x.times(m, row))
		all += square(columns[len(columns)-1])
	}
	if all < 1e-6*square(m)*square(x.last[r]) { // M·Q is nothing but rounding
		return nil
	}
	return orthonormal(columns, x.rank, 1e-5)
}

// faded reports whether the last output of rank r was next to nothing, of which
// float32 tells no rows.
func (x *factored) faded(m []float64, r int) bool { return largest(x.last[r]) < 1e-3*largest(m) }

func (x *factored) rowsOf(m []float64) (out [][]float64) {
	for i := range x.rows {
		out = append(out, m[i*x.cols:(i+1)*x.cols])
	}
	return out
}

// times is M·v.
func (x *factored) times(m, v []float64) []float64 {
	out := make([]float64, x.rows)
	for i := range out {
		out[i] = dot(m[i*x.cols:(i+1)*x.cols], v)
	}
	return out
}

func dot(a, b []float64) (s float64) {
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

// orthonormal is a basis of up to k vectors, the largest remainders first, as long as
// their squares are more than the least share of the largest vector's.
func orthonormal(v [][]float64, k int, least float64) (basis [][]float64) {
	all := 0.0
	rest := make([][]float64, len(v))
	for i := range v {
		rest[i] = append([]float64(nil), v[i]...)
		all = max(all, square(v[i]))
	}
	for range k {
		best := -1
		for i := range rest {
			if s := square(rest[i]); s > least*all && (best < 0 || s > square(rest[best])) {
				best = i
			}
		}
		if best < 0 {
			return basis
		}
		q := combine(make([]float64, len(rest[best])), 1/math.Sqrt(square(rest[best])), rest[best])
		basis = append(basis, q)
		for i := range rest {
			for range 2 {
				rest[i] = combine(rest[i], -dot(q, rest[i]), q)
			}
		}
	}
	return basis
}

// project is P̂P̂ᵀM.
func (x *factored) project(basis [][]float64, m []float64) []float64 {
	out := make([]float64, len(m))
	for j := range x.cols {
		column := make([]float64, x.rows)
		for i := range column {
			column[i] = m[i*x.cols+j]
		}
		for _, q := range basis {
			s := dot(q, column)
			for i := range column {
				out[i*x.cols+j] += s * q[i]
			}
		}
	}
	return out
}

// isProjection: where Q is drawn, at first and where columns of it have died, the
// output is still M projected on as many directions as there are, those of basis
// among them.
func (x *factored) isProjection(m, out []float64, basis [][]float64, rankOfLast int) error {
	var columns, own [][]float64
	for j := range x.cols {
		a, b := make([]float64, x.rows), make([]float64, x.rows)
		for i := range x.rows {
			a[i], b[i] = out[i*x.cols+j], m[i*x.cols+j]
		}
		columns, own = append(columns, a), append(own, b)
	}
	got := orthonormal(columns, len(columns), 1e-5)
	most := len(orthonormal(own, x.rank, 1e-5))
	if len(got) > x.rank {
		return fmt.Errorf("factors of rank %d, want at most %d", len(got), x.rank)
	}
	// Q has the rows of the last output, and draws for what that lacks.
	if least := min(most, len(basis)+x.rank-rankOfLast); !x.together && len(got) < least {
		return fmt.Errorf("factors of rank %d where the matrix gives %d", len(got), least)
	}
	scale := math.Sqrt(square(m))
	if off := math.Sqrt(square(combine(x.project(got, m), -1, out))); off > 3e-4*scale {
		return fmt.Errorf("off the projection on its own columns by %.3g of the matrix", off/scale)
	}
	for _, q := range basis {
		rest := append([]float64(nil), q...)
		for range 2 {
			for _, p := range got {
				rest = combine(rest, -dot(p, rest), p)
			}
		}
		if s := square(rest); !x.together && s > 1e-4 {
			return fmt.Errorf("a direction that the last step had found is lost (%.3g of it)", s)
		}
	}
	return nil
}

func (x *factored) took(out [][]float64) {
	x.last = out
	if x.together {
		sum := make([]float64, x.rows*x.cols)
		for _, v := range out {
			sum = combine(sum, 1, v)
		}
		x.last = [][]float64{sum}
	}
}
