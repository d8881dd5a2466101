package nn

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/gradlab/gradlab/internal/f32"
)

// gemm computes C = op(A)·op(B) + beta·C, row major; op(A) is m×k, op(B) k×n.
// With alone it keeps to the calling goroutine; the bits are the same. float32
// goes through f32.Gemm, float64 (tests) through gonum.
func gemm[T Float](alone, ta, tb bool, m, n, k int, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	switch a := any(a).(type) {
	case []float32:
		b, c, beta := any(b).([]float32), any(c).([]float32), float32(beta)
		if alone {
			f32.GemmSerial(ta, tb, m, n, k, 1, a, lda, b, ldb, beta, c, ldc)
		} else {
			f32.Gemm(ta, tb, m, n, k, 1, a, lda, b, ldb, beta, c, ldc)
		}
	case []float64:
		gonum.Implementation{}.Dgemm(transpose(ta), transpose(tb), m, n, k, 1, a, lda, any(b).([]float64), ldb, float64(beta), any(c).([]float64), ldc)
	}
}

func transpose(t bool) blas.Transpose {
	if t {
		return blas.Trans
	}
	return blas.NoTrans
}

// addTo adds src to dst element by element.
func addTo[T Float](dst, src []T) {
	if d, ok := any(dst).([]float32); ok {
		f32.Add(d, any(src).([]float32)[:len(d)])
		return
	}
	for i, v := range src[:len(dst)] {
		dst[i] += v
	}
}

// fill sets all of dst to v.
func fill[T Float](dst []T, v T) {
	for i := range dst {
		dst[i] = v
	}
}

// sum adds up v in four interleaved lanes, in float64.
func sum[T Float](v []T) float64 {
	var a, b, c, d float64
	for len(v) >= 4 {
		a += float64(v[0])
		b += float64(v[1])
		c += float64(v[2])
		d += float64(v[3])
		v = v[4:]
	}
	for _, x := range v {
		a += float64(x)
	}
	return (a + b) + (c + d)
}

// grow returns *buf with length n, allocating only when it is too short. The
// contents are unspecified.
func grow[E any](buf *[]E, n int) []E {
	if cap(*buf) < n {
		*buf = make([]E, n)
	}
	*buf = (*buf)[:n]
	return *buf
}
