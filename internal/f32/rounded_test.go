package f32

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/internal/patience"
)

// extremes are values at which rounding, denormals and overflow show.
var extremes = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, 0x1p-126, -0x1p-126, 0x1p-127, -0x1p-149, 0x1p-63, -0x1p-63, 0x1.fep-64, 0x1p-100, -0x1p-133,
	0x1p64, -0x1p64, 0x1.fep127, -0x1.fep127, 0x1p-126 - 0x1p-149, 0x1.ffp127, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
}

// sharp is a vector of random values and some of the extremes.
func sharp(r *rand.Rand, n int) []float32 {
	x := randVec(r, n)
	for i := range x {
		switch r.IntN(8) {
		case 0:
			x[i] = extremes[r.IntN(len(extremes))]
		case 1:
			x[i] *= float32(math.Exp2(float64(r.IntN(160) - 130)))
		}
	}
	return x
}

// sameValues is equality of bits, but of NaNs.
func sameValues(x, y []float32) bool {
	return slices.EqualFunc(x, y, func(a, b float32) bool {
		return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
	})
}

// pairCall turns a call of float32 into one of pairs.
func pairCall(r *rand.Rand, x *call) *call {
	words := func(n int) []float32 {
		w := make([]float32, n)
		pairsAlongGo(w, sharp(r, 2*n))
		return w
	}
	x.a, x.b = words(len(x.a)), words(len(x.b))
	return flushedCall(r, x)
}

// flushedCall has denormals count as 0, and some of them in C.
func flushedCall(r *rand.Rand, x *call) *call {
	x.next, x.alpha, x.flush = x.b[len(x.b)-1:], 1, true
	if x.add {
		for i := range x.c {
			if r.IntN(4) == 0 && x.c[i] == x.c[i] {
				x.c[i] = extremes[r.IntN(len(extremes))]
			}
		}
	}
	return x
}

// roundedCall has values of bfloat16 for operands.
func roundedCall(r *rand.Rand, x *call) *call {
	x.a, x.b = sharp(r, len(x.a)), sharp(r, len(x.b))
	RoundBF16(x.a)
	RoundBF16(x.b)
	return flushedCall(r, x)
}

// sum and product of one instruction are what the exact ones round to.
func TestMaddFlushed(t *testing.T) {
	for _, c := range []struct{ s, x, y, want float32 }{
		{1, 0x1p-12, 0x1p-12, 1}, {1, 0x1p-11, 0x1.8p-13, 1 + 0x1p-23}, {0, 0x1p-63, 0x1p-64, 0}, {0x1p-149, 1, 0, 0},
		{0x1p-126, -0x1p-80, 0x1p-80, 0x1p-126}, {0x1p-126, -0x1p-75, 0x1p-76, 0x1p-126}, {0x1p-126, -0x1p-75, 0x1.02p-76, 0},
		{-0x1.fffffep127, 0x1p64, 0x1p64, 0x1p104}, {0x1.fffffep127, 0x1p100, 0x1p2, 0x1.fffffep127}, {0x1.fffffep127, 0x1p101, 0x1p2, float32(math.Inf(1))},
	} {
		if got := maddFlushed(c.s, c.x, c.y); got != c.want {
			t.Errorf("%g + %g·%g = %g, want %g", c.s, c.x, c.y, got, c.want)
		}
	}
	if flushesEarly() {
		t.Skip("qemu flushes before it rounds")
	}
	// Every way in which the machine computes it.
	r := newRand(30)
	for i := range 20000 {
		v := sharp(r, 4)
		RoundBF16(v)
		s, one := sharp(r, 1)[0], []float32{0}
		if i == 0 { // below the least normal number, and rounded up to it
			v, s = []float32{1, 0x1p-126, 0x1p-126, -0x1.cap-112}, 0
		}
		want := flushed(flushed(s) + maddFlushed(maddFlushed(0, v[0], v[2]), v[1], v[3]))
		for _, kr := range append(runnable(pairFamilies), runnable(families)...) {
			one[0] = s
			x := &call{k: 1, tiles: 1, alpha: 1, add: true, flush: true, width: 1, mask: mask(kr.cols, 1), c: one, cRow: 1, aRow: 1, aStep: 1, bStep: kr.cols}
			if slices.Contains(runnable(pairFamilies), kr) {
				x.a, x.b = []float32{pair(v[0], v[1])}, slices.Repeat([]float32{pair(v[2], v[3])}, kr.cols)
			} else {
				x.k, x.a, x.b = 2, v[:2], append(slices.Repeat(v[2:3], kr.cols), slices.Repeat(v[3:4], kr.cols)...)
			}
			x.next = x.b
			if kr.multiply(1, x); !sameValues(one, []float32{want}) {
				t.Fatalf("%s: %g + %g·%g + %g·%g = %g, want %g", kr.name, s, v[0], v[2], v[1], v[3], one[0], want)
			}
		}
	}
}

// Kernels of pairs, and those of floats where denormals count as 0, at every height.
func TestRoundedKernelsAreWhatTheySay(t *testing.T) {
	if flushesEarly() {
		t.Skip("qemu flushes before it rounds")
	}
	r := newRand(31)
	check := func(kr *kernel, rows int, x *call, spec func(cols, rows int, x *call)) {
		got, want := x.clone(), x.clone()
		kr.multiply(rows, got)
		spec(kr.cols, rows, want)
		if !sameValues(got.c, want.c) || !sameBits(got.packed, want.packed) {
			t.Fatalf("%s, %d rows, %v: other bits than specified", kr.name, rows, x)
		}
	}
	rounds := 100
	if !patience.Long {
		rounds = 10
	}
	for range rounds {
		for _, kr := range runnable(pairFamilies) {
			for _, rows := range kr.heights {
				check(kr, rows, pairCall(r, newCall(r, kr.cols, rows)), pairsGo)
			}
		}
		for _, kr := range runnable(families) {
			for _, rows := range kr.heights {
				check(kr, rows, roundedCall(r, newCall(r, kr.cols, rows)), microFlushedGo)
			}
		}
	}
}

// asPairs are kernels of pairs with the tiles of the assembly, in plain Go.
var asPairs = &kernel{name: "plain-pairs-12x32", rows: 12, cols: 32, heights: []int{12, 10, 8, 6, 4, 3, 2, 1}, twin: pairsGo}

// eachRounding runs f in every way to compute GemmRounded that this machine has.
func eachRounding(f func(name string)) {
	defer func(p bool, kp, k [][]*kernel) { paired, pairFamilies, families = p, kp, k }(paired, pairFamilies, families)
	paired = true
	for _, kr := range append(runnable(pairFamilies), asPairs) {
		pairFamilies = [][]*kernel{{kr}}
		f(kr.name)
	}
	paired = false
	for _, kr := range append(runnable(families), shaped...) {
		families = [][]*kernel{{kr}}
		f(kr.name)
	}
}

// rounded returns x, rows×cols, as GemmRounded reads it, with its stride.
func rounded(x []float32, rows, cols int, along bool) ([]float32, int) {
	if !along {
		w := make([]float32, RoundedLen(rows)*cols)
		RoundAcross(w, cols, x, cols, cols, rows)
		return w, max(cols, 1)
	}
	ld := RoundedLen(cols)
	w := make([]float32, rows*ld)
	for i := range rows {
		RoundAlong(w[i*ld:][:ld], x[i*cols:][:cols])
	}
	return w, max(ld, 1)
}

// TestGemmRounded: all machines compute the bits of the definition, which are those of
// Gemm with fused multiply-adds where no denormals are.
func TestGemmRounded(t *testing.T) {
	if flushesEarly() {
		t.Skip("qemu flushes before it rounds")
	}
	rapid.Check(t, func(t *rapid.T) {
		r := newRand(rapid.Uint64().Draw(t, "seed"))
		ta, tb, add := rapid.Bool().Draw(t, "ta"), rapid.Bool().Draw(t, "tb"), rapid.Bool().Draw(t, "add")
		m, n := rapid.IntRange(1, 40).Draw(t, "m"), rapid.IntRange(1, 70).Draw(t, "n")
		k := rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(300, 700)).Draw(t, "k")
		vec := randVec
		if rapid.Bool().Draw(t, "sharp") {
			vec = sharp
		}
		a, b, c := vec(r, m*k), vec(r, k*n), vec(r, m*n)
		at := func(x []float32, t bool, i, j, rows, cols int) float32 {
			if t {
				return x[j*rows+i]
			}
			return x[i*cols+j]
		}
		want := make([]float32, m*n)
		for i := range m {
			for j := range n {
				sum := flushed(c[i*n+j])
				for q := 0; q < k; q += depthBlock(k) {
					var s float32
					for p := q; p < min(q+depthBlock(k), k); p++ {
						s = maddFlushed(s, FromBF16(ToBF16(flushed(at(a, ta, i, p, m, k)))), FromBF16(ToBF16(flushed(at(b, tb, p, j, k, n)))))
					}
					if k%2 == 1 && q+depthBlock(k) >= k {
						s += 0
					}
					if q == 0 && !add {
						sum = s
					} else {
						sum = flushed(sum + s)
					}
				}
				want[i*n+j] = sum
			}
		}
		threads := rapid.IntRange(1, 2).Draw(t, "threads")
		eachRounding(func(name string) {
			x, lda := rounded(a, pick(ta, k, m), pick(ta, m, k), !ta)
			y, ldb := rounded(b, pick(tb, n, k), pick(tb, k, n), tb)
			got := slices.Clone(c)
			GemmRounded(threads, ta, tb, m, n, k, x, lda, y, ldb, add, got, n)
			if !sameValues(got, want) {
				t.Fatalf("%s: other bits than defined", name)
			}
		})
	})
}

func pick(c bool, x, y int) int {
	if c {
		return x
	}
	return y
}

// Threads do not show, nor do products so large that they are cut.
func TestGemmRoundedParallel(t *testing.T) {
	r := newRand(33)
	for _, s := range [][3]int{{150, 200, 700}, {8, 2300, 129}, {500, 30, 650}} {
		m, n, k := s[0], s[1], s[2]
		x, lda := rounded(randVec(r, m*k), m, k, true)
		y, ldb := rounded(randVec(r, n*k), k, n, false)
		one, more := make([]float32, m*n), make([]float32, m*n)
		GemmRounded(1, false, false, m, n, k, x, lda, y, ldb, false, one, n)
		GemmRounded(8, false, false, m, n, k, x, lda, y, ldb, false, more, n)
		if !sameBits(one, more) {
			t.Errorf("%v: threads change bits", s)
		}
	}
}

// Assembly rounds as plain Go does, any length, and writes nothing beyond.
func TestRounding(t *testing.T) {
	r := newRand(34)
	for n := range 150 {
		x, y := sharp(r, n), sharp(r, n)
		b, c := make([]byte, 2*n), make([]byte, 2*n)
		EncodeBF16(b, x)
		EncodeBF16(c, y)
		for name, f := range map[string][2]func(dst []float32){
			"flush":         {func(dst []float32) { flushBF16(dst[:n], x) }, func(dst []float32) { flushBF16Go(dst[:n], x) }},
			"along":         {func(dst []float32) { pairsAlong(dst[:(n+1)/2], x) }, func(dst []float32) { pairsAlongGo(dst[:(n+1)/2], x) }},
			"halves along":  {func(dst []float32) { halvesAlong(dst[:(n+1)/2], b) }, func(dst []float32) { halvesAlongGo(dst[:(n+1)/2], b) }},
			"halves across": {func(dst []float32) { halvesAcross(dst[:n], b, c) }, func(dst []float32) { halvesAcrossGo(dst[:n], b, c) }},
			"across":        {func(dst []float32) { pairsAcross(dst[:n], x, y) }, func(dst []float32) { pairsAcrossGo(dst[:n], x, y) }},
		} {
			got, want := make([]float32, n+40), make([]float32, n+40)
			Fill(got, -77)
			Fill(want, -77)
			f[0](got)
			if f[1](want); !sameBits(got, want) {
				t.Fatalf("%s of %d elements: other bits than specified", name, n)
			}
		}
	}
}

// TestHalvesAreRounded: from what is stored in bfloat16 the same operands are made as from
// its values, but for denormals, which count as 0 in products.
func TestHalvesAreRounded(t *testing.T) {
	r := newRand(35)
	eachRounding(func(name string) {
		for range 50 {
			n, k := 1+r.IntN(70), 1+r.IntN(9)
			x := randVec(r, n*k)
			b := make([]byte, 2*n*k)
			EncodeBF16(b, x)
			got, want := make([]float32, RoundedLen(k)*n), make([]float32, RoundedLen(k)*n)
			Values{Half: b}.Across(got, n, n, n, k)
			if RoundAcross(want, n, x, n, n, k); !sameBits(got, want) {
				t.Fatalf("%s: other bits across %d×%d", name, k, n)
			}
			got, want = make([]float32, RoundedLen(n*k)), make([]float32, RoundedLen(n*k))
			Values{Half: b}.Along(got, n*k)
			if RoundAlong(want, x); !sameBits(got, want) {
				t.Fatalf("%s: other bits along %d", name, n*k)
			}
		}
	})
}

// BenchmarkRounded compares products of pairs with products of floats, in turns, the
// rounding of both operands apart: what a layer rounds once it multiplies several times.
func BenchmarkRounded(b *testing.B) {
	for _, l := range layers {
		b.Run(l.name, func(b *testing.B) {
			r := newRand(1)
			x, y, z := randVec(r, l.m*l.k), randVec(r, l.k*l.n), make([]float32, l.m*l.n)
			p, lda := rounded(x, pick(l.ta, l.k, l.m), pick(l.ta, l.m, l.k), !l.ta)
			q, ldb := rounded(y, pick(l.tb, l.n, l.k), pick(l.tb, l.k, l.n), l.tb)
			floats := func() {
				GemmSerial(l.ta, l.tb, l.m, l.n, l.k, 1, x, pick(l.ta, l.m, l.k), y, pick(l.tb, l.k, l.n), 0, z, l.n)
			}
			pairs := func() { GemmRounded(1, l.ta, l.tb, l.m, l.n, l.k, p, lda, q, ldb, false, z, l.n) }
			again := func() {
				rounded(x, pick(l.ta, l.k, l.m), pick(l.ta, l.m, l.k), !l.ta)
				rounded(y, pick(l.tb, l.n, l.k), pick(l.tb, l.k, l.n), l.tb)
			}
			var least [3]float64
			for b.Loop() {
				for i, f := range []func(){floats, pairs, again} {
					if s := seconds(f); least[i] == 0 || s < least[i] {
						least[i] = s
					}
				}
			}
			b.ReportMetric(l.flop()/least[0]/1e9, "float32-GFLOP/s")
			b.ReportMetric(l.flop()/least[1]/1e9, "GFLOP/s")
			b.ReportMetric(least[0]/least[1], "ratio")
			b.ReportMetric(least[0]/(least[1]+least[2]), "ratio-with-rounding")
		})
	}
}

// seconds is how long f takes.
func seconds(f func()) float64 {
	begin := time.Now()
	f()
	return time.Since(begin).Seconds()
}
