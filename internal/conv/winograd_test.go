package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// matrix is what a line does to the unit vectors: m×n.
func matrix(f line, m, n int) [][]float64 {
	a := make([][]float64, m)
	for i := range a {
		a[i] = make([]float64, n)
	}
	for j := range n {
		var x [6]float32
		x[j] = 1
		f(&x)
		for i := range m {
			a[i][j] = math.Abs(float64(x[i]))
		}
	}
	return a
}

// sandwich is a·x·aᵀ.
func sandwich(a, x [][]float64) [][]float64 {
	out := make([][]float64, len(a))
	for i := range out {
		out[i] = make([]float64, len(a))
		for j := range out[i] {
			for k := range x {
				for l := range x {
					out[i][j] += a[i][k] * x[k][l] * a[j][l]
				}
			}
		}
	}
	return out
}

// formOf is that of a geometry's windows.
func formOf(g Geom) form {
	for _, f := range forms {
		if f.taps == g.Kernel {
			return f
		}
	}
	panic("no form")
}

// passing is what passes through the transforms on the way to each output:
// their product with the absolute values of everything.
func passing(g Geom, x, w []float32, n int) []float64 {
	f := formOf(g)
	bt, gt, at := matrix(inputLine, 6, 6), matrix(f.weights, 6, f.taps), matrix(f.outputs, f.side, 6)
	out := make([]float64, n*g.outLen())
	take := func(n int, f func(i, j int) float64) [][]float64 {
		d := make([][]float64, n)
		for i := range d {
			d[i] = make([]float64, n)
			for j := range d[i] {
				d[i][j] = math.Abs(f(i, j))
			}
		}
		return d
	}
	for i := range n {
		for ty := 0; ty < g.OutH(); ty += f.side {
			for tx := 0; tx < g.OutW(); tx += f.side {
				for o := range g.Out {
					sum := take(6, func(int, int) float64 { return 0 })
					for c := range g.In {
						d := sandwich(bt, take(6, func(ky, kx int) float64 {
							y, v := ty+ky-g.Pad, tx+kx-g.Pad
							if y < 0 || y >= g.H || v < 0 || v >= g.W {
								return 0
							}
							return float64(x[((i*g.H+y)*g.W+v)*g.In+c])
						}))
						u := sandwich(gt, take(f.taps, func(ky, kx int) float64 {
							return float64(w[((o*f.taps+ky)*f.taps+kx)*g.In+c])
						}))
						for k := range sum {
							for l := range sum {
								sum[k][l] += d[k][l] * u[k][l]
							}
						}
					}
					for y, row := range sandwich(at, sum) {
						for v, s := range row {
							if ty+y < g.OutH() && tx+v < g.OutW() {
								out[((i*g.OutH()+ty+y)*g.OutW()+tx+v)*g.Out+o] = s
							}
						}
					}
				}
			}
		}
	}
	return out
}

// absolute is an n×n matrix of absolute values.
func absolute(n int, f func(i, j int) float32) [][]float64 {
	d := make([][]float64, n)
	for i := range d {
		d[i] = make([]float64, n)
		for j := range d[i] {
			d[i][j] = math.Abs(float64(f(i, j)))
		}
	}
	return d
}

// passingSlopes is passing for the gradient of the weights.
func passingSlopes(g Geom, x, dy []float32, n int) []float64 {
	f := formOf(g)
	bt, a, gt := matrix(inputLine, 6, 6), matrix(f.gradients, 6, f.side), matrix(f.slopes, f.taps, 6)
	sums := make([][][]float64, g.Out*g.In)
	for i := range sums {
		sums[i] = absolute(6, func(int, int) float32 { return 0 })
	}
	at := func(v []float32, h, w, c, y, x, l int) float32 {
		if y < 0 || y >= h || x < 0 || x >= w {
			return 0
		}
		return v[(y*w+x)*c+l]
	}
	for i := range n {
		x, dy := x[i*g.inLen():], dy[i*g.outLen():]
		for ty := 0; ty < g.OutH(); ty += f.side {
			for tx := 0; tx < g.OutW(); tx += f.side {
				left, right := make([][][]float64, g.In), make([][][]float64, g.Out)
				for c := range left {
					left[c] = sandwich(bt, absolute(6, func(i, j int) float32 { return at(x, g.H, g.W, g.In, ty+i-g.Pad, tx+j-g.Pad, c) }))
				}
				for o := range right {
					right[o] = sandwich(a, absolute(f.side, func(i, j int) float32 { return at(dy, g.OutH(), g.OutW(), g.Out, ty+i, tx+j, o) }))
				}
				for k, sum := range sums {
					for i := range 36 {
						sum[i/6][i%6] += left[k%g.In][i/6][i%6] * right[k/g.In][i/6][i%6]
					}
				}
			}
		}
	}
	out := make([]float64, g.Out*g.depth())
	for k, sum := range sums {
		for i, row := range sandwich(gt, sum) {
			for j, v := range row {
				out[(k/g.In*g.taps()+f.taps*i+j)*g.In+k%g.In] = v
			}
		}
	}
	return out
}

// turned is w with the taps from last to first and the channels exchanged: the
// weights of the transpose.
func turned(g Geom, w []float32) []float32 {
	out := make([]float32, len(w))
	for o := range g.Out {
		for k := range g.taps() {
			for i := range g.In {
				out[((i+1)*g.taps()-1-k)*g.Out+o] = w[(o*g.taps()+k)*g.In+i]
			}
		}
	}
	return out
}

func TestWinogradKeepsItsBound(t *testing.T) {
	worst, worstSlope := 0.0, 0.0
	rapid.Check(t, func(t *rapid.T) {
		kernel := rapid.SampledFrom([]int{3, 5}).Draw(t, "kernel")
		g := Geom{
			Kernel: kernel, Stride: 1, Pad: rapid.IntRange(0, kernel-1).Draw(t, "pad"),
			In:  8 * rapid.IntRange(1, 2).Draw(t, "in/8"),
			Out: 8 * rapid.IntRange(1, 2).Draw(t, "out/8"),
			H:   rapid.IntRange(7, 11).Draw(t, "h"),
			W:   rapid.IntRange(5, 11).Draw(t, "w"),
		}
		n := rapid.IntRange(1, 2).Draw(t, "n")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		x, w, dy := random(r, n*g.inLen()), random(r, g.Out*g.depth()), random(r, n*g.outLen())
		bias := random(r, g.Out)
		p := New(g, Options{})
		if p.fastForward == nil && p.fastBackward == nil {
			t.Skip("too small")
		}
		got := products(p, new(Space), x, w, bias, false, dy, n)
		want := reference(g, x, w, bias, dy, n)
		passed := passing(g, x, w, n)
		for i := range passed {
			passed[i] += math.Abs(float64(bias[i%g.Out]))
			worst = max(worst, math.Abs(float64(got.y[i])-want.y[i])/want.absY[i]*0x1p24)
		}
		checkClose(t, "y", got.y, want.y, passed, float64(g.In+40))
		back := Geom{H: g.OutH(), W: g.OutW(), In: g.Out, Out: g.In, Kernel: kernel, Stride: 1, Pad: kernel - 1 - g.Pad}
		checkClose(t, "dx", got.dx, want.dx, passing(back, dy, turned(g, w), n), float64(g.Out+40))
		if p.fastWeights == nil {
			checkClose(t, "dw", got.dw, want.dw, want.absDW, 2*float64(n*g.OutH()*g.OutW()+2))
			return
		}
		for i, v := range got.dw {
			worstSlope = max(worstSlope, math.Abs(float64(v)-want.dw[i])/want.absDW[i]*0x1p24)
		}
		checkClose(t, "dw", got.dw, want.dw, passingSlopes(g, x, dy, n), float64(n*p.fastWeights.tiles+40))
	})
	t.Logf("greatest error: %.1f·2^-24 of the sum of absolute terms, of weights %.1f", worst, worstSlope)
}

// Several lanes, several blocks of channels, and no images at all.
func TestSlopesInParts(t *testing.T) {
	for _, c := range []struct {
		g               Geom
		n, lanes, block int
	}{
		{Geom{16, 8, 16, 16, 3, 1, 1}, 30, 2, 1},
		{Geom{8, 12, 16, 80, 3, 1, 1}, 2, 1, 2},
		{Geom{40, 22, 16, 144, 3, 1, 0}, 3, 1, 3},
		{Geom{8, 8, 16, 16, 3, 1, 1}, 0, 1, 1},
		{Geom{14, 13, 16, 80, 5, 1, 2}, 4, 2, 2},
	} {
		p := New(c.g, Options{})
		if got := p.fastWeights.lanes(c.n); got != c.lanes || len(p.fastWeights.blocks) != c.block {
			t.Fatalf("%+v: %d lanes, %d blocks, want %d and %d", c.g, got, len(p.fastWeights.blocks), c.lanes, c.block)
		}
		r := rand.New(rand.NewPCG(1, 5))
		x, w, dy := random(r, c.n*c.g.inLen()), random(r, c.g.Out*c.g.depth()), random(r, c.n*c.g.outLen())
		got := products(p, new(Space), x, w, nil, false, dy, c.n)
		want := reference(c.g, x, w, nil, dy, c.n)
		checkClose(t, "dw", got.dw, want.dw, passingSlopes(c.g, x, dy, c.n), float64(c.n*p.fastWeights.tiles+40))
	}
}

// winogradShapes are those of the models, and others near the bounds of what is worth it.
var winogradShapes = []Geom{
	{14, 14, 8, 8, 5, 1, 2},
	{14, 14, 8, 16, 5, 1, 2},
	{14, 14, 16, 16, 5, 1, 2},
	{14, 14, 32, 32, 5, 1, 2},
	{14, 14, 32, 64, 5, 1, 2}, // mnistcnn
	{8, 8, 64, 64, 5, 1, 2},
	{35, 35, 48, 64, 5, 1, 2},  // inception3
	{27, 27, 64, 192, 5, 1, 2}, // alexnet
	{7, 7, 192, 192, 5, 1, 2},
	{4, 4, 256, 256, 5, 1, 2},
	{4, 4, 64, 64, 3, 1, 1},
	{4, 4, 256, 256, 3, 1, 1}, // resnet50 at 64×64
	{4, 4, 512, 512, 3, 1, 1},
	{3, 3, 256, 256, 5, 1, 2},
	{7, 7, 512, 512, 3, 1, 1}, // resnet50
	{32, 32, 8, 8, 3, 1, 1},
	{32, 32, 16, 16, 3, 1, 1},
	{16, 16, 64, 64, 3, 1, 1},
}

// BenchmarkWinograd times Winograd's algorithm beside plain sums, in turns: nominal GFLOP/s
// and the median ratio of neighbouring turns. Iterations are turns: -benchtime 5x.
func BenchmarkWinograd(b *testing.B) {
	for _, g := range winogradShapes {
		n := min(max(8, int(4e8/g.flop(1))), 64)
		for _, op := range timed {
			b.Run(fmt.Sprintf("%dx%d.%dx%d.%d-%d/%s", g.Kernel, g.Kernel, g.H, g.W, g.In, g.Out, op), func(b *testing.B) {
				fast, plain := timer(New(g, Options{}), op, n, 1), timer(New(g, Options{NoWinograd: true}), op, n, 1)
				took := func(run func()) float64 {
					start := time.Now()
					for range 3 {
						run()
					}
					return time.Since(start).Seconds()
				}
				fast()
				plain()
				var rates, ratio []float64
				for b.Loop() {
					mine := took(fast)
					rates, ratio = append(rates, 3*g.flop(n)/mine/1e9), append(ratio, took(plain)/mine)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(rates), "GFLOP/s")
				b.ReportMetric(median(ratio), "ratio")
			})
		}
	}
}
