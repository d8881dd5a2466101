package conv

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/internal/f32"
)

// terms is a sum of products rounded to bfloat16, as f32.GemmRounded defines it, of what
// each of n terms is. There are no denormals here.
func terms(n int, term func(i int) (a, b float32)) (sum float32) {
	blocks := (n + 319) / 320
	size := n
	if blocks > 1 {
		size = ((n+blocks-1)/blocks + 7) / 8 * 8
	}
	for from := 0; from < n; from += size {
		var s float32
		for i := from; i < min(from+size, n); i++ {
			a, b := term(i)
			s += float32(f32.FromBF16(f32.ToBF16(a)) * f32.FromBF16(f32.ToBF16(b)))
		}
		if from == 0 {
			sum = s
		} else {
			sum += s
		}
	}
	return sum
}

// definition is the three products bit for bit.
func (r *rounded) definition(x, w, bias []float32, relu bool, dy []float32, n int) all {
	g := r.g
	d := all{make([]float32, n*g.outLen()), make([]float32, n*g.inLen()), make([]float32, len(w))}
	input := func(i, oy, ox, k, c int) float32 {
		if at := pixel(oy*g.Stride-g.Pad+k/g.Kernel, ox*g.Stride-g.Pad+k%g.Kernel, g.H, g.W); at >= 0 {
			return x[i*g.inLen()+at*g.In+c]
		}
		return 0
	}
	for at := range d.y {
		i, oy, ox, o := at/g.outLen(), at/g.Out/g.OutW()%g.OutH(), at/g.Out%g.OutW(), at%g.Out
		s := terms(g.depth(), func(t int) (float32, float32) { return input(i, oy, ox, t/g.In, t%g.In), w[o*g.depth()+t] })
		if bias != nil {
			s += bias[o]
		}
		if relu && s <= 0 {
			s = 0
		}
		d.y[at] = s
	}
	for at := range d.dx {
		i, y, x, c := at/g.inLen(), at/g.In/g.W%g.H, at/g.In%g.W, at%g.In
		var taps []int // from the last to the first of those at the pixel's phase
		for k := g.taps() - 1; k >= 0; k-- {
			if (y+g.Pad-k/g.Kernel)%g.Stride == 0 && (x+g.Pad-k%g.Kernel)%g.Stride == 0 {
				taps = append(taps, k)
			}
		}
		d.dx[at] = terms(len(taps)*g.Out, func(t int) (float32, float32) {
			k, o := taps[t/g.Out], t%g.Out
			oy, ox := y+g.Pad-k/g.Kernel, x+g.Pad-k%g.Kernel
			if oy < 0 || ox < 0 || oy/g.Stride >= g.OutH() || ox/g.Stride >= g.OutW() {
				return 0, 0
			}
			return dy[i*g.outLen()+(oy/g.Stride*g.OutW()+ox/g.Stride)*g.Out+o], w[o*g.depth()+k*g.In+c]
		})
	}
	places := g.OutH() * g.OutW()
	for at := range d.dw {
		o, k, c := at/g.depth(), at%g.depth()/g.In, at%g.In
		lanes := r.lanes(n)
		for lane := range lanes {
			var sum float32
			from, end := lane*n/lanes*places, (lane+1)*n/lanes*places
			for q := from; q < end; q += roundedTerms {
				s := terms(min(roundedTerms, end-q), func(t int) (float32, float32) {
					p := (q + t) % places
					return dy[(q+t)*g.Out+o], input((q+t)/places, p/g.OutW(), p%g.OutW(), k, c)
				})
				if q == from {
					sum = s
				} else {
					sum += s
				}
			}
			if lane == 0 {
				d.dw[at] = sum
			} else {
				d.dw[at] += sum
			}
		}
	}
	return d
}

// allRounded has all that can be rounded done so, worth it or not.
func allRounded(g Geom) *Plan {
	p := New(g, Options{})
	p.rounded = planRounded(g, true, true, true)
	return p
}

func TestRoundedProductsAreAsDefined(t *testing.T) {
	var s Space
	rapid.Check(t, func(t *rapid.T) {
		g := geometry.Draw(t, "geometry")
		n := rapid.SampledFrom([]int{1, 2, 3, 8}).Draw(t, "n")
		if g.flop(n) > 2e6 {
			t.Skip("takes too long in plain Go")
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		x, w, dy := random(r, n*g.inLen()), random(r, g.Out*g.depth()), random(r, n*g.outLen())
		var bias []float32
		if rapid.Bool().Draw(t, "bias") {
			bias = random(r, g.Out)
		}
		relu := rapid.Bool().Draw(t, "relu")
		p := allRounded(g)
		got, want := products(p, &s, x, w, bias, relu, dy, n), p.rounded.definition(x, w, bias, relu, dy, n)
		for _, c := range []struct {
			what      string
			got, want []float32
		}{{"y", got.y, want.y}, {"dx", got.dx, want.dx}, {"dw", got.dw, want.dw}} {
			if c.what == "dx" && p.rounded.back == nil {
				continue
			}
			for i, v := range c.got {
				if v != c.want[i] {
					t.Fatalf("%s[%d] = %g, defined as %g", c.what, i, v, c.want[i])
				}
			}
		}
	})
}

// TestHalvesInPlace: images in bfloat16 give the bits of their values in float32.
func TestHalvesInPlace(t *testing.T) {
	var s Space
	r := rand.New(rand.NewPCG(5, 5))
	for _, g := range []Geom{{6, 5, 34, 38, 3, 1, 1}, {7, 7, 16, 20, 3, 2, 1}, {5, 4, 7, 12, 2, 1, 0}, {4, 4, 33, 30, 1, 1, 0}, {6, 6, 32, 32, 1, 2, 0}} {
		const n = 3
		p := allRounded(g)
		x, w, dy := random(r, n*g.inLen()), random(r, g.Out*g.depth()), random(r, n*g.outLen())
		f32.RoundBF16(x)
		f32.RoundBF16(dy)
		want := products(p, &s, x, w, nil, false, dy, n)
		half := func(v []float32) f32.Values {
			b := make([]byte, 2*len(v))
			f32.EncodeBF16(b, v)
			return f32.Values{Half: b}
		}
		fl, bl := p.PackLen()
		fw, bw := make([]float32, fl), make([]float32, bl)
		for i := range p.PackPieces() {
			p.Pack(&s, i, fw, bw, w)
		}
		pieces, floats := p.WeightPieces(n)
		part := make([]float32, floats)
		got := all{make([]float32, len(want.y)), make([]float32, len(want.dx)), make([]float32, len(want.dw))}
		p.ForwardOf(&s, fw, nil, false, half(x), got.y, n)
		p.BackwardDataOf(&s, bw, half(dy), got.dx, n)
		for i := range pieces {
			p.BackwardWeightsOf(&s, i, got.dw, part, half(x), half(dy), n)
		}
		p.SumWeights(got.dw, part, n)
		if !slices.Equal(got.y, want.y) || !slices.Equal(got.dx, want.dx) || !slices.Equal(got.dw, want.dw) {
			t.Errorf("%+v: other values", g)
		}
	}
}

// BenchmarkRounded compares products of rounded operands with those of float32, in turns:
// the least time of each, packing of weights and rounding with it.
func BenchmarkRounded(b *testing.B) {
	for _, c := range peerShapes {
		for _, op := range timed {
			b.Run(c.name+"/"+op, func(b *testing.B) {
				ways := []func(){timer(New(c.g, Options{}), op, c.n, 1), timer(allRounded(c.g), op, c.n, 1)}
				var least [2]float64
				for b.Loop() {
					for i, f := range ways {
						begin := time.Now()
						f()
						if s := time.Since(begin).Seconds(); least[i] == 0 || s < least[i] {
							least[i] = s
						}
					}
				}
				b.ReportMetric(c.g.flop(c.n)/least[0]/1e9, "float32-GFLOP/s")
				b.ReportMetric(c.g.flop(c.n)/least[1]/1e9, "GFLOP/s")
				b.ReportMetric(least[0]/least[1], "ratio")
			})
		}
	}
}
