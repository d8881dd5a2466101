package codec

import (
	"math"

	"github.com/gradlab/gradlab/internal/portable"
)

// Cosines is the cosine transform of one length n, and its transpose:
//
//	X_k = Σ xᵢ·cos(πk(2i+1)/2n),  made orthonormal by √(2/n), the first row by √(1/n)
//
// by Lee's recursion (1984). Sums of mirrored rows give the even coefficients, scaled
// differences those whose neighbours add up to the odd ones. Halves are halved again
// down to an odd length, which is multiplied by its matrix. All halves of a length
// are done before those of the next, on eight columns at a time: those stay near.
type Cosines struct {
	n      int
	levels []foldLevel
	odd    int // what is left of n without its factors of two
	matrix []float64
	eight  *[7]float64 // multipliers of lengths 8, 4 and 2, if n is a power of two from 8 on
	three  []float64   // those of the first three levels, seven a row of an eighth, if there are three
}

// foldLevel are the multipliers 1/(2cos(π(2i+1)/2s)) of blocks of s rows.
type foldLevel struct {
	s   int
	mul []float64
}

// NewCosines prepares for length n, at least 1.
func NewCosines(n int) *Cosines {
	c := &Cosines{n: n}
	s := n
	for ; s%2 == 0; s /= 2 {
		l := foldLevel{s: s}
		for i := range s / 2 {
			l.mul = append(l.mul, 0.5/portable.CosPi(float64(2*i+1)/float64(2*s)))
		}
		c.levels = append(c.levels, l)
	}
	c.odd = s
	for k := range s {
		for i := range s {
			c.matrix = append(c.matrix, portable.CosPi(float64(k*(2*i+1)%(4*s))/float64(2*s)))
		}
	}
	if deep := len(c.levels) - 3; s == 1 && deep >= 0 {
		c.eight, s = new([7]float64), 0
		for _, l := range c.levels[deep:] {
			s += copy(c.eight[s:], l.mul)
		}
		c.levels = c.levels[:deep]
	}
	if len(c.levels) >= 3 {
		first, second, third := c.levels[0].mul, c.levels[1].mul, c.levels[2].mul
		for j := range n / 8 {
			c.three = append(c.three, first[j], first[n/4-1-j], first[n/4+j], first[n/2-1-j], second[j], second[n/4-1-j], third[j])
		}
	}
	return c
}

const stripCols = 8

// Space is how many numbers Forward and Back need to work in.
func (c *Cosines) Space() int { return 3 * stripCols * c.n }

// Forward transforms the columns of x, n rows of w, in place.
func (c *Cosines) Forward(x []float64, w int, space []float64) { c.strips(x, w, space, c.forward) }

// Back multiplies the columns of x by the transpose.
func (c *Cosines) Back(x []float64, w int, space []float64) { c.strips(x, w, space, c.back) }

// strips runs fn on eight columns at a time, the last ones beside columns of zeros.
func (c *Cosines) strips(x []float64, w int, space []float64, fn func(x []float64, w int, a, b []float64)) {
	size := stripCols * c.n
	a, b, last := space[:size], space[size:2*size], space[2*size:3*size]
	whole := w &^ (stripCols - 1)
	for col := 0; col < whole; col += stripCols {
		fn(x[col:], w, a, b)
	}
	if whole == w {
		return
	}
	clear(last)
	for i := range c.n {
		copy(last[stripCols*i:], x[i*w+whole:(i+1)*w])
	}
	fn(last, stripCols, a, b)
	for i := range c.n {
		copy(x[i*w+whole:(i+1)*w], last[stripCols*i:])
	}
}

func (c *Cosines) forward(x []float64, w int, a, b []float64) {
	scale := math.Sqrt(2 / float64(c.n))
	from, stride := x, w
	three := c.three != nil && folds3(a, x, w, c.n, c.three)
	done := 0
	if three {
		done, from, stride = 3, a, stripCols
		a, b = b, a
	}
	for _, l := range c.levels[done:] {
		folds(a, from, stride, c.n, l.s, l.mul)
		from, stride = a, stripCols
		a, b = b, a
	}
	c.leaf(from, stride, a)
	for i := len(c.levels) - 1; i >= 0; i-- {
		switch {
		case i == 2 && three && weaves3(x, w, from, c.n, scale):
			lower(x)
			return
		case i == 0:
			weaves(x, w, from, c.n, c.levels[0].s, scale)
		default:
			weaves(a, stripCols, from, c.n, c.levels[i].s, 1)
			from, a = a, from
		}
	}
	if len(c.levels) == 0 {
		rescale(x, w, c.n, scale)
	}
	lower(x)
}

func (c *Cosines) back(x []float64, w int, a, b []float64) {
	scale := math.Sqrt(2 / float64(c.n))
	if len(c.levels) == 0 {
		rescale(x, w, c.n, scale)
		lower(x)
		c.leafBack(x, w, a)
		return
	}
	three, done := c.three != nil && unweaves3(a, x, w, c.n, scale), 3
	if !three {
		done = 1
		unweaves(a, x, w, c.n, c.n, scale)
	}
	lower(a)
	from := a
	a, b = b, a
	for _, l := range c.levels[done:] {
		unweaves(a, from, stripCols, c.n, l.s, 1)
		from, a, b = a, b, a
	}
	c.leafBack(from, stripCols, a)
	for i := len(c.levels) - 1; i >= 1; i-- {
		if i == 2 && three && unfolds3(x, w, from, c.n, c.three) {
			return
		}
		unfolds(a, stripCols, from, c.n, c.levels[i].s, c.levels[i].mul)
		from, a = a, from
	}
	unfolds(x, w, from, c.n, c.levels[0].s, c.levels[0].mul)
}

// row is the eight numbers of a strip from at on.
func row(x []float64, at int) *[stripCols]float64 { return (*[stripCols]float64)(x[at:]) }

// lower makes the first row orthonormal that has been scaled as the others.
func lower(x []float64) {
	for j, v := range row(x, 0) {
		x[j] = v * (math.Sqrt2 / 2)
	}
}

// rescale multiplies n rows, stride apart, by scale.
func rescale(x []float64, stride, n int, scale float64) {
	for i := range n {
		r := row(x, i*stride)
		for j := range r {
			r[j] *= scale
		}
	}
}

// leaf transforms blocks of eight rows or of an odd number.
func (c *Cosines) leaf(x []float64, stride int, tmp []float64) {
	if c.eight != nil {
		eights(x, stride, c.n, c.eight)
		return
	}
	c.product(x, stride, tmp, c.odd, 1)
}

// leafBack is the transpose of leaf.
func (c *Cosines) leafBack(x []float64, stride int, tmp []float64) {
	if c.eight != nil {
		eightsBack(x, stride, c.n, c.eight)
		return
	}
	c.product(x, stride, tmp, 1, c.odd)
}

// product multiplies blocks of an odd number of rows by a matrix whose rows are so far
// apart, and the entries of one so far.
func (c *Cosines) product(x []float64, stride int, tmp []float64, rows, entries int) {
	for at := 0; at < c.n; at += c.odd {
		for k := range c.odd {
			var sum [stripCols]float64
			for i := range c.odd {
				m := c.matrix[k*rows+i*entries]
				for j, v := range row(x, (at+i)*stride) {
					sum[j] += float64(m * v)
				}
			}
			*row(tmp, stripCols*k) = sum
		}
		for k := range c.odd {
			*row(x, (at+k)*stride) = *row(tmp, stripCols*k)
		}
	}
}
