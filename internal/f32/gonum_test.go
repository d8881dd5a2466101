package f32_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/blas/testblas"
	"pgregory.net/rapid"
)

var theirs gonum.Implementation

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}

// same reports whether all elements agree within what k roundings may do.
func same(got, want []float32, k int) bool {
	for i := range got {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= float64(k+4)*0x1p-20) {
			return false
		}
	}
	return true
}

var transposes = rapid.SampledFrom([]blas.Transpose{blas.NoTrans, blas.Trans, blas.ConjTrans})
var factors = rapid.SampledFrom([]float32{0, 1, -1, 0.5, -2})

func TestSgemmIsGonums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		size, more := rapid.IntRange(0, 70), rapid.IntRange(0, 9)
		tA, tB := transposes.Draw(t, "tA"), transposes.Draw(t, "tB")
		m, n, k := size.Draw(t, "m"), size.Draw(t, "n"), size.Draw(t, "k")
		matrix := func(trans blas.Transpose, rows, cols int) ([]float32, int) {
			if trans != blas.NoTrans {
				rows, cols = cols, rows
			}
			ld := max(cols, 1) + more.Draw(t, "ld")
			return random(r, max(rows, 1)*ld), ld
		}
		a, lda := matrix(tA, m, k)
		b, ldb := matrix(tB, k, n)
		c, ldc := matrix(blas.NoTrans, m, n)
		alpha, beta := factors.Draw(t, "alpha"), factors.Draw(t, "beta")
		want := slices.Clone(c)
		theirs.Sgemm(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, want, ldc)
		blas32Ours{}.Sgemm(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		if !same(c, want, k) {
			t.Fatalf("got %v\nwant %v", c, want)
		}
	})
}

func TestSsyrkIsGonums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		ul := rapid.SampledFrom([]blas.Uplo{blas.Upper, blas.Lower}).Draw(t, "ul")
		tA := transposes.Draw(t, "tA")
		n, k := rapid.IntRange(0, 3*block).Draw(t, "n"), rapid.IntRange(0, 40).Draw(t, "k")
		rows, cols := n, k
		if tA != blas.NoTrans {
			rows, cols = k, n
		}
		lda, ldc := max(cols, 1)+rapid.IntRange(0, 5).Draw(t, "lda"), max(n, 1)+rapid.IntRange(0, 5).Draw(t, "ldc")
		a, c := random(r, max(rows, 1)*lda), random(r, max(n, 1)*ldc)
		alpha, beta := factors.Draw(t, "alpha"), factors.Draw(t, "beta")
		want := slices.Clone(c)
		theirs.Ssyrk(ul, tA, n, k, alpha, a, lda, beta, want, ldc)
		blas32Ours{}.Ssyrk(ul, tA, n, k, alpha, a, lda, beta, c, ldc)
		if !same(c, want, k) {
			t.Fatal("other results than gonum's")
		}
	})
}

// inFloat64 is the implementation as gonum's own tests want it, which there are
// for float64 only. Their numbers are small enough to be exact in float32.
type inFloat64 struct{ blas32Ours }

func (i inFloat64) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64, c []float64, ldc int) {
	sum := convert[float32](c)
	i.Sgemm(tA, tB, m, n, k, float32(alpha), convert[float32](a), lda, convert[float32](b), ldb, float32(beta), sum, ldc)
	copy(c, convert[float64](sum))
}

func (i inFloat64) Dsyrk(ul blas.Uplo, tA blas.Transpose, n, k int, alpha float64, a []float64, lda int, beta float64, c []float64, ldc int) {
	sum := convert[float32](c)
	i.Ssyrk(ul, tA, n, k, float32(alpha), convert[float32](a), lda, float32(beta), sum, ldc)
	copy(c, convert[float64](sum))
}

func convert[To, From float32 | float64](x []From) []To {
	y := make([]To, len(x))
	for i, v := range x {
		y[i] = To(v)
	}
	return y
}

func TestGonumsOwnTests(t *testing.T) {
	t.Run("gemm", func(t *testing.T) { testblas.TestDgemm(t, inFloat64{}) })
	t.Run("syrk", func(t *testing.T) { testblas.DsyrkTest(t, inFloat64{}) })
}

func panicOf(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// Whatever is wrong with the arguments, both say the same about it.
func TestArgumentChecksAreGonums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(-1, 4)
		trans := rapid.SampledFrom([]blas.Transpose{blas.NoTrans, blas.Trans, blas.ConjTrans, 'x'})
		ul := rapid.SampledFrom([]blas.Uplo{blas.Upper, blas.Lower, 'x'}).Draw(t, "ul")
		tA, tB := trans.Draw(t, "tA"), trans.Draw(t, "tB")
		m, n, k := size.Draw(t, "m"), size.Draw(t, "n"), size.Draw(t, "k")
		lda, ldb, ldc := size.Draw(t, "lda"), size.Draw(t, "ldb"), size.Draw(t, "ldc")
		slice := func() []float32 { return make([]float32, rapid.IntRange(0, 20).Draw(t, "len")) }
		a, b, c := slice(), slice(), slice()
		for name, f := range map[string]func(blas.Float32Level3){
			"Sgemm": func(i blas.Float32Level3) { i.Sgemm(tA, tB, m, n, k, 1, a, lda, b, ldb, 0.5, c, ldc) },
			"Ssyrk": func(i blas.Float32Level3) { i.Ssyrk(ul, tA, n, k, 1, a, lda, 0.5, c, ldc) },
		} {
			got, want := panicOf(func() { f(blas32Ours{}) }), panicOf(func() { f(theirs) })
			if got != want {
				t.Fatalf("%s: panics with %v, gonum with %v", name, got, want)
			}
		}
	})
}

func TestUse(t *testing.T) {
	defer blas32.Use(theirs)
	blas32.Use(blas32Ours{})
	a := blas32.General{Rows: 2, Cols: 2, Stride: 2, Data: []float32{1, 2, 3, 4}}
	c := blas32.General{Rows: 2, Cols: 2, Stride: 2, Data: make([]float32, 4)}
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, a, a, 0, c)
	if want := []float32{5, 11, 11, 25}; !slices.Equal(c.Data, want) {
		t.Errorf("got %v, want %v", c.Data, want)
	}
}

func Example() {
	blas32.Use(blas32Ours{})
	a := blas32.General{Rows: 1, Cols: 2, Stride: 2, Data: []float32{3, 4}}
	c := blas32.General{Rows: 1, Cols: 1, Stride: 1, Data: []float32{0}}
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, a, a, 0, c)
	fmt.Println(c.Data)
	// Output: [25]
}

// Products of several sizes, by this package and by gonum itself.
func BenchmarkLevel3(b *testing.B) {
	for _, n := range []int{16, 64, 256, 512} {
		r := rand.New(rand.NewPCG(1, 1))
		x, y, z := random(r, n*n), random(r, n*n), make([]float32, n*n)
		for _, by := range []struct {
			name string
			blas.Float32Level3
		}{{"f32", blas32Ours{}}, {"gonum", theirs}} {
			rate := func(b *testing.B, flop int) {
				b.ReportMetric(float64(flop)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			}
			b.Run(fmt.Sprintf("Sgemm/%d/%s", n, by.name), func(b *testing.B) {
				for b.Loop() {
					by.Sgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, x, n, y, n, 0, z, n)
				}
				rate(b, 2*n*n*n)
			})
			b.Run(fmt.Sprintf("Ssyrk/%d/%s", n, by.name), func(b *testing.B) {
				for b.Loop() {
					by.Ssyrk(blas.Upper, blas.NoTrans, n, n, 1, x, n, 0, z, n)
				}
				rate(b, n*n*(n+1))
			})
		}
	}
}
