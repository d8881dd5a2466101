package f32

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
)

// ulps is how many units in the last place of a float32 near want v is off.
func ulps(v float32, want float64) float64 {
	_, e := math.Frexp(want)
	return math.Abs(float64(v)-want) * math.Ldexp(1, 24-max(e, -125))
}

// eachFloat calls f with numbers of all magnitudes and signs, one in so many. With the tag
// long it calls f with all whose exponential is finite and not 1.
func eachFloat(f func(x float32)) {
	const step = 4099 // prime, so that all low bits occur
	for b := uint64(0); b < 1<<32; b += step {
		f(math.Float32frombits(uint32(b)))
	}
	for m := math.Float32bits(0x1p-25); patience.Long && m < math.Float32bits(90); m++ {
		f(math.Float32frombits(m))
		f(math.Float32frombits(m | 1<<31))
	}
}

func TestExpIsAccurate(t *testing.T) {
	worst, at := 0.0, float32(0)
	eachFloat(func(x float32) {
		got := Exp(x)
		switch want := math.Exp(float64(x)); {
		case x != x:
			if got == got {
				t.Fatalf("Exp(%v) = %v", x, got)
			}
		case want < 0x1p-126:
			if got != 0 {
				t.Fatalf("Exp(%v) = %v", x, got)
			}
		case want > math.MaxFloat32*(1+0x1p-25):
			if got <= math.MaxFloat32 {
				t.Fatalf("Exp(%v) = %v", x, got)
			}
		case got == 0:
			if x > -86.98 {
				t.Fatalf("Exp(%v) = 0, want %v", x, want)
			}
		default:
			if d := ulps(got, want); d > worst {
				worst, at = d, x
			}
		}
	})
	if t.Logf("%.3f units in the last place at %v", worst, at); worst > 1 {
		t.Errorf("Exp(%v) is off by %.3f units in the last place", at, worst)
	}
	if Exp(0) != 1 || Exp(float32(math.Inf(-1))) != 0 || Exp(float32(math.Inf(1))) <= math.MaxFloat32 {
		t.Errorf("of 0 and the infinities: %v, %v, %v", Exp(0), Exp(float32(math.Inf(-1))), Exp(float32(math.Inf(1))))
	}
}

// A softmax is that of float64, whatever the row begins at.
func TestSoftmaxIsAccurate(t *testing.T) {
	r := newRand(6)
	for n := 1; n < 3000; n += 1 + n/3 {
		x, y := randVec(r, n), make([]float32, n)
		shift := float32(100 * r.NormFloat64())
		top, norm := math.Inf(-1), 0.0
		for i := range x {
			x[i] = 5*x[i] + shift
			top = max(top, float64(x[i]))
		}
		for _, v := range x {
			norm += math.Exp(float64(v) - top)
		}
		if m := Max(x); float64(m) != top {
			t.Fatalf("%d values: maximum %v, want %v", n, m, top)
		}
		sum := ExpSum(y, x, Max(x))
		if math.Abs(sum/norm-1) > 2e-7 {
			t.Fatalf("%d values: the sum is %v, want %v", n, sum, norm)
		}
		for i, v := range x {
			d := v - float32(top) // rounded
			if e := ulps(y[i], math.Exp(float64(d))); e > 1 {
				t.Fatalf("%d values: e^%v is off by %.2f units in the last place", n, d, e)
			}
		}
		// Back: against differences of the loss Σ w·softmax.
		w, dx := randVec(r, n), make([]float32, n)
		Scale(y, float32(1/sum))
		mean := Dot(w, y)
		SoftmaxGrad(dx, w, y, float32(mean))
		for i := range dx {
			if want := (float64(w[i]) - mean) * float64(y[i]); math.Abs(float64(dx[i])-want) > 1e-6*(math.Abs(mean)+1)*float64(y[i]) {
				t.Fatalf("%d values: gradient %d is %v, want %v", n, i, dx[i], want)
			}
		}
	}
}

// What is masked is 0, a row of that alone too; a NaN reaches its element and the sum.
func TestSoftmaxSpecialValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for n := 1; n < 70; n++ {
		x, y := make([]float32, n), make([]float32, n)
		Fill(x, -inf)
		if m := Max(x); m != -inf || ExpSum(y, x, m) != 0 || MaxAbs(y) != 0 {
			t.Fatalf("%d masked values: maximum %v, %v", n, m, y)
		}
		x[n/2] = -3
		if sum := ExpSum(y, x, Max(x)); sum != 1 || y[n/2] != 1 || SumAbs(y) != 1 {
			t.Fatalf("one of %d values: sum %v, %v", n, sum, y)
		}
		Fill(x, nan)
		if m := Max(x); m != -inf {
			t.Fatalf("%d NaNs: maximum %v", n, m)
		}
		Fill(x, -2)
		x[n/2] = nan
		if m := Max(x); n > 1 && m != -2 {
			t.Fatalf("a NaN among %d values: maximum %v", n, m)
		}
		if sum := ExpSum(y, x, -2); sum == sum || y[n/2] == y[n/2] || n > 2 && (y[0] != 1 || y[n-1] != 1) {
			t.Fatalf("a NaN among %d values: sum %v, %v", n, sum, y)
		}
		Fill(x, float32(math.Copysign(0, -1)))
		if m := Max(x); math.Float32bits(m) != 0 {
			t.Fatalf("of %d times −0 the maximum is %v", n, m)
		}
	}
	if Max(nil) != -inf || ExpSum(nil, nil, 0) != 0 {
		t.Error("of nothing")
	}
}

func TestCrossEntropyIsAccurate(t *testing.T) {
	r := newRand(9)
	for n := 1; n < 60_000; n += 1 + 2*n/3 {
		z, dz := randVec(r, n), make([]float32, n)
		Scale(z, 4)
		y, scale, sum := r.IntN(n), float32(0.125), 0.0
		for _, v := range z {
			sum += math.Exp(float64(v))
		}
		loss := CrossEntropy(dz, z, y, scale)
		if want := math.Log(sum) - float64(z[y]); math.Abs(loss-want) > 2e-7 {
			t.Fatalf("%d classes: loss %v, want %v", n, loss, want)
		}
		for i, v := range z {
			p := math.Exp(float64(v)) / sum
			want := p
			if i == y {
				want -= 1
			}
			if off := math.Abs(float64(dz[i]) - want/8); off > 0x1p-20*p+0x1p-27 {
				t.Fatalf("%d classes, %d is right: gradient %d is %v, want %v", n, y, i, dz[i], want/8)
			}
		}
		if again := CrossEntropy(z, z, y, scale); again != loss || !sameBits(z, dz) {
			t.Fatalf("%d classes: in place the loss is %v, not %v", n, again, loss)
		}
	}
	nan := []float32{1, float32(math.NaN()), 2}
	if loss := CrossEntropy(nan, nan, 0, 1); loss == loss || AllFinite(nan) {
		t.Errorf("of a NaN: loss %v, gradient %v", loss, nan)
	}
}

func TestSwiGLUIsAccurate(t *testing.T) {
	var a []float32
	keep := func(x float32) {
		if x > -86.98 && x < 1e6 {
			a = append(a, x)
		}
	}
	for b := uint64(0); b < 1<<32; b += 4099 {
		keep(math.Float32frombits(uint32(b)))
	}
	r := newRand(7)
	for range 100_000 {
		keep(float32(4 * r.NormFloat64()))
	}
	n := len(a)
	b, dy, y, da, db := randVec(r, n), randVec(r, n), make([]float32, n), make([]float32, n), make([]float32, n)
	SwiGLU(y, a, b)
	SwiGLUGrad(da, db, dy, a, b)
	var worst [3]float64
	for i, x := range a {
		x, b, d := float64(x), float64(b[i]), float64(dy[i])
		s, rest := 1/(1+math.Exp(-x)), 1/(1+math.Exp(x))
		for j, c := range []struct {
			got         float32
			want, terms float64
		}{
			{y[i], x * s * b, x * s * b},
			{db[i], d * x * s, d * x * s},
			{da[i], d * b * (s + x*s*rest), d * b * (s + math.Abs(x*s*rest))},
		} {
			// Off by a share of the terms, which may cancel; what is denormal by a unit.
			off := math.Abs(float64(c.got)-c.want) - 0x1p-148
			worst[j] = max(worst[j], off/(math.Abs(c.terms)*0x1p-24))
		}
	}
	t.Logf("off by %.2f·2⁻²⁴ times the terms", worst)
	if max(worst[0], worst[1]) > 5 || worst[2] > 6 {
		t.Errorf("off by %.2f·2⁻²⁴ times the terms", worst)
	}
	// Far below nothing passes; NaN does.
	x, one := []float32{-100, -1e30, float32(math.NaN())}, []float32{1, 1, 1}
	z, dz := make([]float32, 3), make([]float32, 3)
	SwiGLU(z, x, one)
	SwiGLUGrad(dz, make([]float32, 3), one, x, one)
	if z[0] != 0 || z[1] != 0 || z[2] == z[2] || dz[0] != 0 || dz[1] != 0 || dz[2] == dz[2] {
		t.Errorf("of %v: %v, gradient %v", x, z, dz)
	}
}

// BenchmarkRows is in nanoseconds an element, of rows that the first cache holds.
func BenchmarkRows(b *testing.B) {
	const n = 2048
	x, y, z, u, v := randVec(newRand(1), n), randVec(newRand(2), n), randVec(newRand(3), n), make([]float32, n), make([]float32, n)
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
		})
	}
	var s lanes
	run("ExpSum", func() { ExpSum(y, x, 1) })
	run("ExpSum/twin", func() { expSumGo(&s, y, x, 1) })
	run("Max", func() { Max(x) })
	run("Max/twin", func() { greatestGo(x, 0) })
	run("SoftmaxGrad", func() { SoftmaxGrad(u, x, y, 1) })
	run("SoftmaxGrad/twin", func() { softmaxGradGo(u, x, y, 1) })
	run("CrossEntropy", func() { CrossEntropy(u, x, 5, 1) })
	p, q, dp, dq := randVec(newRand(4), n), randVec(newRand(5), n), make([]float32, n), make([]float32, n)
	run("LayerNorm", func() { LayerNorm(u, x, p, q, 1e-5) })
	run("LayerNormGrad", func() { LayerNormGrad(u, dp, dq, z, x, p, 0.1, 1) })
	run("RMSNorm", func() { RMSNorm(u, x, p, 1e-5) })
	run("RMSNormGrad", func() { RMSNormGrad(u, dp, z, x, p, 1) })
	run("SwiGLU", func() { SwiGLU(u, x, z) })
	run("SwiGLU/twin", func() { swiGLUGo(u, x, z) })
	run("SwiGLUGrad", func() { SwiGLUGrad(u, v, y, x, z) })
	run("SwiGLUGrad/twin", func() { swiGLUGradGo(u, v, y, x, z) })
	run("GELU", func() { GELU(y, x) })
	run("GELUGrad", func() { copy(z, y); GELUGrad(z, x) })
}
