package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naive holds the three products in float64, and for each of them the sums of
// absolute terms that errors are measured by.
type naive struct{ y, dx, dw, absY, absDX, absDW []float64 }

func reference(g Geom, x, w, bias, dy []float32, n int) *naive {
	r := &naive{
		y: make([]float64, n*g.outLen()), absY: make([]float64, n*g.outLen()),
		dx: make([]float64, n*g.inLen()), absDX: make([]float64, n*g.inLen()),
		dw: make([]float64, len(w)), absDW: make([]float64, len(w)),
	}
	at := 0
	for i := range n {
		for oy := range g.OutH() {
			for ox := range g.OutW() {
				for o := range g.Out {
					if bias != nil {
						r.y[at], r.absY[at] = float64(bias[o]), math.Abs(float64(bias[o]))
					}
					d := float64(dy[at])
					for ky := range g.Kernel {
						for kx := range g.Kernel {
							h, v := oy*g.Stride+ky-g.Pad, ox*g.Stride+kx-g.Pad
							if h < 0 || h >= g.H || v < 0 || v >= g.W {
								continue
							}
							px, pw := ((i*g.H+h)*g.W+v)*g.In, ((o*g.Kernel+ky)*g.Kernel+kx)*g.In
							for c := range g.In {
								a, b := float64(x[px+c]), float64(w[pw+c])
								r.y[at] += a * b
								r.absY[at] += math.Abs(a * b)
								r.dx[px+c] += d * b
								r.absDX[px+c] += math.Abs(d * b)
								r.dw[pw+c] += d * a
								r.absDW[pw+c] += math.Abs(d * a)
							}
						}
					}
					at++
				}
			}
		}
	}
	return r
}

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// close fails unless each |got − want| ≤ c·2^-24·abs.
func checkClose(t interface{ Fatalf(string, ...any) }, what string, got []float32, want, abs []float64, c float64) {
	for i, v := range got {
		if d := math.Abs(float64(v) - want[i]); !(d <= c*0x1p-24*abs[i]) {
			t.Fatalf("%s[%d] = %g, want %g: off by %.1f·2^-24·%g, allowed %.1f", what, i, v, want[i], d/abs[i]*0x1p24, abs[i], c)
		}
	}
}

// all is the three products as a caller does them.
type all struct{ y, dx, dw []float32 }

func products(p *Plan, s *Space, x, w, bias []float32, relu bool, dy []float32, n int) all {
	g := p.Geom()
	f, b := p.PackLen()
	// What is not written must not be read either.
	nan := func(n int) []float32 { return slices.Repeat([]float32{float32(math.NaN())}, n) }
	fw, bw := nan(f), nan(b)
	for i := range p.PackPieces() {
		p.Pack(s, i, fw, bw, w)
	}
	r := all{nan(n * g.outLen()), nan(n * g.inLen()), nan(len(w))}
	p.Forward(s, fw, bias, relu, x, r.y, n)
	p.BackwardData(s, bw, dy, r.dx, n)
	pieces, floats := p.WeightPieces(n)
	part := nan(floats)
	for i := range pieces {
		p.BackwardWeights(s, pieces-1-i, r.dw, part, x, dy, n)
	}
	p.SumWeights(r.dw, part, n)
	return r
}

var geometry = rapid.Custom(func(t *rapid.T) Geom {
	g := Geom{
		Kernel: rapid.IntRange(1, 7).Draw(t, "kernel"),
		Stride: rapid.IntRange(1, 3).Draw(t, "stride"),
		Pad:    rapid.IntRange(0, 3).Draw(t, "pad"),
		In:     rapid.OneOf(rapid.IntRange(1, 20), rapid.SampledFrom([]int{16, 32, 48, 70, 96})).Draw(t, "in"),
		Out:    rapid.OneOf(rapid.IntRange(1, 20), rapid.SampledFrom([]int{16, 32, 48, 70, 96})).Draw(t, "out"),
	}
	least := max(1, g.Kernel-2*g.Pad)
	g.H = rapid.IntRange(least, least+12).Draw(t, "h")
	g.W = rapid.IntRange(least, least+12).Draw(t, "w")
	return g
})

func TestProductsAreRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := geometry.Draw(t, "geometry")
		n := rapid.SampledFrom([]int{1, 2, 3, 8}).Draw(t, "n")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		x, w, dy := random(r, n*g.inLen()), random(r, g.Out*g.depth()), random(r, n*g.outLen())
		var bias []float32
		if rapid.Bool().Draw(t, "bias") {
			bias = random(r, g.Out)
		}
		relu := rapid.Bool().Draw(t, "relu")
		p := New(g, Options{NoWinograd: true})
		got := products(p, new(Space), x, w, bias, relu, dy, n)
		want := reference(g, x, w, bias, dy, n)
		if relu {
			for i, v := range want.y {
				want.y[i] = max(v, 0)
			}
		}
		checkClose(t, "y", got.y, want.y, want.absY, 2*float64(g.depth()+2))
		checkClose(t, "dx", got.dx, want.dx, want.absDX, 2*float64(g.taps()*g.Out+2))
		checkClose(t, "dw", got.dw, want.dw, want.absDW, 2*float64(n*g.OutH()*g.OutW()+2))
	})
}

// Convolutions that share a Space neither touch what they read nor see each other:
// it once took the image of one for the scratch of the next.
func TestSpaceIsShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := new(Space)
		var shared, alone [][]float32
		for _, g := range rapid.SliceOfN(geometry, 2, 6).Draw(t, "geometries") {
			n := rapid.SampledFrom([]int{1, 12}).Draw(t, "n")
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
			x, w, dy := random(r, n*g.inLen()), random(r, g.Out*g.depth()), random(r, n*g.outLen())
			x0, w0, dy0 := slices.Clone(x), slices.Clone(w), slices.Clone(dy)
			p := New(g, Options{})
			a, b := products(p, s, x, w, nil, false, dy, n), products(p, new(Space), x0, w0, nil, false, dy0, n)
			shared = append(shared, x, w, dy, a.y, a.dx, a.dw)
			alone = append(alone, x0, w0, dy0, b.y, b.dx, b.dw)
		}
		for i := range shared {
			if !slices.Equal(shared[i], alone[i]) {
				t.Fatalf("%s of geometry %d changed", []string{"x", "w", "dy", "y", "dx", "dw"}[i%6], i/6)
			}
		}
	})
}

func ExampleGeom() {
	g := Geom{H: 28, W: 28, In: 1, Out: 32, Kernel: 5, Stride: 1, Pad: 2}
	fmt.Println(g.OutH(), g.OutW(), g.Validate())
	// Output: 28 28 <nil>
}

// Products of pixels alone have the bits that walks along strips have.
func TestPointwiseHasTheSameBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := geometry.Draw(t, "geometry")
		g.Kernel, g.Pad = 1, 0
		if rapid.Bool().Draw(t, "whole vectors") { // dy may be read where it lies, or is brought together
			g.In, g.Out = tileCols*rapid.IntRange(1, 6).Draw(t, "in/16"), 8*rapid.IntRange(1, 30).Draw(t, "out/8")
		}
		n := rapid.SampledFrom([]int{1, 3, 20}).Draw(t, "n")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 6))
		x, w, dy := random(r, n*g.inLen()), random(r, g.Out*g.depth()), random(r, n*g.outLen())
		p, strips := New(g, Options{}), New(g, Options{})
		if strips.pointwise = nil; p.pointwise == nil {
			t.Fatalf("%+v is not done pointwise", g)
		}
		got, want := products(p, new(Space), x, w, nil, false, dy, n), products(strips, new(Space), x, w, nil, false, dy, n)
		if !slices.Equal(got.dw, want.dw) {
			t.Fatalf("%+v, %d images: other bits", g, n)
		}
	})
}
