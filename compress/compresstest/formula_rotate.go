package compresstest

import (
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/gradlab/gradlab/compress"
)

// stretch is a piece of a block and the power of two it is padded to.
type stretch struct{ from, to, padded int }

// stretches cuts d elements into chunks; what is left over into powers of two down
// to 64, the last of them padded.
func stretches(d, chunk int) (out []stretch) {
	for from := 0; from < d; {
		n := chunk
		for n > d-from {
			n /= 2
		}
		if n < 64 {
			for n = 1; n < d-from; n *= 2 {
			}
		}
		out = append(out, stretch{from, min(d, from+n), n})
		from += n
	}
	return out
}

// rotate is H·D·x/√n for the elements of a stretch, H Walsh and Hadamard's matrix and
// D random signs: bit i%64 of draw i/64 for element i.
func rotate(x []float64, at stretch, signs compress.Draws) []float64 {
	y := make([]float64, at.padded)
	for i := at.from; i < at.to; i++ {
		y[i-at.from] = x[i]
		if signs.Uint64(uint64(i)/64)>>(i%64)&1 == 1 {
			y[i-at.from] = -x[i]
		}
	}
	return hadamard(y)
}

// unrotate is D·H·y/√n, as much of it as is in the block.
func unrotate(y []float64, at stretch, signs compress.Draws) []float64 {
	x := hadamard(y)[:at.to-at.from]
	for i := range x {
		if j := at.from + i; signs.Uint64(uint64(j)/64)>>(j%64)&1 == 1 {
			x[i] = -x[i]
		}
	}
	return x
}

// hadamard is H·y/√n, H[i][j] = (−1)^(number of bits in i and j).
func hadamard(y []float64) []float64 {
	out := append([]float64(nil), y...)
	for h := 1; h < len(out); h *= 2 {
		for i := range out {
			if i&h == 0 {
				out[i], out[i+h] = (out[i]+out[i+h])/math.Sqrt2, (out[i]-out[i+h])/math.Sqrt2
			}
		}
	}
	return out
}

// centroids is the positive levels that quantise a standard normal variable with
// least squared error (Max 1960): each is the mean of what is nearest to it.
var centroids = sync.OnceValue(func() (out [5][]float64) {
	for b := 1; b <= 4; b++ {
		c := make([]float64, 1<<(b-1))
		for i := range c {
			c[i] = 0.3 * float64(i+1)
		}
		for range 20000 {
			for i := range c {
				lo, hi := 0.0, math.Inf(1)
				if i > 0 {
					lo = (c[i-1] + c[i]) / 2
				}
				if i+1 < len(c) {
					hi = (c[i] + c[i+1]) / 2
				}
				density := func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
				c[i] = (density(lo) - density(hi)) / ((math.Erf(hi/math.Sqrt2) - math.Erf(lo/math.Sqrt2)) / 2)
			}
		}
		out[b] = c
	}
	return out
})

func edenFormula(f compress.Eden, b compress.Block, g []float64, s compress.Step) want {
	signs := compress.Stream("eden", b, false).With(uint64(b.Rank)).With(uint64(s.N))
	levels := centroids()[f.Bits]
	var out []float64
	for _, at := range stretches(len(g), f.Chunk) {
		y := rotate(g, at, signs)
		norm, n := math.Sqrt(square(y)), float64(at.padded)
		q, doubt := make([]float64, at.padded), norm == 0
		for i, v := range y {
			z := math.Abs(v) * math.Sqrt(n) / norm
			doubt = doubt || z < 1e-4
			for _, l := range levels {
				switch off := math.Abs(z-l) - math.Abs(z-math.Abs(q[i])); {
				case q[i] == 0 || off < -1e-4:
					q[i] = signed(l, v)
				case off < 1e-4:
					doubt = true
				}
			}
		}
		part := make([]float64, at.to-at.from)
		if norm > 0 {
			// S·q has the component y, or the least error, or the length, of y.
			factor := square(y) / dot(q, y)
			switch f.Scale {
			case "mse":
				factor = dot(q, y) / square(q)
			case "norm":
				factor = norm / math.Sqrt(square(q))
			}
			part = unrotate(combine(make([]float64, at.padded), factor, q), at, signs)
		}
		if doubt && norm > 0 { // rounding may have taken another centroid
			for i := range part {
				part[i] = math.NaN()
			}
		}
		out = append(out, part...)
	}
	w := exactly(out)
	w.scale = 10 * largest(g)
	return w
}

// thcValues is the table of 2^bits whole numbers in ±g, symmetric, with both ends,
// that has the least variance of random rounding of a normal variable of which g is
// t standard deviations: all of them are tried.
func thcValues(width, g int, t float64) []float64 {
	sd := float64(g) / t
	cost := func(lo, hi float64) float64 { // ∫(x−lo)(hi−x)dP by Simpson's rule
		const n = 200
		s := 0.0
		for i := range n + 1 {
			x := lo + (hi-lo)*float64(i)/n
			weight := 2 + 2*float64(i%2)
			if i == 0 || i == n {
				weight = 1
			}
			s += weight * (x - lo) * (hi - x) * math.Exp(-sq(x/sd)/2)
		}
		return s * (hi - lo) / (3 * n)
	}
	costs := map[[2]int]float64{}
	for hi := 1; hi <= g; hi++ {
		for lo := -hi; lo < hi; lo++ {
			costs[[2]int{lo, hi}] = cost(float64(lo), float64(hi))
		}
	}
	var best, now []int
	least := math.Inf(1)
	var try func(from, more int, sum float64)
	try = func(from, more int, sum float64) {
		if sum >= least {
			return
		}
		if more == 0 {
			if now[len(now)-1] == g {
				best, least = slices.Clone(now), sum
			}
			return
		}
		for v := from; v <= g; v++ {
			c := costs[[2]int{-v, v}] / 2
			if len(now) > 0 {
				c = costs[[2]int{now[len(now)-1], v}]
			}
			now = append(now, v)
			try(v+1, more-1, sum+c)
			now = now[:len(now)-1]
		}
	}
	try(1, 1<<(width-1), 0)
	var out []float64
	for _, v := range best {
		out = append(out, float64(v), float64(-v))
	}
	sort.Float64s(out)
	return out
}

// thcTables keeps tables: a search takes a while.
var thcTables sync.Map

func thcTable(f compress.THC, t float64) []float64 {
	key := [3]any{f.Bits, f.Grid, f.Clip}
	v, ok := thcTables.Load(key)
	if !ok {
		v, _ = thcTables.LoadOrStore(key, thcValues(f.Bits, f.Grid/2, t))
	}
	return v.([]float64)
}

// clampedShare is t with P(|N(0,1)| > t) = share.
func clampedShare(share float64) float64 {
	lo, hi := 0.0, 40.0
	for range 100 {
		if mid := (lo + hi) / 2; math.Erfc(mid/math.Sqrt2) > share {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

func thcFormula(f compress.Family, blocks []compress.Block, together bool) (formula, error) {
	h := f.(compress.THC)
	t := clampedShare(h.Clip)
	table := thcTable(h, t)
	return joint(func(g [][]float64, s compress.Step) (out []want) {
		signs := compress.Stream("thc/signs", blocks[0], false).With(uint64(s.N))
		parts := stretches(blocks[0].Len(), h.Chunk)
		rotated := func(x []float64) (y []float64) {
			for _, at := range parts {
				y = append(y, rotate(x, at, signs)...)
			}
			return y
		}
		for _, x := range g {
			w, first := want{via: rotated, scale: 10 * largest(x)}, 0
			y := rotated(x)
			for _, at := range parts {
				norm := 0.0
				for _, z := range g {
					if together {
						norm = max(norm, math.Sqrt(square(z[at.from:at.to])))
					} else {
						norm = math.Sqrt(square(x[at.from:at.to]))
					}
				}
				m := t * norm / math.Sqrt(float64(at.padded))
				for _, v := range y[first : first+at.padded] {
					lo, hi, mean := 0.0, 0.0, 0.0
					if m > 0 {
						mean = max(-m, min(m, v))
						lo, hi = neighbours(table, mean/m*float64(h.Grid/2))
						lo, hi = lo*m/float64(h.Grid/2), hi*m/float64(h.Grid/2)
					}
					if at.padded != at.to-at.from { // the rest of it does not come back
						lo, hi, mean = math.NaN(), math.NaN(), math.NaN()
					}
					w.lo, w.hi, w.mean = append(w.lo, lo), append(w.hi, hi), append(w.mean, mean)
				}
				first += at.padded
			}
			out = append(out, w)
		}
		return out
	}), nil
}

// neighbours is the entries of an ascending table around x.
func neighbours(table []float64, x float64) (lo, hi float64) {
	const close = 1e-4
	lo, hi = table[0], table[len(table)-1]
	for _, v := range table {
		if math.Abs(v-x) < close {
			return v, v
		}
		if v < x {
			lo = max(lo, v)
		} else {
			hi = min(hi, v)
		}
	}
	return lo, hi
}

// cosine is a formula on the coefficients of tiles.
type cosine struct {
	in         formula
	rows, cols int
	side       int
}

func dctFormula(f compress.Family, blocks []compress.Block, _ bool) (formula, error) {
	t := f.(compress.DCT)
	var flat []compress.Block
	for _, b := range blocks {
		b.Rows, b.Cols = 1, b.Len()
		flat = append(flat, b)
	}
	in, err := newFormula(t.In, flat, false)
	return &cosine{in, blocks[0].Rows, blocks[0].Cols, t.Side}, err
}

func (c *cosine) expect(g [][]float64, s compress.Step) []want {
	var y [][]float64
	for _, x := range g {
		t := c.forward(x)
		most := largest(t)
		for i, v := range t { // what cancels may have either sign
			if math.Abs(v) < 1e-7*most {
				t[i] = 1e-9 * most
			}
		}
		y = append(y, t)
	}
	out := c.in.expect(y, s)
	for r := range out {
		out[r] = out[r].through(c.forward)
		out[r].scale = max(out[r].scale, 10*largest(g[r]), largest(y[r]))
	}
	return out
}

func (c *cosine) took(out [][]float64) {
	var y [][]float64
	for _, x := range out {
		y = append(y, c.forward(x))
	}
	c.in.took(y)
}

// forward is the coefficients, tile after tile, each transposed: whole tiles,
// then the right edge, then the lower one. A vector is cut into stretches of
// side, which lie one after the other.
func (c *cosine) forward(x []float64) (y []float64) {
	if c.rows == 1 {
		for ; len(x) > 0; x = x[min(c.side, len(x)):] {
			y = append(y, tile(x, 0, 1, min(c.side, len(x)))...)
		}
		return y
	}
	right, low := c.cols/c.side*c.side, c.rows/c.side*c.side
	for _, part := range [][4]int{{0, low, 0, right}, {0, low, right, c.cols}, {low, c.rows, 0, right}, {low, c.rows, right, c.cols}} {
		for r := part[0]; r < part[1]; r += c.side {
			for q := part[2]; q < part[3]; q += c.side {
				y = append(y, tile(x[r*c.cols+q:], c.cols, min(c.side, part[1]-r), min(c.side, part[3]-q))...)
			}
		}
	}
	return y
}

// tile is B·Gᵀ·Aᵀ for the h rows of w elements at x.
func tile(x []float64, stride, h, w int) []float64 {
	y, b := make([]float64, h*w), cosines(w)
	for k := range w {
		for i := range h {
			y[k*h+i] = dot(b[k], x[i*stride:][:w])
		}
	}
	z, a := make([]float64, h*w), cosines(h)
	for k := range w {
		for l := range h {
			z[k*h+l] = dot(a[l], y[k*h:][:h])
		}
	}
	return z
}

// cosines is the orthonormal cosine transform of length n.
func cosines(n int) [][]float64 {
	out := make([][]float64, n)
	for k := range out {
		out[k] = make([]float64, n)
		for i := range out[k] {
			out[k][i] = math.Sqrt(2/float64(n)) * math.Cos(math.Pi*float64(k*(2*i+1))/float64(2*n))
			if k == 0 {
				out[k][i] = 1 / math.Sqrt(float64(n))
			}
		}
	}
	return out
}
