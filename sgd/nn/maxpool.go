package nn

import (
	"math"

	"github.com/gradlab/gradlab/sgd"
)

// MaxPool is the largest value under each window; its gradient goes to where
// that value (the first of equals) was.
type MaxPool struct {
	Kernel int
	Stride int // 0 is Kernel
	Pad    int // never chosen as maximum
	Ceil   bool
}

func (l MaxPool) bind(b *builder, in sgd.Shape) (module, error) {
	g, err := newPool(b.name("maxpool"), in, l.Kernel, l.Stride, l.Pad, l.Ceil)
	if err != nil {
		return module{}, err
	}
	return b.leaf(
		leafInfo{in: in, out: g.shape()},
		func() op[float32] { return newMaxPool[float32](g) },
		func() op[float64] { return newMaxPool[float64](g) }), nil
}

type maxPool[T Float] struct {
	poolGeometry
	where        []int32 // per output, the position of its maximum in the plane
	x, y, dy, dx []T

	forwardImage, backwardImage func(i, slot int)
}

func newMaxPool[T Float](g poolGeometry) *maxPool[T] {
	m := &maxPool[T]{poolGeometry: g}
	m.forwardImage, m.backwardImage = m.doForward, m.doBackward
	return m
}

func (m *maxPool[T]) forward(r *run[T], x, y []T) {
	m.x, m.y = x, y
	grow(&m.where, len(y))
	r.each(r.n, len(x), m.forwardImage)
}

func (m *maxPool[T]) backward(r *run[T], x, y, dy, dx []T) {
	if dx != nil {
		m.dy, m.dx = dy, dx
		r.each(r.n, len(dx), m.backwardImage)
	}
}

func (m *maxPool[T]) doForward(s, _ int) {
	in, out := m.h*m.w, m.outH*m.outW
	pairs := m.k == 2 && m.stride == 2 && m.pad == 0 && m.outH*2 <= m.h && m.outW*2 <= m.w
	for p := s * m.c; p < (s+1)*m.c; p++ {
		x, y, where := m.x[p*in:(p+1)*in], m.y[p*out:(p+1)*out], m.where[p*out:(p+1)*out]
		switch x := any(x).(type) {
		case []float32:
			if pairs {
				m.byTwo(x, any(y).([]float32), where)
			} else {
				m.general(x, any(y).([]float32), where)
			}
		default:
			m.plain(m.x[p*in:(p+1)*in], y, where)
		}
	}
}

// rank orders values as integers, NaN above all, so that a maximum and its
// place are found without branches: which of random values is largest is a coin
// toss to the predictor. The low half holds at, such that the first of equals
// wins.
func rank(v float32, at int32) int64 {
	k := int32(math.Float32bits(v))
	k ^= k >> 31 & math.MaxInt32
	if v != v {
		k = math.MaxInt32
	}
	return int64(k)<<32 | int64(math.MaxInt32-at)
}

func place(rank int64) int32 { return math.MaxInt32 - int32(rank) }

// order maps values but NaN to integers of the same order.
func order(v float32) int32 {
	k := int32(math.Float32bits(v))
	return k ^ k>>31&math.MaxInt32
}

// byTwo is the common 2×2 window with stride 2.
func (g *poolGeometry) byTwo(x, y []float32, where []int32) {
	for oy := range g.outH {
		at := 2 * oy * g.w
		top, bottom := x[at:at+g.w], x[at+g.w:at+2*g.w]
		row, arg := y[oy*g.outW:(oy+1)*g.outW], where[oy*g.outW:(oy+1)*g.outW]
		for ox := range row {
			t, u := top[2*ox:2*ox+2], bottom[2*ox:2*ox+2]
			i := int32(at + 2*ox)
			j := i + int32(g.w)
			if s := t[0] + t[1] + u[0] + u[1]; s != s {
				i = place(max(rank(t[0], i), rank(t[1], i+1), rank(u[0], j), rank(u[1], j+1)))
				row[ox], arg[ox] = x[i], i
				continue
			}
			a, b, c, d := order(t[0]), order(t[1]), order(u[0]), order(u[1])
			best := max(max(a, b), max(c, d))
			k := j + 1
			if c == best {
				k = j
			}
			if b == best {
				k = i + 1
			}
			if a == best {
				k = i
			}
			// Not x[k]: the compiler branches to find an address.
			row[ox], arg[ox] = math.Float32frombits(uint32(best^best>>31&math.MaxInt32)), k
		}
	}
}

// general is any window.
func (g *poolGeometry) general(x, y []float32, where []int32) {
	o := 0
	for oy := range g.outH {
		y0, y1, _ := g.window(oy, g.h)
		for ox := range g.outW {
			x0, x1, _ := g.window(ox, g.w)
			top := int64(math.MinInt64)
			for yy := y0; yy < y1; yy++ {
				at := yy*g.w + x0
				for i, v := range x[at : yy*g.w+x1] {
					top = max(top, rank(v, int32(at+i)))
				}
			}
			best := place(top)
			y[o], where[o] = x[best], best
			o++
		}
	}
}

// plain is general for float64.
func (m *maxPool[T]) plain(x, y []T, where []int32) {
	o := 0
	for oy := range m.outH {
		y0, y1, _ := m.window(oy, m.h)
		for ox := range m.outW {
			x0, x1, _ := m.window(ox, m.w)
			at := y0*m.w + x0
			best := x[at]
			for yy := y0; yy < y1; yy++ {
				for i := yy*m.w + x0; i < yy*m.w+x1; i++ {
					if x[i] > best || x[i] != x[i] {
						best, at = x[i], i
					}
				}
			}
			y[o], where[o] = best, int32(at)
			o++
		}
	}
}

func (m *maxPool[T]) doBackward(s, _ int) {
	in, out := m.h*m.w, m.outH*m.outW
	clear(m.dx[s*m.c*in : (s+1)*m.c*in])
	for p := s * m.c; p < (s+1)*m.c; p++ {
		dx, dy, where := m.dx[p*in:(p+1)*in], m.dy[p*out:(p+1)*out], m.where[p*out:(p+1)*out]
		for i, v := range dy {
			dx[where[i]] += v
		}
	}
}
