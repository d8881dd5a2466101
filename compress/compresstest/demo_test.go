package compresstest_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/rng"
)

// demo is a second implementation of DeMo's exchange: a momentum of which every tile
// of a matrix, and every stretch of a vector, loses its k largest coefficients.
type demo struct {
	rows, cols, side, k int
	delta               []float64
}

// step adds g to the momentum, and returns what is sent of it. A vector is one row.
func (m *demo) step(g []float32) []float64 {
	for i, v := range g {
		m.delta[i] = 0.999*m.delta[i] + float64(v)
	}
	sent := make([]float64, len(g))
	h := min(m.side, m.rows)
	for r := 0; r < m.rows; r += h {
		for c := 0; c < m.cols; c += m.side {
			m.tile(sent, r*m.cols+c, h, m.side)
		}
	}
	for i, v := range sent {
		m.delta[i] -= v
	}
	return sent
}

// tile writes to sent what the k largest coefficients of the tile at `at` stand for.
func (m *demo) tile(sent []float64, at, h, w int) {
	x := make([]float64, h*w)
	for i := range x {
		x[i] = m.delta[at+i/w*m.cols+i%w]
	}
	y := both(x, h, w, waves(h, false), waves(w, false))
	largest := make([]int, len(y))
	for i := range largest {
		largest[i] = i
	}
	slices.SortFunc(largest, func(a, b int) int { return cmp.Compare(math.Abs(y[b]), math.Abs(y[a])) })
	for _, i := range largest[min(m.k, len(y)):] {
		y[i] = 0
	}
	for i, v := range both(y, h, w, waves(h, true), waves(w, true)) {
		sent[at+i/w*m.cols+i%w] = v
	}
}

// both is a·x·bᵀ for the h rows of w elements x.
func both(x []float64, h, w int, a, b [][]float64) []float64 {
	half, out := make([]float64, h*w), make([]float64, h*w)
	for i := range half {
		for j, v := range b[i%w] {
			half[i] += v * x[i/w*w+j]
		}
	}
	for i := range out {
		for j, v := range a[i/w] {
			out[i] += v * half[j*w+i%w]
		}
	}
	return out
}

// waves is the orthonormal cosine transform of length n, or its transpose.
func waves(n int, transposed bool) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, n)
	}
	for k := range n {
		for i := range n {
			v := math.Sqrt(2/float64(n)) * math.Cos(math.Pi/float64(n)*(float64(i)+0.5)*float64(k))
			if k == 0 {
				v = 1 / math.Sqrt(float64(n))
			}
			if transposed {
				out[i][k] = v
			} else {
				out[k][i] = v
			}
		}
	}
	return out
}

// demoCase is a shape, with what DeMo keeps of a tile, and the codec that keeps as much.
type demoCase struct {
	rows, cols, side, k int
	spec                string
	published           []float64 // of the third step: five values, the square of what is sent, and of what is left
}

// published is DeMo with its own settings, as the comment of dct has it.
const published = "feedback(byrole(dct,dct(topk(keep=0.5,chunk=64)),norm=dct(topk(keep=0.5,chunk=64))),decay=0.999)"

// The published values come from demo.py of github.com/bloc97/DeMo (TransformDCT and
// CompressDCT) under PyTorch, in float64, with decay 0.999 and a learning rate of 1.
var demoCases = []demoCase{
	{1, 128, 64, 4, "feedback(dct(topk(keep=0.0625,chunk=64)),decay=0.999)",
		[]float64{-0.75763, -7.61618, 1.74614, -4.58208, -11.06192, 4621.39, 13744.26}},
	{1, 64, 64, 32, published, []float64{-8.09519, -4.07232, 2.27423, -1.16754, -1.69128, 2099.6, 450.41}},
	{1, 192, 64, 32, published, []float64{-8.09519, -4.07232, 2.89689, -11.44786, -2.35649, 6454.19, 1457.66}},
	{128, 192, 64, 32, published, []float64{3.86799, 2.79081, -3.25603, 0.93557, -1.2271, 250042.74, 5138212.05}},
	{16, 24, 8, 4, "feedback(dct(topk(keep=0.0625,chunk=64),side=8),decay=0.999)",
		[]float64{-4.17252, 5.74764, 3.42907, -0.89027, -1.9728, 14227.16, 44798.53}},
}

// The codecs that the comment of dct names send what DeMo sends: tile by tile of a
// matrix, stretch by stretch of a vector.
func TestDCTIsDeMo(t *testing.T) {
	for _, c := range demoCases {
		t.Run(fmt.Sprintf("%d×%d", c.rows, c.cols), func(t *testing.T) {
			d := c.rows * c.cols
			for seed := range uint64(3) { // 0: the published input
				g := make([]float32, d)
				for i := range g {
					g[i] = float32(float64((i*i*i*31+i*i*17+5)%4093-2046) / 1024 * float64(1+i%7))
					if seed > 0 {
						g[i] = float32(rng.New(seed, "demo").Norm(uint64(i)))
					}
				}
				role := "weight"
				if c.rows == 1 {
					role = "bias"
				}
				codec, err := compress.Families.MustParse(c.spec).New(compress.Block{Name: "g", Role: role, Rows: c.rows, Cols: c.cols, World: 1})
				if err != nil {
					t.Fatal(err)
				}
				m := &demo{c.rows, c.cols, c.side, c.k, make([]float64, d)}
				var want []float64
				var got []float32
				for n := range 3 {
					want, got = m.step(g), make([]float32, d)
					payload, err := codec.Append(nil, g, compress.Step{N: n})
					if err != nil {
						t.Fatal(err)
					}
					if err := codec.AddTo(got, 1, payload, compress.From{Step: n}); err != nil {
						t.Fatal(err)
					}
					for i, v := range got {
						if math.Abs(float64(v)-want[i]) > 1e-3 {
							t.Fatalf("seed %d, step %d: element %d is %v, DeMo sends %v", seed, n, i, v, want[i])
						}
					}
				}
				if seed > 0 {
					continue
				}
				seen := []float64{want[0], want[1], want[d/3], want[d/2], want[d-1], 0, 0}
				for i, v := range want {
					seen[5] += v * v
					seen[6] += m.delta[i] * m.delta[i]
				}
				for i, v := range seen {
					if math.Abs(v-c.published[i]) > 1e-5*max(1, math.Abs(v)) {
						t.Errorf("value %d is %v, DeMo's own code has %v", i, v, c.published[i])
					}
				}
			}
		})
	}
}
