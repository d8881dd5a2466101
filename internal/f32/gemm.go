// Package f32 holds the float32 kernels everything else stands on: vector
// loops, reductions, wire formats, image unfolding, and matrix products, which
// all go through Gemm, the one seam.
package f32

import "fmt"

// Gemm computes C = alpha·op(A)·op(B) + beta·C for row-major matrices, where
// op(A) is m×k and op(B) is k×n, transposed when ta or tb is set; lda, ldb and
// ldc are row strides of the matrices as stored. With beta 0, C is not read;
// with alpha 0 or k 0, A and B are not. C must not overlap A or B.
//
// Large products use idle workers, up to Threads. The result is
//
//	c = beta·c, then for each block of k in order: c += alpha · Σp a[i,p]·b[p,j]
//
// with the blocks of k a function of k alone, each sum taken from its first
// term to its last, so the bits do not depend on the number of threads, nor
// on the other rows and columns. They do depend on whether the machine fuses
// multiply and add (see kernel.go).
//
// Gemm panics if a dimension is negative, a stride is shorter than a row, or a
// slice is too short. It is safe for concurrent use.
func Gemm(ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	p := product{ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, false}
	if !p.check() {
		return
	}
	if threads := Threads(); threads > 1 && p.worth() {
		parallel(&p, threads)
		return
	}
	p.run(0, p.m, 0, p.n)
}

// GemmSerial is Gemm on the calling goroutine alone, with the same bits.
func GemmSerial(ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	p := product{ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, false}
	if p.check() {
		p.run(0, p.m, 0, p.n)
	}
}

// product is one call of Gemm. With flip set, C is stored transposed.
type product struct {
	ta, tb  bool
	m, n, k int
	alpha   float32
	a       []float32
	lda     int
	b       []float32
	ldb     int
	beta    float32
	c       []float32
	ldc     int
	flip    bool
}

// check panics on impossible arguments, turns a product with a narrow result
// on its side, and reports whether there is anything to do.
func (p *product) check() bool {
	if p.m < 0 || p.n < 0 || p.k < 0 {
		panic(fmt.Sprintf("f32: Gemm: negative size m=%d n=%d k=%d", p.m, p.n, p.k))
	}
	if p.m == 0 || p.n == 0 {
		return false
	}
	fits := func(name string, rows, cols, ld, length int) {
		if ld < max(cols, 1) {
			panic(fmt.Sprintf("f32: Gemm: stride of %s is %d, its rows are %d long", name, ld, cols))
		}
		if rows > 0 && cols > 0 && length < (rows-1)*ld+cols {
			panic(fmt.Sprintf("f32: Gemm: %s has %d elements, %d×%d with stride %d needs %d", name, length, rows, cols, ld, (rows-1)*ld+cols))
		}
	}
	size := func(name string, t bool, rows, cols, ld, length int) {
		if t {
			rows, cols = cols, rows
		}
		fits(name, rows, cols, ld, length)
	}
	size("A", p.ta, p.m, p.k, p.lda, len(p.a))
	size("B", p.tb, p.k, p.n, p.ldb, len(p.b))
	size("C", false, p.m, p.n, p.ldc, len(p.c))
	if p.alpha == 0 {
		p.k = 0
	}
	// Tiles are 16 columns wide: for a result of few columns, compute its
	// transpose, op(B)ᵀ·op(A)ᵀ, if that wastes clearly less. Same bits.
	if 5*paddedRows(p.n)*paddedCols(p.m) < 4*paddedRows(p.m)*paddedCols(p.n) {
		p.ta, p.tb, p.m, p.n = !p.tb, !p.ta, p.n, p.m
		p.a, p.lda, p.b, p.ldb = p.b, p.ldb, p.a, p.lda
		p.flip = true
	}
	return true
}

// paddedRows is the number of tile rows computed for m rows of C.
func paddedRows(m int) int {
	r := m % tileRows
	if r > 0 && r <= 4 {
		return m - r + 4
	}
	return roundUp(m, tileRows)
}

// paddedCols is the number of tile columns computed for n columns of C.
func paddedCols(n int) int { return roundUp(n, tileCols) }

func roundUp(x, to int) int { return (x + to - 1) / to * to }
