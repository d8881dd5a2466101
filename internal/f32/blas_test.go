package f32_test

import (
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/gradlab/gradlab/internal/f32"
)

// blas32Ours is gonum's implementation of BLAS, but for Sgemm and Ssyrk, which multiply by
// package f32: gonum's own suite of tests is run on it. Arguments that gonum refuses are
// refused with gonum's own panics.
//
// Two differences are left. Gonum passes over elements of A that are zero, so that 0·NaN
// is 0 there; here it is NaN, as IEEE 754 has it. And sums are rounded otherwise: elements
// differ within the bound of package f32.
type blas32Ours struct{ gonum.Implementation }

var _ blas.Float32 = blas32Ours{}

// Sgemm computes C = alpha·op(A)·op(B) + beta·C, where op(A) is m×k, op(B) is
// k×n and C is m×n, row-major.
func (i blas32Ours) Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	ta, okA := transposed(tA)
	tb, okB := transposed(tB)
	if !okA || !okB || m < 1 || n < 1 || k < 1 || !holds(a, ta, m, k, lda) || !holds(b, tb, k, n, ldb) || !holds(c, false, m, n, ldc) {
		i.Implementation.Sgemm(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		return
	}
	f32.Gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}

// block is the side of the blocks Ssyrk cuts C into.
const block = 96

// blocks are results of which only one triangle is wanted.
var blocks = sync.Pool{New: func() any { return new([block * block]float32) }}

// Ssyrk computes C = alpha·op(A)·op(A)ᵀ + beta·C, where op(A) is n×k and C is a
// symmetric n×n, of which only the triangle ul is read and written.
func (i blas32Ours) Ssyrk(ul blas.Uplo, tA blas.Transpose, n, k int, alpha float32, a []float32, lda int, beta float32, c []float32, ldc int) {
	ta, ok := transposed(tA)
	if !ok || ul != blas.Upper && ul != blas.Lower || n < 1 || k < 1 || !holds(a, ta, n, k, lda) || !holds(c, false, n, n, ldc) {
		i.Implementation.Ssyrk(ul, tA, n, k, alpha, a, lda, beta, c, ldc)
		return
	}
	from := func(row int) []float32 { // op(A) from a row on
		if ta {
			return a[row:]
		}
		return a[row*lda:]
	}
	sum := blocks.Get().(*[block * block]float32)
	defer blocks.Put(sum)
	for at := 0; at < n; at += block {
		side := min(block, n-at)
		diagonal := c[at*ldc+at:]
		f32.Gemm(ta, !ta, side, side, k, alpha, from(at), lda, from(at), lda, 0, sum[:], side)
		for y := range side {
			lo, hi := y, side
			if ul == blas.Lower {
				lo, hi = 0, y+1
			}
			row := diagonal[y*ldc:][lo:hi]
			for x, v := range sum[y*side:][lo:hi] {
				if beta == 0 {
					row[x] = v
				} else {
					row[x] = v + float32(beta*row[x])
				}
			}
		}
		rest := at + side
		if rest == n {
			break
		}
		if ul == blas.Upper {
			f32.Gemm(ta, !ta, side, n-rest, k, alpha, from(at), lda, from(rest), lda, beta, c[at*ldc+rest:], ldc)
		} else {
			f32.Gemm(ta, !ta, n-rest, side, k, alpha, from(rest), lda, from(at), lda, beta, c[rest*ldc+at:], ldc)
		}
	}
}

// transposed says what t is, and whether it is anything.
func transposed(t blas.Transpose) (trans, ok bool) {
	trans = t == blas.Trans || t == blas.ConjTrans
	return trans, trans || t == blas.NoTrans
}

// holds reports whether x has a rows×cols matrix, stored transposed if t.
func holds(x []float32, t bool, rows, cols, ld int) bool {
	if t {
		rows, cols = cols, rows
	}
	return ld >= cols && len(x) >= (rows-1)*ld+cols
}
