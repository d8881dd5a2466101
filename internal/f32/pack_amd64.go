//go:build !noasm

package f32

// transpose writes dst[p*ldd+i] = src[i*lds+p] for i < rows (at most 8) and p
// up to the multiple of 8 it returns. It may write eight values from each
// dst[p*ldd] on, later p last.
func transpose(dst []float32, ldd int, src []float32, lds, rows, k int) int {
	k &^= 7
	if k == 0 || !fused {
		return 0
	}
	_, _ = dst[(k-1)*ldd+7], src[(rows-1)*lds+k-1]
	transpose8(&dst[0], ldd, &src[0], lds, rows, k/8)
	return k
}

// copyRuns copies n runs of width elements, lds apart in src, ldd apart in dst.
// The run ahead elements further will be wanted soon; it need not exist.
func copyRuns(width int, dst []float32, ldd int, src []float32, lds, n, ahead int) {
	if !fused {
		copyRunsGo(width, dst, ldd, src, lds, n)
		return
	}
	_, _ = dst[(n-1)*ldd+width-1], src[(n-1)*lds+width-1]
	switch width {
	case 4:
		copy4(&dst[0], ldd, &src[0], lds, n, ahead)
	case 6:
		copy6(&dst[0], ldd, &src[0], lds, n, ahead)
	case 8:
		copy8(&dst[0], ldd, &src[0], lds, n, ahead)
	case 10:
		copy10(&dst[0], ldd, &src[0], lds, n, ahead)
	case 12:
		copy12(&dst[0], ldd, &src[0], lds, n, ahead)
	case 16:
		copy16(&dst[0], ldd, &src[0], lds, n, ahead)
	default:
		copyRunsGo(width, dst, ldd, src, lds, n)
	}
}

// pairsAlong is pairsAlongGo.
func pairsAlong(dst, x []float32) {
	if n := len(x) &^ 1; hasPairs && n > 0 {
		_ = dst[n/2-1]
		pairsAlongBF16(&dst[0], &x[0], n)
		dst, x = dst[n/2:], x[n:]
	}
	pairsAlongGo(dst, x)
}

// pairsAcross is pairsAcrossGo.
func pairsAcross(dst, first, second []float32) {
	if n := len(dst); hasPairs && n > 0 {
		_, _ = first[n-1], second[n-1]
		pairsAcrossBF16(&dst[0], &first[0], &second[0], n)
		return
	}
	pairsAcrossGo(dst, first, second)
}

// halvesAlong is halvesAlongGo.
func halvesAlong(dst []float32, b []byte) {
	if n := len(b) / 4; hasPairs && n > 0 {
		_ = dst[n-1]
		halvesAlongBF16(&dst[0], &b[0], n)
		dst, b = dst[n:], b[4*n:]
	}
	halvesAlongGo(dst, b)
}

// halvesAcross is halvesAcrossGo.
func halvesAcross(dst []float32, first, second []byte) {
	if n := len(dst); hasPairs && n > 0 {
		_, _ = first[2*n-1], second[2*n-1]
		halvesAcrossBF16(&dst[0], &first[0], &second[0], n)
		return
	}
	halvesAcrossGo(dst, first, second)
}
