package f32

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func randVec(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// sameBits compares by bits, so NaNs count too.
func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

func TestVectorKernelsAreTheirLoops(t *testing.T) {
	r := newRand(1)
	for n := range 40 {
		x, y := randVec(r, n), randVec(r, n)
		axpy, add, scale, fill := slices.Clone(y), slices.Clone(y), slices.Clone(y), slices.Clone(y)
		Axpy(axpy, 0.3, x)
		Add(add, x)
		Scale(scale, 0.3)
		Fill(fill, 0.3)
		var dot, sum, sq float64
		var maxAbs float32
		for i := range n {
			if axpy[i] != y[i]+float32(0.3*x[i]) || add[i] != y[i]+x[i] || scale[i] != 0.3*y[i] || fill[i] != 0.3 {
				t.Fatalf("n=%d: element %d is wrong", n, i)
			}
			dot += float64(x[i]) * float64(y[i])
			sq += float64(x[i]) * float64(x[i])
			sum += float64(x[i])
			maxAbs = max(maxAbs, x[i], -x[i])
		}
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*float64(n) }
		if !near(Dot(x, y), dot) || !near(SumSq(x), sq) || !near(Sum(x), sum) || MaxAbs(x) != maxAbs {
			t.Fatalf("n=%d: a reduction is wrong", n)
		}
	}
}

func TestAllFiniteAndMaxAbsFindOneBadValue(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, n := range []int{1, 2, 3, 7, 1024, 1025, 3000} {
		x := make([]float32, n)
		Fill(x, -math.MaxFloat32)
		if !AllFinite(x) || MaxAbs(x) != math.MaxFloat32 {
			t.Fatalf("n=%d: finite vector rejected", n)
		}
		for _, bad := range []float32{inf, -inf, float32(math.NaN())} {
			for _, i := range []int{0, n / 2, n - 1} {
				old := x[i]
				x[i] = bad
				if AllFinite(x) {
					t.Fatalf("n=%d: %v at %d not seen", n, bad, i)
				}
				if m := MaxAbs(x); m != inf && m == m {
					t.Fatalf("n=%d: MaxAbs with %v at %d is %v", n, bad, i, m)
				}
				x[i] = old
			}
		}
	}
	if !AllFinite(nil) || MaxAbs(nil) != 0 || Sum(nil) != 0 {
		t.Fatal("empty vector")
	}
}

func TestBytesRoundTrip(t *testing.T) {
	x := []float32{1, -2.5, float32(math.Inf(-1)), math.Float32frombits(0x7f801234), 0}
	b := AppendBytes([]byte{9}, x)
	if len(b) != 21 || b[0] != 9 || !slices.Equal(b[1:5], []byte{0, 0, 0x80, 0x3f}) {
		t.Fatalf("bytes %v", b)
	}
	y := make([]float32, len(x))
	FromBytes(y, b[1:])
	if !sameBits(x, y) {
		t.Fatalf("%v came back as %v", x, y)
	}
	if v, ok := Bytes(x); ok {
		if !slices.Equal(v, b[1:]) {
			t.Fatal("view differs")
		}
		if z, ok := Floats(v); !ok || &z[0] != &x[0] {
			t.Fatal("Floats is not the inverse of Bytes")
		}
	}
	if _, ok := Floats(make([]byte, 7)); ok {
		t.Fatal("7 bytes are no floats")
	}
	for off := range 4 { // every alignment
		buf := AppendBytes(make([]byte, off), []float32{1, 2, 3, 4, 5})
		d := []float32{1, 1, 1, 1, 1}
		AddBytes(d, 2, buf[off:])
		if !slices.Equal(d, []float32{3, 5, 7, 9, 11}) {
			t.Fatalf("offset %d: %v", off, d)
		}
	}
}

func TestEveryHalfRoundTrips(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		if g := ToBF16(FromBF16(h)); g != h {
			t.Fatalf("bf16 %#x came back %#x", h, g)
		}
		f := FromFP16(h)
		quiet := h
		if f != f {
			quiet |= 0x200
		}
		if g := ToFP16(f); g != quiet {
			t.Fatalf("fp16 %#x (%v) came back %#x, want %#x", h, f, g, quiet)
		}
		// The definition of a half.
		e, m := int(h>>10&31), float64(h&1023)
		want := math.Ldexp(1024+m, e-25)
		switch {
		case e == 0:
			want = math.Ldexp(m, -24)
		case e == 31 && m == 0:
			want = math.Inf(1)
		case e == 31:
			want = math.NaN()
		}
		if h>>15 == 1 {
			want = -want
		}
		if w := float32(want); w != f && (w == w || f == f) || w == w && math.Signbit(want) != math.Signbit(float64(f)) {
			t.Fatalf("fp16 %#x is %v, want %v", h, f, want)
		}
	}
}

// Between two neighbouring halves everything rounds to the nearer, and the
// midpoint to the even one.
func TestHalvesRoundToNearestEven(t *testing.T) {
	for _, c := range []struct {
		name string
		max  uint16 // first infinity
		to   func(float32) uint16
		from func(uint16) float32
	}{{"fp16", 0x7c00, ToFP16, FromFP16}, {"bf16", 0x7f80, ToBF16, FromBF16}} {
		for h := range c.max - 1 {
			mid := float32((float64(c.from(h)) + float64(c.from(h+1))) / 2)
			if mid == c.from(h) || mid == c.from(h+1) {
				continue // below the smallest float32
			}
			even := h + h&1
			down, up := math.Nextafter32(mid, 0), math.Nextafter32(mid, math.MaxFloat32)
			if c.to(mid) != even || c.to(-mid) != even|0x8000 || c.to(down) != h || c.to(up) != h+1 {
				t.Fatalf("%s between %#x and %#x: %#x %#x %#x", c.name, h, h+1, c.to(down), c.to(mid), c.to(up))
			}
		}
	}
	for f, want := range map[float32]uint16{65504: 0x7bff, 65519.996: 0x7bff, 65520: 0x7c00, 1e30: 0x7c00, -1e30: 0xfc00, 2.9802322e-08: 0, 2.9802326e-08: 1, 1e-40: 0} {
		if g := ToFP16(f); g != want {
			t.Errorf("ToFP16(%v) = %#x, want %#x", f, g, want)
		}
	}
	if ToBF16(math.MaxFloat32) != 0x7f80 || ToBF16(math.Float32frombits(0x7f800001)) != 0x7fc0 || ToFP16(math.Float32frombits(0xff800001)) != 0xfe00 {
		t.Error("overflow or NaN")
	}
}

func TestHalfSlices(t *testing.T) {
	x := randVec(newRand(2), 37)
	b, y := make([]byte, 2*len(x)), make([]float32, len(x))
	for _, c := range []struct {
		round  func([]float32)
		encode func([]byte, []float32)
		decode func([]float32, []byte)
		add    func([]float32, float32, []byte)
	}{{RoundBF16, EncodeBF16, DecodeBF16, AddBF16}, {RoundFP16, EncodeFP16, DecodeFP16, AddFP16}} {
		want := slices.Clone(x)
		c.round(want)
		c.encode(b, x)
		c.decode(y, b)
		if !sameBits(y, want) {
			t.Fatal("decode(encode(x)) is not round(x)")
		}
		Fill(y, 1)
		c.add(y, -0.5, b)
		for i := range y {
			if y[i] != 1+float32(-0.5*want[i]) {
				t.Fatalf("element %d", i)
			}
		}
	}
}

func TestLengthMismatchPanics(t *testing.T) {
	x, y, b := make([]float32, 3), make([]float32, 4), make([]byte, 5)
	s, t3 := make([]float64, 2), make([]float64, 3)
	for i, f := range []func(){
		func() { Axpy(x, 1, y) }, func() { Add(x, y) }, func() { Dot(x, y) },
		func() { AxpyTo(x, x, 1, y) }, func() { AxpyTo(x, y, 1, x) }, func() { Sub(x, y) },
		func() { ReLU(x, y) }, func() { AddReLU(x, x, y) }, func() { AddReLU(x, y, x) }, func() { ReLUGrad(x, y, x) }, func() { ReLUGrad(x, x, y) },
		func() { BiasReLU(y, x, true) }, func() { BiasReLU(y, nil, true) },
		func() { ScaleShift(y, y, x, x, nil, false) }, func() { ScaleShift(x, y, y, y, nil, false) },
		func() { ScaleShift(y, y, y, x, nil, false) }, func() { ScaleShift(y, y, y, y, x, false) },
		func() { NormGrad(x, y, y, y, y, y) }, func() { NormGrad(y, x, y, y, y, y) }, func() { NormGrad(y, y, x, y, y, y) },
		func() { NormGrad(y, y, y, x, y, y) }, func() { NormGrad(y, y, y, y, x, y) }, func() { NormGrad(y, y, y, y, y, x) },
		func() { ColSums(s, x) }, func() { ReLUGradColSums(s, x, x) }, func() { ReLUGradColSums(s, y, x) },
		func() { Moments(s, s, x) }, func() { Moments(s, t3, y) },
		func() { NormGradSums(s, s, x, x, nil) }, func() { NormGradSums(s, t3, y, y, nil) },
		func() { NormGradSums(s, s, y, x, nil) }, func() { NormGradSums(s, s, y, y, x) },
		func() { Momentum(x, y, 1, 1) }, func() { Nesterov(x, y, 1, 1) }, func() { Adagrad(x, y, 1, 1) }, func() { RMSProp(x, y, 1, 1, 1, 1) },
		func() { RMSPropMomentum(x, y, x, 1, 1, 1, 1, 1) }, func() { RMSPropMomentum(x, x, y, 1, 1, 1, 1, 1) },
		func() { Adam(x, y, x, &AdamRates{}) }, func() { Adam(x, x, y, &AdamRates{}) },
		func() { ExpSum(x, y, 0) }, func() { SoftmaxGrad(x, y, x, 0) }, func() { SoftmaxGrad(x, x, y, 0) },
		func() { CrossEntropy(x, y, 0, 1) }, func() { CrossEntropy(x, x, 3, 1) }, func() { CrossEntropy(x, x, -1, 1) }, func() { CrossEntropy(nil, nil, 0, 1) },
		func() { LayerNorm(y, x, x, x, 1) }, func() { LayerNorm(x, x, y, x, 1) }, func() { LayerNorm(x, x, x, y, 1) },
		func() { RMSNorm(y, x, x, 1) }, func() { RMSNorm(x, x, y, 1) },
		func() { LayerNormGrad(y, x, x, x, x, x, 0, 1) }, func() { LayerNormGrad(x, y, x, x, x, x, 0, 1) },
		func() { LayerNormGrad(x, x, y, x, x, x, 0, 1) }, func() { LayerNormGrad(x, x, x, y, x, x, 0, 1) },
		func() { LayerNormGrad(x, x, x, x, y, x, 0, 1) }, func() { LayerNormGrad(x, x, x, x, x, y, 0, 1) },
		func() { RMSNormGrad(y, x, x, x, x, 1) }, func() { RMSNormGrad(x, y, x, x, x, 1) }, func() { RMSNormGrad(x, x, y, x, x, 1) },
		func() { SwiGLU(x, y, x) }, func() { SwiGLU(x, x, y) },
		func() { SwiGLUGrad(y, x, x, x, x) }, func() { SwiGLUGrad(x, y, x, x, x) }, func() { SwiGLUGrad(x, x, x, y, x) }, func() { SwiGLUGrad(x, x, x, x, y) },
		func() { Signs(b, x) }, func() { AddSigns(x, 1, 1, b) },
		func() { FromBytes(x, b) }, func() { AddBytes(x, 1, b) },
		func() { EncodeBF16(b, x) }, func() { DecodeBF16(x, b) }, func() { AddBF16(x, 1, b) },
		func() { EncodeFP16(b, x) }, func() { DecodeFP16(x, b) }, func() { AddFP16(x, 1, b) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("case %d did not panic", i)
				}
			}()
			f()
		}()
	}
}
