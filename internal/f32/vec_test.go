package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/internal/cpu"
	"github.com/gradlab/gradlab/internal/patience"
)

// arena is what a kernel works on: three vectors, bytes, sums and numbers,
// with margins that it must leave alone. cols is the width of a matrix.
type arena struct {
	n, cols   int
	floats    [3][]float32
	rows      [3][]float32 // of cols parameters
	sums      [2][]float64
	bytes     []byte // 4n
	a, b      float32
	mem       []float32
	memSums   []float64
	memBytes  []byte
	lo        [6]int
	loS       [2]int
	loB       int
	reduction float64
}

const margin = 40

// strange are values that rounding, comparing and masking must get right.
var strange = []uint32{
	0, 1 << 31, 1, 1<<31 | 1, 0x007fffff, 0x00800000, // zeros, subnormals, the smallest normal
	0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, // infinities, the largest
	0x7f800001, 0xff800001, 0x7fc00000, 0xffffffff, 0x7f80ffff, 0x7fbfe000, // NaNs, signalling and quiet
	0x477fe000, 0x477ff000, 0x477fefff, 0x38800000, 0x387fffff, 0x33000000, 0x33000001, 0x32ffffff, // edges of fp16
	0x7f7f7fff, 0x7f7f8000, 0x3f808000, 0x3f818000, 0x3f807fff, // edges and ties of bf16
}

func anyFloat(r *rand.Rand) float32 {
	switch r.IntN(8) {
	case 0:
		return math.Float32frombits(strange[r.IntN(len(strange))])
	case 1:
		return math.Float32frombits(r.Uint32())
	}
	return float32(r.NormFloat64())
}

// newArena makes vectors of n elements, a multiple of cols unless cols is 0,
// each at its own offset from any alignment.
func newArena(r *rand.Rand, n, cols int) *arena {
	a := &arena{n: n, cols: cols, a: anyFloat(r), b: anyFloat(r)}
	at := 0
	for i := range a.lo {
		at += margin + r.IntN(16)
		a.lo[i] = at
		if i < 3 {
			at += n
		} else {
			at += cols
		}
	}
	a.mem = make([]float32, at+margin)
	for i := range a.mem {
		a.mem[i] = anyFloat(r)
	}
	at = 0
	for i := range a.loS {
		at += margin + r.IntN(8)
		a.loS[i] = at
		at += cols
	}
	a.memSums = make([]float64, at+margin)
	for i := range a.memSums {
		a.memSums[i] = r.NormFloat64()
	}
	a.loB = margin + r.IntN(64)
	a.memBytes = make([]byte, a.loB+4*n+margin)
	for i := range a.memBytes {
		a.memBytes[i] = byte(r.Uint32())
	}
	return a.slice()
}

func (a *arena) slice() *arena {
	for i := range 3 {
		a.floats[i] = a.mem[a.lo[i]:][:a.n:a.n]
		a.rows[i] = a.mem[a.lo[3+i]:][:a.cols:a.cols]
	}
	for i := range a.sums {
		a.sums[i] = a.memSums[a.loS[i]:][:a.cols:a.cols]
	}
	a.bytes = a.memBytes[a.loB:][: 4*a.n : 4*a.n]
	return a
}

func (a *arena) clone() *arena {
	c := *a
	c.mem, c.memSums, c.memBytes = slices.Clone(a.mem), slices.Clone(a.memSums), slices.Clone(a.memBytes)
	return c.slice()
}

// equal compares everything, margins too. Unless exact, all NaNs are alike.
func (a *arena) equal(b *arena, exact bool) error {
	for i, v := range a.mem {
		if w := b.mem[i]; math.Float32bits(v) != math.Float32bits(w) && (exact || v == v || w == w) {
			return fmt.Errorf("float %d (vectors at %v): %v (%#x), want %v (%#x)", i, a.lo, v, math.Float32bits(v), w, math.Float32bits(w))
		}
	}
	for i, v := range append(a.memSums, a.reduction) {
		if w := append(b.memSums, b.reduction)[i]; math.Float64bits(v) != math.Float64bits(w) && (v == v || w == w) {
			return fmt.Errorf("sum %d (at %v): %v, want %v", i, a.loS, v, w)
		}
	}
	if !slices.Equal(a.memBytes, b.memBytes) {
		return fmt.Errorf("bytes (at %d): %v, want %v", a.loB, a.memBytes, b.memBytes)
	}
	return nil
}

// kernels pairs every kernel with its twin.
var kernels = []struct {
	name         string
	matrix       bool
	exact        bool // to the bits of a NaN
	kernel, twin func(a *arena)
}{
	{"Axpy", false, false,
		func(a *arena) { Axpy(a.floats[0], a.a, a.floats[1]) },
		func(a *arena) { axpyGo(a.floats[0], a.a, a.floats[1]) }},
	{"Axpy/self", false, false,
		func(a *arena) { Axpy(a.floats[0], a.a, a.floats[0]) },
		func(a *arena) { axpyGo(a.floats[0], a.a, a.floats[0]) }},
	{"AxpyTo", false, false,
		func(a *arena) { AxpyTo(a.floats[0], a.floats[1], a.a, a.floats[2]) },
		func(a *arena) { axpyToGo(a.floats[0], a.floats[1], a.a, a.floats[2]) }},
	{"AddBytes", false, false,
		func(a *arena) { AddBytes(a.floats[0], a.a, a.bytes) },
		func(a *arena) { addBytesGo(a.floats[0], a.a, a.bytes) }},
	{"Add", false, false,
		func(a *arena) { Add(a.floats[0], a.floats[1]) },
		func(a *arena) { addGo(a.floats[0], a.floats[1]) }},
	{"Sub", false, false,
		func(a *arena) { Sub(a.floats[0], a.floats[1]) },
		func(a *arena) { subGo(a.floats[0], a.floats[1]) }},
	{"Scale", false, false,
		func(a *arena) { Scale(a.floats[0], a.a) },
		func(a *arena) { scaleGo(a.floats[0], a.a) }},
	{"Clamp", false, true,
		func(a *arena) { Clamp(a.floats[0], abs(a.a)) },
		func(a *arena) { clampGo(a.floats[0], abs(a.a)) }},
	{"Fill", false, true,
		func(a *arena) { Fill(a.floats[0], a.a) },
		func(a *arena) { fillGo(a.floats[0], a.a) }},
	{"Fill/zero", false, true,
		func(a *arena) { Fill(a.floats[0], 0) },
		func(a *arena) { fillGo(a.floats[0], 0) }},

	{"Dot", false, false,
		func(a *arena) { a.reduction = Dot(a.floats[0], a.floats[1]) },
		func(a *arena) { var s lanes; dotGo(&s, a.floats[0], a.floats[1]); a.reduction = total(&s) }},
	{"SumSq", false, false,
		func(a *arena) { a.reduction = SumSq(a.floats[0]) },
		func(a *arena) { var s lanes; dotGo(&s, a.floats[0], a.floats[0]); a.reduction = total(&s) }},
	{"Sum", false, false,
		func(a *arena) { a.reduction = Sum(a.floats[0]) },
		func(a *arena) { var s lanes; sumGo(&s, a.floats[0], 1<<32-1); a.reduction = total(&s) }},
	{"SumAbs", false, false,
		func(a *arena) { a.reduction = SumAbs(a.floats[0]) },
		func(a *arena) { var s lanes; sumGo(&s, a.floats[0], magnitude); a.reduction = total(&s) }},
	{"MaxAbs", false, true,
		func(a *arena) { a.rowless(MaxAbs(a.floats[0])) },
		func(a *arena) { a.rowless(math.Float32frombits(maxBitsGo(a.floats[0]))) }},

	{"AllFiniteBytes", false, true,
		func(a *arena) { a.reduction = float64(maxBytes(a.bytes)) },
		func(a *arena) { a.reduction = float64(maxBytesGo(a.bytes)) }},
	{"AllFiniteHalves", false, true,
		func(a *arena) { a.reduction = float64(maxHalf(a.bytes[:2*a.n])) },
		func(a *arena) { a.reduction = float64(maxHalfGo(a.bytes[:2*a.n])) }},
	{"Signs", false, true,
		func(a *arena) { Signs(a.bytes[:(a.n+7)/8], a.floats[0]) },
		func(a *arena) { signsGo(a.bytes[:(a.n+7)/8], a.floats[0]) }},
	{"AddSigns", false, false,
		func(a *arena) { AddSigns(a.floats[0], a.a, a.b, a.bytes[:(a.n+7)/8]) },
		func(a *arena) { addSignsGo(a.floats[0], a.a, a.b, a.bytes[:(a.n+7)/8]) }},

	{"ReLU", false, true,
		func(a *arena) { ReLU(a.floats[0], a.floats[1]) },
		func(a *arena) { reluGo(a.floats[0], a.floats[1]) }},
	{"AddReLU", false, false,
		func(a *arena) { AddReLU(a.floats[0], a.floats[1], a.floats[2]) },
		func(a *arena) { addReLUGo(a.floats[0], a.floats[1], a.floats[2]) }},
	{"ReLUGrad", false, true,
		func(a *arena) { ReLUGrad(a.floats[0], a.floats[1], a.floats[2]) },
		func(a *arena) { reluGradGo(a.floats[0], a.floats[1], a.floats[2]) }},
	{"ReLUGrad/in place", false, true,
		func(a *arena) { ReLUGrad(a.floats[0], a.floats[0], a.floats[2]) },
		func(a *arena) { reluGradGo(a.floats[0], a.floats[0], a.floats[2]) }},
	{"GELU", false, false,
		func(a *arena) { GELU(a.floats[0], a.floats[1]) },
		func(a *arena) { geluGo(a.floats[0], a.floats[1]) }},
	{"GELU/in place", false, false,
		func(a *arena) { GELU(a.floats[0], a.floats[0]) },
		func(a *arena) { geluGo(a.floats[0], a.floats[0]) }},
	{"GELUGrad", false, false,
		func(a *arena) { GELUGrad(a.floats[0], a.floats[1]) },
		func(a *arena) { geluGradGo(a.floats[0], a.floats[1]) }},

	{"ExpSum", false, false,
		func(a *arena) { a.reduction = ExpSum(a.floats[0], a.floats[1], finite(a.a)) },
		func(a *arena) {
			var s lanes
			expSumGo(&s, a.floats[0], a.floats[1], finite(a.a))
			a.reduction = total(&s)
		}},
	{"ExpSum/in place", false, false,
		func(a *arena) { a.reduction = ExpSum(a.floats[0], a.floats[0], finite(a.a)) },
		func(a *arena) {
			var s lanes
			expSumGo(&s, a.floats[0], a.floats[0], finite(a.a))
			a.reduction = total(&s)
		}},
	{"Max", false, true,
		func(a *arena) { a.rowless(Max(a.floats[0])) },
		func(a *arena) { a.rowless(greatestGo(a.floats[0], float32(math.Inf(-1))) + 0) }},
	{"SoftmaxGrad", false, false,
		func(a *arena) { SoftmaxGrad(a.floats[0], a.floats[1], a.floats[2], a.a) },
		func(a *arena) { softmaxGradGo(a.floats[0], a.floats[1], a.floats[2], a.a) }},
	{"SoftmaxGrad/in place", false, false,
		func(a *arena) { SoftmaxGrad(a.floats[1], a.floats[1], a.floats[2], a.a) },
		func(a *arena) { softmaxGradGo(a.floats[1], a.floats[1], a.floats[2], a.a) }},
	{"NormRow", false, false,
		func(a *arena) { normRow("", a.floats[0], a.floats[1], a.floats[2], a.a, a.b) },
		func(a *arena) { normRowGo(a.floats[0], a.floats[1], a.floats[2], a.a, a.b) }},
	{"NormRow/in place", false, false,
		func(a *arena) { normRow("", a.floats[1], a.floats[1], a.floats[2], a.a, a.b) },
		func(a *arena) { normRowGo(a.floats[1], a.floats[1], a.floats[2], a.a, a.b) }},
	{"NormRowGamma", true, false,
		func(a *arena) {
			for at := 0; at < a.n; at += a.cols {
				dy, x := a.floats[1][at:at+a.cols], a.floats[2][at:at+a.cols]
				normRowGamma("", a.floats[0][at:at+a.cols], a.rows[0], dy, x, a.rows[1], a.a, a.b)
				normRowGamma("", dy, a.rows[0], dy, x, a.rows[1], a.a, a.b)
			}
		},
		func(a *arena) {
			for at := 0; at < a.n; at += a.cols {
				dy, x := a.floats[1][at:at+a.cols], a.floats[2][at:at+a.cols]
				normRowGammaGo(a.floats[0][at:at+a.cols], a.rows[0], dy, x, a.rows[1], a.a, a.b)
				normRowGammaGo(dy, a.rows[0], dy, x, a.rows[1], a.a, a.b)
			}
		}},
	{"NormRowGrad", false, false,
		func(a *arena) { normRowGrad(a.floats[0], a.floats[1], a.a, 0.5, a.b, 0.25) },
		func(a *arena) { normRowGradGo(a.floats[0], a.floats[1], a.a, 0.5, a.b, 0.25) }},
	{"SwiGLU", false, false,
		func(a *arena) { SwiGLU(a.floats[0], a.floats[1], a.floats[2]) },
		func(a *arena) { swiGLUGo(a.floats[0], a.floats[1], a.floats[2]) }},
	{"SwiGLU/in place", false, false,
		func(a *arena) { SwiGLU(a.floats[1], a.floats[1], a.floats[2]) },
		func(a *arena) { swiGLUGo(a.floats[1], a.floats[1], a.floats[2]) }},
	{"SwiGLUGrad/in place", false, false,
		func(a *arena) {
			SwiGLUGrad(a.floats[1], a.floats[2], a.floats[0], a.floats[1], a.floats[2])
			SwiGLUGrad(a.floats[0], a.floats[2], a.floats[0], a.floats[1], a.floats[2])
		},
		func(a *arena) {
			swiGLUGradGo(a.floats[1], a.floats[2], a.floats[0], a.floats[1], a.floats[2])
			swiGLUGradGo(a.floats[0], a.floats[2], a.floats[0], a.floats[1], a.floats[2])
		}},

	{"BiasReLU", true, false,
		func(a *arena) { BiasReLU(a.floats[0], a.rows[0], a.a > 0) },
		func(a *arena) { biasReLUGo(0, a.floats[0], a.rows[0], a.a > 0) }},
	{"ScaleShift", true, false,
		func(a *arena) { ScaleShift(a.floats[0], a.floats[1], a.rows[0], a.rows[1], nil, a.a > 0) },
		func(a *arena) { scaleShiftGo(0, a.floats[0], a.floats[1], a.rows[0], a.rows[1], nil, a.a > 0) }},
	{"ScaleShift/plus", true, false,
		func(a *arena) { ScaleShift(a.floats[0], a.floats[1], a.rows[0], a.rows[1], a.floats[2], a.a > 0) },
		func(a *arena) {
			scaleShiftGo(0, a.floats[0], a.floats[1], a.rows[0], a.rows[1], a.floats[2], a.a > 0)
		}},
	{"ScaleShift/in place", true, false,
		func(a *arena) {
			ScaleShift(a.floats[1], a.floats[1], a.rows[0], a.rows[1], nil, a.a > 0)
			ScaleShift(a.floats[2], a.floats[1], a.rows[0], a.rows[1], a.floats[2], a.b > 0)
		},
		func(a *arena) {
			scaleShiftGo(0, a.floats[1], a.floats[1], a.rows[0], a.rows[1], nil, a.a > 0)
			scaleShiftGo(0, a.floats[2], a.floats[1], a.rows[0], a.rows[1], a.floats[2], a.b > 0)
		}},
	{"NormGrad/in place", true, false,
		func(a *arena) {
			NormGrad(a.floats[1], a.floats[1], a.floats[2], a.rows[0], a.rows[1], a.rows[2])
			NormGrad(a.floats[2], a.floats[1], a.floats[2], a.rows[0], a.rows[1], a.rows[2])
		},
		func(a *arena) {
			normGradGo(0, a.floats[1], a.floats[1], a.floats[2], a.rows[0], a.rows[1], a.rows[2])
			normGradGo(0, a.floats[2], a.floats[1], a.floats[2], a.rows[0], a.rows[1], a.rows[2])
		}},
	{"NormGrad", true, false,
		func(a *arena) { NormGrad(a.floats[0], a.floats[1], a.floats[2], a.rows[0], a.rows[1], a.rows[2]) },
		func(a *arena) {
			normGradGo(0, a.floats[0], a.floats[1], a.floats[2], a.rows[0], a.rows[1], a.rows[2])
		}},
	{"ColSums", true, false,
		func(a *arena) { ColSums(a.sums[0], a.floats[0]) },
		func(a *arena) { colSumsGo(0, a.sums[0], a.floats[0]) }},
	{"ReLUGradColSums", true, false,
		func(a *arena) { ReLUGradColSums(a.sums[0], a.floats[0], a.floats[1]) },
		func(a *arena) { reluGradColSumsGo(0, a.sums[0], a.floats[0], a.floats[1]) }},
	{"Moments", true, false,
		func(a *arena) { Moments(a.sums[0], a.sums[1], a.floats[0]) },
		func(a *arena) { momentsGo(0, a.sums[0], a.sums[1], a.floats[0]) }},
	{"NormGradSums", true, false,
		func(a *arena) { NormGradSums(a.sums[0], a.sums[1], a.floats[0], a.floats[1], nil) },
		func(a *arena) { normGradSumsGo(0, a.sums[0], a.sums[1], a.floats[0], a.floats[1], nil) }},
	{"NormGradSums/masked", true, false,
		func(a *arena) { NormGradSums(a.sums[0], a.sums[1], a.floats[0], a.floats[1], a.floats[2]) },
		func(a *arena) { normGradSumsGo(0, a.sums[0], a.sums[1], a.floats[0], a.floats[1], a.floats[2]) }},

	{"Momentum", false, false,
		func(a *arena) { Momentum(a.floats[0], a.floats[1], a.a, a.b) },
		func(a *arena) { momentumGo(a.floats[0], a.floats[1], a.a, a.b) }},
	{"Nesterov", false, false,
		func(a *arena) { Nesterov(a.floats[0], a.floats[1], a.a, a.b) },
		func(a *arena) { nesterovGo(a.floats[0], a.floats[1], a.a, a.b) }},
	{"Adagrad", false, false,
		func(a *arena) { Adagrad(a.floats[0], a.floats[1], a.a, a.b) },
		func(a *arena) { adagradGo(a.floats[0], a.floats[1], a.a, a.b) }},
	{"RMSProp", false, false,
		func(a *arena) { RMSProp(a.floats[0], a.floats[1], 0.1, 0.9, a.a, a.b) },
		func(a *arena) { rmspropGo(a.floats[0], a.floats[1], 0.1, 0.9, a.a, a.b) }},
	{"RMSPropMomentum", false, false,
		func(a *arena) { RMSPropMomentum(a.floats[0], a.floats[1], a.floats[2], 0.1, 0.9, 0.2, a.a, a.b) },
		func(a *arena) { rmspropMomentumGo(a.floats[0], a.floats[1], a.floats[2], 0.1, 0.9, 0.2, a.a, a.b) }},
	{"Adam", false, false,
		func(a *arena) { Adam(a.floats[0], a.floats[1], a.floats[2], someRates(a)) },
		func(a *arena) { adamGo(a.floats[0], a.floats[1], a.floats[2], someRates(a)) }},

	{"EncodeBF16", false, true,
		func(a *arena) { EncodeBF16(a.bytes[:2*a.n], a.floats[0]) },
		func(a *arena) { encodeBF16Go(a.bytes[:2*a.n], a.floats[0]) }},
	{"DecodeBF16", false, true,
		func(a *arena) { DecodeBF16(a.floats[0], a.bytes[:2*a.n]) },
		func(a *arena) { decodeBF16Go(a.floats[0], a.bytes[:2*a.n]) }},
	{"AddBF16", false, false,
		func(a *arena) { AddBF16(a.floats[0], a.a, a.bytes[:2*a.n]) },
		func(a *arena) { addBF16Go(a.floats[0], a.a, a.bytes[:2*a.n]) }},
	{"RoundBF16", false, true,
		func(a *arena) { RoundBF16(a.floats[0]) },
		func(a *arena) { roundBF16Go(a.floats[0]) }},
	{"EncodeFP16", false, true,
		func(a *arena) { EncodeFP16(a.bytes[:2*a.n], a.floats[0]) },
		func(a *arena) { encodeFP16Go(a.bytes[:2*a.n], a.floats[0]) }},
	{"DecodeFP16", false, true,
		func(a *arena) { DecodeFP16(a.floats[0], a.bytes[:2*a.n]) },
		func(a *arena) { decodeFP16Go(a.floats[0], a.bytes[:2*a.n]) }},
	{"AddFP16", false, false,
		func(a *arena) { AddFP16(a.floats[0], a.a, a.bytes[:2*a.n]) },
		func(a *arena) { addFP16Go(a.floats[0], a.a, a.bytes[:2*a.n]) }},
	{"RoundFP16", false, true,
		func(a *arena) { RoundFP16(a.floats[0]) },
		func(a *arena) { roundFP16Go(a.floats[0]) }},
}

func abs(v float32) float32 { return math.Float32frombits(math.Float32bits(v) & magnitude) }

// finite is v, or 0 for −Inf, which ExpSum takes for it.
func finite(v float32) float32 {
	if v < -math.MaxFloat32 {
		return 0
	}
	return v
}

// rowless keeps a result that must agree to the bit.
func (a *arena) rowless(v float32) { a.reduction = float64(math.Float32bits(v)) }

func someRates(a *arena) *AdamRates {
	return &AdamRates{Rate: a.a, Unbias: 1.5, B1: 0.9, C1: 0.1, B2: 0.99, C2: a.b, Eps: 1e-8}
}

// Every kernel gives the bits of its twin and writes nowhere else, at any
// length, width and alignment; so do those of lesser processors.
func TestKernelsAreTheirTwins(t *testing.T) {
	cpu.Each(func(kind string) { t.Run(kind, kernelsAreTheirTwins) })
}

func kernelsAreTheirTwins(t *testing.T) {
	for _, k := range kernels {
		t.Run(k.name, func(t *testing.T) {
			r := newRand(3)
			try := func(n, cols int) {
				t.Helper()
				a := newArena(r, n, cols)
				want := a.clone()
				k.kernel(a)
				k.twin(want)
				if err := a.equal(want, k.exact); err != nil {
					t.Fatalf("%d elements, %d columns: %v", n, cols, err)
				}
			}
			longest, widest, tries := 301, 70, 8
			if !patience.Long {
				longest, widest, tries = 70, 40, 2
			}
			if !k.matrix {
				for n := range longest {
					for range tries / 2 {
						try(n, 0)
					}
				}
				return
			}
			try(0, 0)
			for cols := 1; cols <= widest; cols++ {
				for range tries {
					try(r.IntN(14)*cols, cols)
				}
			}
			if patience.Long {
				try(300*16, 16)
				try(7*2048, 2048)
			}
		})
	}
}

// Pieces of a matrix, first rows first, add up to the bits of the whole.
func TestColumnSumsInPieces(t *testing.T) {
	r := newRand(4)
	const rows, cols = 37, 21
	x, dy, y := randVec(r, rows*cols), randVec(r, rows*cols), randVec(r, rows*cols)
	ReLU(y, y)
	sums := func(cuts ...int) []float64 {
		s := make([]float64, 6*cols)
		part := func(i int) []float64 { return s[i*cols : (i+1)*cols] }
		d := slices.Clone(dy)
		lo := 0
		for _, hi := range append(cuts, rows) {
			x, d, y := x[lo*cols:hi*cols], d[lo*cols:hi*cols], y[lo*cols:hi*cols]
			Moments(part(0), part(1), x)
			NormGradSums(part(2), part(3), d, x, y)
			ReLUGradColSums(part(4), d, y)
			ColSums(part(5), d)
			lo = hi
		}
		return s
	}
	whole := sums()
	for i := range cols {
		for _, j := range []int{4, 5} {
			if whole[2*cols+i] != whole[j*cols+i] {
				t.Fatalf("column %d: the sums of dy differ", i)
			}
		}
	}
	for range 100 {
		a, b := r.IntN(rows+1), r.IntN(rows+1)
		if got := sums(min(a, b), max(a, b)); !slices.Equal(got, whole) {
			t.Fatalf("cut at rows %d and %d: %v, want %v", a, b, got, whole)
		}
	}
}

// A hundred thousand rows far from zero: float32 sums would be off by percents.
func TestMomentsAreAccurate(t *testing.T) {
	r := newRand(5)
	const rows, cols = 100_000, 9
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(1000 + r.NormFloat64())
	}
	sum, sq := make([]float64, cols), make([]float64, cols)
	Moments(sum, sq, x)
	for c := range cols {
		var mean, variance float64
		for i := range rows {
			mean += float64(x[i*cols+c]) / rows
		}
		for i := range rows {
			d := float64(x[i*cols+c]) - mean
			variance += d * d / rows
		}
		mu := sum[c] / rows
		if got := sq[c]/rows - mu*mu; math.Abs(mu-mean) > 1e-9 || math.Abs(got-variance) > 1e-6 {
			t.Errorf("column %d: mean %v and variance %v, want %v and %v", c, mu, got, mean, variance)
		}
	}
}

// Conversions agree on every exponent with all roundings around it.
func TestHalfKernelsOnAllMagnitudes(t *testing.T) {
	const step = 4099 // prime, so that all low bits occur
	x := make([]float32, 0, 1<<32/step+1)
	for b := uint64(0); b < 1<<32; b += step {
		x = append(x, math.Float32frombits(uint32(b)))
	}
	got, want := make([]byte, 2*len(x)), make([]byte, 2*len(x))
	for i, c := range []struct{ kernel, twin func([]byte, []float32) }{{EncodeBF16, encodeBF16Go}, {EncodeFP16, encodeFP16Go}} {
		c.kernel(got, x)
		c.twin(want, x)
		for j := range x {
			if g, w := got[2*j:2*j+2], want[2*j:2*j+2]; g[0] != w[0] || g[1] != w[1] {
				t.Fatalf("format %d: %v (%#x) became %x, want %x", i, x[j], math.Float32bits(x[j]), g, w)
			}
		}
	}
}

// Any bytes decode as the definition says, at any alignment, and what was
// decoded encodes back, but for NaNs that were signalling.
func FuzzHalves(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x00\x80\x01\x00\x00\x7c\x01\x7c\xff\xff\x80\x7f\x81\x7f\x00\x3c\xff\x03\x00\x04\xff\x7b\x12\x34\x56\x78\x9a\xbc\xde\xf0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := len(b) / 2
		b = b[len(b)-2*n:]
		x, back := make([]float32, n), make([]byte, 2*n)
		for _, c := range []struct {
			decode func([]float32, []byte)
			encode func([]byte, []float32)
			from   func(uint16) float32
		}{{DecodeBF16, EncodeBF16, FromBF16}, {DecodeFP16, EncodeFP16, FromFP16}} {
			c.decode(x, b)
			c.encode(back, x)
			for i, v := range x {
				h, again := uint16(b[2*i])|uint16(b[2*i+1])<<8, uint16(back[2*i])|uint16(back[2*i+1])<<8
				if math.Float32bits(v) != math.Float32bits(c.from(h)) {
					t.Fatalf("%#x decoded as %v, want %v", h, v, c.from(h))
				}
				if again != h && v == v {
					t.Fatalf("%#x came back as %#x", h, again)
				}
			}
		}
	})
}
