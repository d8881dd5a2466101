package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
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
func (g *gemmCase) check(t *testing.T, c []float32) {
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
	r := newRand(3)
	eachTranspose(func(ta, tb bool) {
		rounds := 300
		if testing.Short() {
			rounds = 40
		}
		for i := range rounds {
			ab := coefficients[i%len(coefficients)]
			g := newCase(r, ta, tb, r.IntN(70), r.IntN(70), r.IntN(70), ab[0], ab[1])
			g.check(t, g.run(Gemm))
		}
		for m := range 13 { // every edge
			for n := range 34 {
				g := newCase(r, ta, tb, m, n, 1+(m+n)%19, 1, float32(n&1))
				g.check(t, g.run(Gemm))
			}
		}
	})
}

// Several blocks in every direction, odd sizes, narrow results.
var largeShapes = [][3]int{{257, 129, 513}, {64, 1100, 300}, {245, 1041, 67}, {9, 700, 800}, {700, 10, 801}, {1030, 3, 515}, {251, 300, 260}}

// large is all of largeShapes, or two of them with -short.
func large() [][3]int {
	if testing.Short() {
		return largeShapes[3:5]
	}
	return largeShapes
}

func TestGemmLarge(t *testing.T) {
	r := newRand(4)
	for i, s := range large() {
		eachTranspose(func(ta, tb bool) {
			ab := coefficients[(i+s[0])%4]
			g := newCase(r, ta, tb, s[0], s[1], s[2], ab[0], ab[1])
			got := g.run(Gemm)
			want := g.run(func(ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
				tr := map[bool]blas.Transpose{false: blas.NoTrans, true: blas.Trans}
				gonum.Implementation{}.Sgemm(tr[ta], tr[tb], m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
			})
			for x := range got {
				if d := math.Abs(float64(got[x] - want[x])); d > 1e-3 {
					t.Fatalf("%v: element %d is %v, gonum has %v", g, x, got[x], want[x])
				}
			}
		})
	}
	g := newCase(r, false, true, 257, 129, 513, 0.7, -0.3)
	g.check(t, g.run(Gemm))
}

func TestGemmBitsDoNotDependOnThreads(t *testing.T) {
	defer SetThreads(0)
	r := newRand(5)
	for _, s := range append(slices.Clone(large()), [3]int{120, 1200, 256}, [3]int{600, 600, 40}) {
		eachTranspose(func(ta, tb bool) {
			g := newCase(r, ta, tb, s[0], s[1], s[2], 1.5, 1)
			want := g.run(GemmSerial)
			for _, n := range []int{1, 2, 3, 7} {
				SetThreads(n)
				if !sameBits(g.run(Gemm), want) {
					t.Fatalf("%v: %d threads give other bits", g, n)
				}
			}
			SetThreads(0)
			for _, n := range []int{1, 2} {
				old := runtime.GOMAXPROCS(n)
				same := sameBits(g.run(Gemm), want)
				runtime.GOMAXPROCS(old)
				if !same {
					t.Fatalf("%v: GOMAXPROCS=%d gives other bits", g, n)
				}
			}
		})
	}
}

// A row of C depends on its row of A and on B, not on the other rows, and
// likewise for columns: also across the turned products of check.
func TestGemmBitsDoNotDependOnNeighbours(t *testing.T) {
	r := newRand(6)
	g := newCase(r, false, false, 61, 83, 300, 0.7, 0)
	all := g.run(Gemm)
	for _, s := range [][4]int{{0, 1, 0, 83}, {7, 12, 0, 83}, {0, 61, 5, 9}, {60, 61, 82, 83}, {3, 50, 16, 70}} {
		m, n := s[1]-s[0], s[3]-s[2]
		c := make([]float32, m*n)
		Gemm(false, false, m, n, g.k, g.alpha, g.a[s[0]*g.lda:], g.lda, g.b[s[2]:], g.ldb, 0, c, n)
		for i := range m {
			if !sameBits(c[i*n:(i+1)*n], all[(s[0]+i)*g.ldc+s[2]:][:n]) {
				t.Fatalf("part %v differs in row %d", s, i)
			}
		}
	}
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
	for range 1000 { // helpers sign off after the caller has returned
		if running.Load() == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%d goroutines still counted at work", running.Load())
}

// Kernels in assembly and in Go agree within the bound of kernel.go.
func TestAssemblyAgainstGo(t *testing.T) {
	if !fused {
		t.Skip("no assembly here")
	}
	defer func() { fused = true }()
	r := newRand(8)
	for i := range 60 {
		ab := coefficients[i%5]
		g := newCase(r, i&1 != 0, i&2 != 0, 1+r.IntN(40), 1+r.IntN(40), 1+r.IntN(600), ab[0], ab[1])
		asm := g.run(Gemm)
		fused = false
		plain := g.run(Gemm)
		for x := range g.a {
			g.a[x] = float32(math.Abs(float64(g.a[x])))
		}
		for x := range g.b {
			g.b[x] = float32(math.Abs(float64(g.b[x])))
		}
		g.alpha, g.beta = max(g.alpha, -g.alpha), 0
		clear(g.c)
		size := g.run(Gemm)
		fused = true
		for x := range asm {
			if x%g.ldc >= g.n {
				continue
			}
			old := 0.0
			if ab[1] != 0 {
				old = 4 * 0x1p-23 * math.Abs(float64(asm[x]))
			}
			if d := math.Abs(float64(asm[x] - plain[x])); !(d <= float64(g.k)*0x1p-23*float64(size[x])+old+1e-6) {
				t.Fatalf("%v: element %d: assembly %v, Go %v", g, x, asm[x], plain[x])
			}
		}
	}
}

func TestGemmDoesNotAllocate(t *testing.T) {
	defer SetThreads(0)
	r := newRand(9)
	for _, threads := range []int{1, 2} {
		SetThreads(threads)
		for _, s := range [][3]int{{3, 5, 7}, {64, 64, 64}, {200, 200, 200}} {
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

func BenchmarkGemm(b *testing.B) {
	for _, s := range []struct {
		name    string
		ta, tb  bool
		m, n, k int
	}{
		{"tiny8", false, false, 8, 8, 8},
		{"sq64", false, false, 64, 64, 64},
		{"sq256", false, false, 256, 256, 256},
		{"sq512", false, false, 512, 512, 512},
		{"sq1024", false, false, 1024, 1024, 1024},
		{"conv1.fwd", false, false, 32, 100352, 25},
		{"conv2.fwd", false, false, 64, 25088, 800},
		{"conv2.dW", false, true, 64, 800, 25088},
		{"conv2.dcol", true, false, 800, 25088, 64},
		{"conv2.one.fwd", false, false, 64, 196, 800},
		{"conv2.one.dW", false, true, 64, 800, 196},
		{"conv2.one.dcol", true, false, 800, 196, 64},
		{"fc1.fwd.NT", false, true, 128, 1024, 3136},
		{"fc1.dW.TN", true, false, 1024, 3136, 128},
		{"fc1.dX.NN", false, false, 128, 3136, 1024},
		{"fc2.fwd.NT", false, true, 128, 10, 1024},
		{"rank4", false, false, 1024, 4, 3136},
	} {
		r := newRand(1)
		g := &gemmCase{}
		g.lda, g.ldb = s.k, s.n
		if s.ta {
			g.lda = s.m
		}
		if s.tb {
			g.ldb = s.k
		}
		g.a, g.b, g.c = randVec(r, s.m*s.k), randVec(r, s.k*s.n), make([]float32, s.m*s.n)
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/%d", s.name, threads), func(b *testing.B) {
				defer SetThreads(0)
				SetThreads(threads)
				for b.Loop() {
					Gemm(s.ta, s.tb, s.m, s.n, s.k, 1, g.a, g.lda, g.b, g.ldb, 0, g.c, s.n)
				}
				b.ReportMetric(2*float64(s.m)*float64(s.n)*float64(s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
