// Package f32 holds the float32 kernels everything else stands on. Matrix
// products go through Gemm, the one seam.
package f32

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// Gemm computes C = alpha·op(A)·op(B) + beta·C for row-major matrices, where
// op(A) is m×k and op(B) is k×n, transposed when ta or tb is set; lda, ldb and
// ldc are row strides of the matrices as stored. With beta 0, C is not read.
func Gemm(ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	t := func(x bool) blas.Transpose {
		if x {
			return blas.Trans
		}
		return blas.NoTrans
	}
	gonum.Implementation{}.Sgemm(t(ta), t(tb), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}
