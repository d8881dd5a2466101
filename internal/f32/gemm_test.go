package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/internal/patience"
)

type gemmCase struct {
	ta, tb        bool
	m, n, k       int
	alpha, beta   float32
	a, b, c       []float32
	lda, ldb, ldc int
}

func newCase(r *rand.Rand, ta, tb bool, m, n, k int, alpha, beta float32) *gemmCase {
	g := &gemmCase{ta: ta, tb: tb, m: m, n: n, k: k, alpha: alpha, beta: beta}
	mat := func(t bool, rows, cols int) ([]float32, int) {
		if t {
			rows, cols = cols, rows
		}
		ld := max(cols, 1) + r.IntN(3)*r.IntN(5)
		return randVec(r, max(0, (rows-1)*ld+cols)), ld
	}
	g.a, g.lda = mat(ta, m, k)
	g.b, g.ldb = mat(tb, k, n)
	g.c, g.ldc = mat(false, m, n)
	if beta == 0 {
		Fill(g.c, float32(math.NaN())) // must not be read
	}
	return g
}

type gemmFunc func(ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int)

func (g *gemmCase) run(f gemmFunc) []float32 {
	c := slices.Clone(g.c)
	f(g.ta, g.tb, g.m, g.n, g.k, g.alpha, g.a, g.lda, g.b, g.ldb, g.beta, c, g.ldc)
	return c
}

func (g *gemmCase) String() string {
	return fmt.Sprintf("ta=%v tb=%v m=%d n=%d k=%d alpha=%v beta=%v lda=%d ldb=%d ldc=%d", g.ta, g.tb, g.m, g.n, g.k, g.alpha, g.beta, g.lda, g.ldb, g.ldc)
}

// check compares c with a float64 triple loop: each element within
// (k+3)·2^-23 of the sum of the sizes of its terms, and nothing between the
// rows touched.
func (g *gemmCase) check(t interface {
	Helper()
	Fatalf(string, ...any)
}, c []float32) {
	t.Helper()
	for i := range g.m {
		for j := range g.ldc {
			x := i*g.ldc + j
			if x >= len(c) {
				break
			}
			if j >= g.n {
				if math.Float32bits(c[x]) != math.Float32bits(g.c[x]) {
					t.Fatalf("%v: wrote outside C at (%d, %d)", g, i, j)
				}
				continue
			}
			var s, size float64
			for p := range g.k {
				u, v := i*g.lda+p, p*g.ldb+j
				if g.ta {
					u = p*g.lda + i
				}
				if g.tb {
					v = j*g.ldb + p
				}
				term := float64(g.a[u]) * float64(g.b[v])
				s, size = s+term, size+math.Abs(term)
			}
			s, size = float64(g.alpha)*s, math.Abs(float64(g.alpha))*size
			if g.beta != 0 {
				old := float64(g.beta) * float64(g.c[x])
				s, size = s+old, size+math.Abs(old)
			}
			if d := math.Abs(float64(c[x]) - s); !(d <= float64(g.k+3)*size*0x1p-23) {
				t.Fatalf("%v: C(%d, %d) = %v, want %v", g, i, j, c[x], s)
			}
		}
	}
}

var coefficients = [][2]float32{{1, 0}, {1, 1}, {-0.5, 0}, {2, 1}, {0.3, -1.5}, {0, 0.5}, {0, 0}, {0, 1}}

func eachTranspose(f func(ta, tb bool)) {
	for i := range 4 {
		f(i&1 != 0, i&2 != 0)
	}
}

func TestGemmAgainstTripleLoop(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		r := newRand(3)
		eachTranspose(func(ta, tb bool) {
			rounds := 200
			if !patience.Long {
				rounds = 30
			}
			for i := range rounds {
				ab := coefficients[i%len(coefficients)]
				g := newCase(r, ta, tb, r.IntN(70), r.IntN(70), r.IntN(70), ab[0], ab[1])
				g.check(t, g.run(Gemm))
			}
			for m := range 26 { // every edge
				for n := range 50 {
					if !patience.Long && (m+n)%5 > 0 {
						continue
					}
					g := newCase(r, ta, tb, m, n, 1+(m+n)%19, 1, float32(n&1))
					g.check(t, g.run(Gemm))
				}
			}
		})
	})
}

// Any sizes, strides, coefficients and offsets.
func TestGemmProperty(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			r := newRand(rapid.Uint64().Draw(t, "seed"))
			side := rapid.OneOf(rapid.IntRange(0, 8), rapid.IntRange(9, 100))
			flag := rapid.Bool()
			factor := rapid.SampledFrom([]float32{0, 1, -1, 0.5, -2.75})
			g := newCase(r, flag.Draw(t, "ta"), flag.Draw(t, "tb"), side.Draw(t, "m"), side.Draw(t, "n"), side.Draw(t, "k"), factor.Draw(t, "alpha"), factor.Draw(t, "beta"))
			for _, x := range []*[]float32{&g.a, &g.b} { // off any alignment
				off := rapid.IntRange(0, 17).Draw(t, "offset")
				*x = append(make([]float32, off), *x...)[off:]
			}
			g.check(t, g.run(Gemm))
		})
	})
}

func FuzzGemm(f *testing.F) {
	f.Add(uint64(1), uint16(17), uint16(33), uint16(5), uint8(0))
	f.Add(uint64(2), uint16(1), uint16(7), uint16(700), uint8(27))
	f.Fuzz(func(t *testing.T, seed uint64, m, n, k uint16, bits uint8) {
		if int(m%300)*int(n%300)*int(k%900) > 1<<22 {
			t.Skip("too slow")
		}
		ab := coefficients[bits>>2&7]
		g := newCase(newRand(seed), bits&1 != 0, bits&2 != 0, int(m%300), int(n%300), int(k%900), ab[0], ab[1])
		g.check(t, g.run(Gemm))
	})
}

// NaN and Inf reach the elements that have them among their terms, and no
// others; with beta 0 those of C do not count, with alpha 0 those of A and B.
func TestGemmSpecialValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	eachKernel(t, func(t *testing.T) {
		r := newRand(10)
		eachTranspose(func(ta, tb bool) {
			for range 20 {
				m, n, k := 1+r.IntN(40), 1+r.IntN(60), 1+r.IntN(30)
				g := newCase(r, ta, tb, m, n, k, 1, float32(r.IntN(2)))
				i, j, p, q := r.IntN(m), r.IntN(n), r.IntN(k), r.IntN(k)
				if ta {
					g.a[p*g.lda+i] = nan
				} else {
					g.a[i*g.lda+p] = nan
				}
				if tb {
					g.b[j*g.ldb+q] = inf
				} else {
					g.b[q*g.ldb+j] = inf
				}
				c := g.run(Gemm)
				for x := range m {
					for y := range n {
						v := float64(c[x*g.ldc+y])
						switch {
						case x == i && !math.IsNaN(v):
							t.Fatalf("%v: a NaN in row %d is %v in column %d", g, i, v, y)
						case x != i && y == j && !math.IsInf(v, 0):
							t.Fatalf("%v: an Inf in column %d is %v in row %d", g, j, v, x)
						case x != i && y != j && (math.IsNaN(v) || math.IsInf(v, 0)):
							t.Fatalf("%v: %v at (%d, %d)", g, v, x, y)
						}
					}
				}
				g.alpha = 0
				for _, v := range g.run(Gemm)[:n] {
					if math.IsNaN(float64(v)) {
						t.Fatalf("%v: A and B count with alpha 0", g)
					}
				}
			}
		})
	})
}

// Several blocks in every direction, odd sizes, narrow results.
var largeShapes = [][3]int{{257, 129, 513}, {64, 1100, 300}, {245, 1041, 67}, {9, 700, 800}, {700, 10, 801}, {1030, 3, 515}, {251, 300, 260}, {40, 512, 1024}, {70, 2048, 80}, {5, 7, 9000}, {25, 32, 5000}}

// large is all of largeShapes, or without the tag long those that are done soon.
func large() [][3]int {
	if !patience.Long {
		return [][3]int{largeShapes[3], largeShapes[4], largeShapes[9]}
	}
	return largeShapes
}

func TestGemmLarge(t *testing.T) {
	trans := map[bool]blas.Transpose{false: blas.NoTrans, true: blas.Trans}
	eachKernel(t, func(t *testing.T) {
		r := newRand(4)
		for i, s := range large() {
			eachTranspose(func(ta, tb bool) {
				ab := coefficients[(i+s[0])%4]
				g := newCase(r, ta, tb, s[0], s[1], s[2], ab[0], ab[1])
				got := g.run(Gemm)
				want := slices.Clone(g.c)
				gonum.Implementation{}.Sgemm(trans[ta], trans[tb], g.m, g.n, g.k, g.alpha, g.a, g.lda, g.b, g.ldb, g.beta, want, g.ldc)
				for x := range got {
					if d := math.Abs(float64(got[x] - want[x])); d > 2e-6*float64(g.k) {
						t.Fatalf("%v: element %d is %v, gonum has %v", g, x, got[x], want[x])
					}
				}
			})
		}
		g := newCase(r, false, true, 57, 29, 813, 0.7, -0.3)
		g.check(t, g.run(Gemm))
	})
}

func TestGemmBitsDoNotDependOnThreads(t *testing.T) {
	defer SetThreads(0)
	eachKernel(t, func(t *testing.T) {
		r, turn := newRand(5), 0
		shapes := slices.Clone(large())
		if patience.Long || families[0][0].needs != 0 { // plain Go takes twenty times as long
			shapes = append(shapes, [3]int{120, 1200, 256}, [3]int{600, 600, 40})
		}
		for i, s := range shapes {
			eachTranspose(func(ta, tb bool) {
				g := newCase(r, ta, tb, s[0], s[1], s[2], 1.5, float32(i%3)/2)
				want := g.run(GemmSerial)
				turn++
				for _, n := range [][]int{{1, 3}, {2, 7}}[turn%2] { // in turns: each takes a while
					SetThreads(n)
					if !sameBits(g.run(Gemm), want) {
						t.Fatalf("%v: %d threads give other bits", g, n)
					}
				}
				SetThreads(8)
				limited := func(ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
					GemmN(2, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
				}
				if !sameBits(g.run(limited), want) {
					t.Fatalf("%v: a limit of threads gives other bits", g)
				}
				SetThreads(0)
				old := runtime.GOMAXPROCS(1)
				same := sameBits(g.run(Gemm), want)
				runtime.GOMAXPROCS(old)
				if !same {
					t.Fatalf("%v: GOMAXPROCS=1 gives other bits", g)
				}
			})
		}
	})
}

// A row of C depends on its row of A and on B, not on the other rows, and
// likewise for columns: also across the turned products of check.
func TestGemmBitsDoNotDependOnNeighbours(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		r := newRand(6)
		eachTranspose(func(ta, tb bool) {
			g := newCase(r, ta, tb, 61, 83, 700, 0.7, 0)
			all := g.run(Gemm)
			for _, s := range [][4]int{{0, 1, 0, 83}, {7, 12, 0, 83}, {0, 61, 5, 9}, {60, 61, 82, 83}, {3, 50, 16, 70}} {
				m, n := s[1]-s[0], s[3]-s[2]
				a, b := g.a[along(s[0], ta, g.lda):], g.b[along(s[2], !tb, g.ldb):]
				c := make([]float32, m*n)
				Gemm(ta, tb, m, n, g.k, g.alpha, a, g.lda, b, g.ldb, 0, c, n)
				for i := range m {
					if !sameBits(c[i*n:(i+1)*n], all[(s[0]+i)*g.ldc+s[2]:][:n]) {
						t.Fatalf("%v: part %v differs in row %d", g, s, i)
					}
				}
			}
		})
	})
}

func TestGemmConcurrentCallers(t *testing.T) {
	defer SetThreads(0)
	SetThreads(3)
	r := newRand(7)
	cases := []*gemmCase{newCase(r, false, false, 200, 200, 200, 1, 0), newCase(r, true, false, 130, 500, 150, 1, 1), newCase(r, false, true, 5, 6, 7, 1, 0)}
	var wg sync.WaitGroup
	for _, g := range cases {
		want := g.run(GemmSerial)
		for range 3 {
			wg.Go(func() {
				for range 8 {
					if !sameBits(g.run(Gemm), want) {
						t.Errorf("%v: wrong under concurrency", g)
					}
				}
			})
		}
	}
	wg.Wait()
}

func TestGemmDoesNotAllocate(t *testing.T) {
	defer SetThreads(0)
	r := newRand(9)
	for _, threads := range []int{1, 2} {
		SetThreads(threads)
		for _, s := range [][3]int{{3, 5, 7}, {64, 64, 64}, {200, 200, 200}, {9, 11, 20000}} {
			g := newCase(r, false, true, s[0], s[1], s[2], 1, 1)
			f := func() {
				Gemm(g.ta, g.tb, g.m, g.n, g.k, g.alpha, g.a, g.lda, g.b, g.ldb, g.beta, g.c, g.ldc)
			}
			for range 20 { // let every helper see the largest size
				f()
			}
			if n := testing.AllocsPerRun(50, f); n != 0 {
				t.Errorf("%d threads, %v: %v allocations", threads, s, n)
			}
		}
	}
}

func TestGemmPanicsOnBadArguments(t *testing.T) {
	x := make([]float32, 12)
	for i, f := range []func(){
		func() { Gemm(false, false, -1, 2, 2, 1, x, 2, x, 2, 0, x, 2) },
		func() { Gemm(false, false, 2, 2, 3, 1, x, 2, x, 2, 0, x, 2) },
		func() { Gemm(false, false, 2, 2, 2, 1, x, 2, x, 2, 0, x, 1) },
		func() { Gemm(false, false, 2, 2, 2, 1, x[:3], 2, x, 2, 0, x, 2) },
		func() { Gemm(false, true, 2, 3, 2, 1, x, 2, x[:5], 2, 0, x, 3) },
		func() { Gemm(false, false, 4, 4, 2, 1, x, 2, x, 4, 0, x, 4) },
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

// BenchmarkGemm is GFLOP/s of small products and of the layers, on one thread
// and on two.
func BenchmarkGemm(b *testing.B) {
	defer SetThreads(0)
	small := []layer{
		{"sq8", 8, 8, 8, false, false},
		{"sq16", 16, 16, 16, false, false},
		{"sq32", 32, 32, 32, false, false},
		{"sq64", 64, 64, 64, false, false},
		{"sq128", 128, 128, 128, false, false},
		{"mnist.fc2.fwd", 128, 10, 1024, false, true},
		{"powersgd.rank4", 1024, 4, 3136, false, false},
		{"one.conv2.fwd", 64, 196, 800, false, false},
		{"one.conv2.dW", 64, 800, 196, false, true},
		{"one.conv2.dcol", 800, 196, 64, true, false},
	}
	for _, l := range append(small, layers...) {
		call := l.product()
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/%d", l.name, threads), func(b *testing.B) {
				SetThreads(threads)
				for b.Loop() {
					call()
				}
				reportRate(b, l.flop())
			})
		}
	}
}

// reportRate replaces the time of an iteration by GFLOP/s.
func reportRate(b *testing.B, flop float64) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(flop*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
