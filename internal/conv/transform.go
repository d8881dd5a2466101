package conv

import "github.com/gradlab/gradlab/internal/portable"

// Winograd's transforms in plain Go, the specification of the assembly: a line
// function for one dimension, applied to columns and then to rows.

const (
	pa, pb = 0.625, 1.5 // the points are 0, ±a, ±b and infinity
	pa2    = pa * pa
	pb2    = pb * pb
	n0     = pa2 * pb2
	na     = 2 * pa2 * (pa2 - pb2)
	nb     = 2 * pb2 * (pb2 - pa2)
)

// form is a way to make a tile of side×side outputs, for windows of taps×taps, from
// 6×6 inputs: side + taps − 1 is 6, so that all have the same points and inputLine.
type form struct {
	taps, side                          int
	weights, outputs, gradients, slopes line
}

// forms are F(4×4, 3×3) and F(2×2, 5×5).
var forms = [...]form{
	{3, 4, weightLine, outputLine, gradientLine, slopeLine},
	{5, 2, weightLine5, outputLine2, gradientLine2, slopeLine5},
}

// line transforms one dimension, in place of its argument. Products and sums are rounded
// together, in the order written.
type line func(x *[6]float32)

// plus is x + k·y, minus x − k·y, rounded once.
func plus(x, k, y float32) float32  { return portable.FMA(k, y, x) }
func minus(x, k, y float32) float32 { return portable.FMA(-k, y, x) }

// inputLine is Bᵀ: entries of the polynomials Π (x − q) over the other points.
func inputLine(d *[6]float32) {
	e, o := minus(d[4], pb2, d[2]), minus(d[3], pb2, d[1])
	f, p := minus(d[4], pa2, d[2]), minus(d[3], pa2, d[1])
	*d = [6]float32{
		plus(minus(d[4], pa2+pb2, d[2]), n0, d[0]),
		plus(e, pa, o), minus(e, pa, o), plus(f, pb, p), minus(f, pb, p),
		plus(minus(d[5], pa2+pb2, d[3]), n0, d[1]),
	}
}

// sums are those of both points a and −a, b and −b, and their differences.
func sums(m *[6]float32) (u, v, w, z float32) {
	return m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
}

// outputLine is Aᵀ: powers of the points.
func outputLine(m *[6]float32) {
	u, v, w, z := sums(m)
	*m = [6]float32{m[0] + u + w, plus(pa*v, pb, z), plus(pa2*u, pb2, w), plus(plus(m[5], pa2*pa, v), pb2*pb, z)}
}

// weightLine is G: powers of the points, over Π (point − q).
func weightLine(g *[6]float32) {
	e := plus(1/na*g[0], pa2/na, g[2])
	f := plus(1/nb*g[0], pb2/nb, g[2])
	*g = [6]float32{1 / n0 * g[0], plus(e, pa/na, g[1]), minus(e, pa/na, g[1]), plus(f, pb/nb, g[1]), minus(f, pb/nb, g[1]), g[2]}
}

// outputLine2 is Aᵀ for two outputs.
func outputLine2(m *[6]float32) {
	u, v, w, z := sums(m)
	*m = [6]float32{m[0] + u + w, plus(plus(m[5], pa, v), pb, z)}
}

// weightLine5 is G for five weights.
func weightLine5(g *[6]float32) {
	e, o := plus(plus(1/na*g[0], pa2/na, g[2]), pa2*pa2/na, g[4]), plus(pa/na*g[1], pa2*pa/na, g[3])
	f, p := plus(plus(1/nb*g[0], pb2/nb, g[2]), pb2*pb2/nb, g[4]), plus(pb/nb*g[1], pb2*pb/nb, g[3])
	*g = [6]float32{1 / n0 * g[0], e + o, e - o, f + p, f - p, g[4]}
}

// gradientLine2 is A for two outputs.
func gradientLine2(y *[6]float32) {
	e, o := y[0], y[1]
	*y = [6]float32{e, plus(e, pa, o), minus(e, pa, o), plus(e, pb, o), minus(e, pb, o), o}
}

// slopeLine5 is Gᵀ for five weights.
func slopeLine5(m *[6]float32) {
	u, v, w, z := sums(m)
	*m = [6]float32{
		plus(plus(1/n0*m[0], 1/na, u), 1/nb, w),
		plus(pa/na*v, pb/nb, z),
		plus(pa2/na*u, pb2/nb, w),
		plus(pa2*pa/na*v, pb2*pb/nb, z),
		plus(plus(m[5], pa2*pa2/na, u), pb2*pb2/nb, w),
	}
}

// gradientLine is A.
func gradientLine(y *[6]float32) {
	e, o := plus(y[0], pa2, y[2]), plus(y[1], pa2, y[3])
	f, p := plus(y[0], pb2, y[2]), plus(y[1], pb2, y[3])
	*y = [6]float32{y[0], plus(e, pa, o), minus(e, pa, o), plus(f, pb, p), minus(f, pb, p), y[3]}
}

// slopeLine is Gᵀ.
func slopeLine(m *[6]float32) {
	u, v, w, z := sums(m)
	*m = [6]float32{plus(plus(1/n0*m[0], 1/na, u), 1/nb, w), plus(pa/na*v, pb/nb, z), plus(plus(m[5], pa2/na, u), pb2/nb, w)}
}

// twice applies f to the n columns of x and to the m rows of what comes out.
func twice(f line, n, m int, x *[6][6]float32) {
	var t [6]float32
	for j := range n {
		for i := range n {
			t[i] = x[i][j]
		}
		f(&t)
		for i := range m {
			x[i][j] = t[i]
		}
	}
	for i := range m {
		f(&x[i])
	}
}

// scatterGo transforms tiles of n×n pixels to m×m planes, c channels each: those
// of tile t, x[offs[t·n²+k]:], or zeros where that is negative, to
// v[t·row + i·plane:].
func scatterGo(f line, n, m, tiles int, offs []int32, x, v []float32, plane, row, c int) {
	for t := range tiles {
		for l := range c {
			var d [6][6]float32
			for k, o := range offs[t*n*n : (t+1)*n*n] {
				if o >= 0 {
					d[k/n][k%n] = x[int(o)+l]
				}
			}
			twice(f, n, m, &d)
			for i := range m * m {
				v[t*row+i*plane+l] = d[i/m][i%m]
			}
		}
	}
}

// gatherGo transforms n×n planes to tiles of m×m pixels, c channels each; those
// whose offset is negative are dropped. bias may be nil.
func gatherGo(f line, n, m, tiles int, offs []int32, y, v []float32, plane, row, c int, bias []float32, relu bool) {
	for t := range tiles {
		for l := range c {
			var d [6][6]float32
			for i := range n * n {
				d[i/n][i%n] = v[t*row+i*plane+l]
			}
			twice(f, n, m, &d)
			for k, o := range offs[t*m*m : (t+1)*m*m] {
				if o < 0 {
					continue
				}
				r := d[k/m][k%m]
				if bias != nil {
					r += bias[l]
				}
				if relu && r <= 0 {
					r = 0
				}
				y[int(o)+l] = r
			}
		}
	}
}
