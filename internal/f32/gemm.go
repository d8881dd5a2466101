// Package f32 holds the float32 kernels everything else stands on: vector
// loops, reductions, wire formats, image unfolding, and matrix products, which
// all go through Gemm, the one seam.
package f32

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/par"
)

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
// on the other rows and columns, nor on the machine: a product and its sum are
// rounded once.
//
// Gemm panics if a dimension is negative, a stride is shorter than a row, or a
// slice is too short. It is safe for concurrent use.
func Gemm(ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	GemmN(par.Threads(), ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}

// GemmSerial is Gemm on the calling goroutine alone, with the same bits.
func GemmSerial(ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	GemmN(1, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}

// GemmN is Gemm on at most so many threads, with the same bits.
func GemmN(threads int, ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	p := product{plain, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, false, false, false}
	if !p.check() {
		return
	}
	p.choose()
	p.do(threads)
}

// do computes the product on at most so many threads.
func (p *product) do(threads int) {
	if threads = min(threads, par.Threads()); threads > 1 && p.work() >= minParallel {
		parallel(p, threads)
	} else {
		w := getSpace()
		p.run(w, 0, p.m, 0, p.n)
		putSpace(w)
	}
}

// product is one call of Gemm. With flip set, C is stored transposed. With pairs set,
// an element of A and B is two bfloat16, and k counts these; with flush set, denormals
// count as 0: see GemmRounded.
type product struct {
	kr      *kernel
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
	pairs   bool
	flush   bool
}

// check panics on impossible arguments and reports whether C is not empty.
func (p *product) check() bool {
	if p.m < 0 || p.n < 0 || p.k < 0 {
		panic(fmt.Sprintf("f32: Gemm: negative size m=%d n=%d k=%d", p.m, p.n, p.k))
	}
	if p.m == 0 || p.n == 0 {
		return false
	}
	fits("A", p.ta, p.m, p.k, p.lda, len(p.a))
	fits("B", p.tb, p.k, p.n, p.ldb, len(p.b))
	fits("C", false, p.m, p.n, p.ldc, len(p.c))
	if p.alpha == 0 {
		p.k = 0
	}
	return true
}

func fits(name string, t bool, rows, cols, ld, length int) {
	if t {
		rows, cols = cols, rows
	}
	if ld < max(cols, 1) {
		panic(fmt.Sprintf("f32: Gemm: stride of %s is %d, its rows are %d long", name, ld, cols))
	}
	if rows > 0 && cols > 0 && length < (rows-1)*ld+cols {
		panic(fmt.Sprintf("f32: Gemm: %s has %d elements, %d×%d with stride %d needs %d", name, length, rows, cols, ld, (rows-1)*ld+cols))
	}
}

// work is the number of multiply-adds asked for.
func (p *product) work() int { return p.m * p.n * p.k }

// flipped is the same product turned on its side: Cᵀ = op(B)ᵀ·op(A)ᵀ.
func (p *product) flipped() product {
	f := *p
	f.ta, f.tb, f.m, f.n = !p.tb, !p.ta, p.n, p.m
	f.a, f.lda, f.b, f.ldb = p.b, p.ldb, p.a, p.lda
	f.flip = !p.flip
	return f
}

// choose picks a kernel and the side C lies on. The bits are the same.
func (p *product) choose() {
	kernels := usable()
	if p.pairs {
		kernels = firstUsable(pairFamilies)
	}
	p.kr = kernels[0]
	least := p.cost(p.m, p.n)
	for i, kr := range kernels {
		q := *p
		q.kr = kr
		f := q.flipped()
		for _, x := range [2]*product{&q, &f} {
			// What was there first goes on unless there is clearly less to do.
			if c := x.cost(x.m, x.n); (i > 0 || x.flip) && 100*c < 97*least {
				*p, least = *x, c
			}
		}
	}
}

// cost estimates the time of m×n elements of the product, in multiply-adds of
// the kernel: tiles are of full width, and moving an element is worth some.
func (p *product) cost(m, n int) int {
	const columns, copied, transposed, stored = 16, 4, 10, 60
	x := m * roundUp(n, p.kr.cols) * p.k
	switch {
	case p.ta:
		x += columns * m * p.k
	case !p.inPlaceA():
		x += transposed * m * p.k
	}
	if p.tb {
		x += transposed * n * p.k
	} else {
		x += copied * n * p.k
	}
	if p.flip {
		x += stored * m * n
	}
	return x
}

func roundUp(x, to int) int { return (x + to - 1) / to * to }
