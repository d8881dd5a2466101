package f32

// Packing: panels are dense, element p of all vectors before element p+1, so
// that kernels read them from first to last.

// packRows packs vectors that lie along rows, transposing: dst[p*width+i] =
// src[i*ld+p] for i < n, p < k. What lies between n and width is arbitrary, and
// up to 8 elements beyond the panel are overwritten if width is no multiple
// of 8.
func packRows(dst []float32, width int, src []float32, ld, n, k int) {
	done := 0
	// The last strip first: it may write over the beginning of the next row.
	for i := (n - 1) &^ 7; i >= 0; i -= 8 {
		done = transpose(dst[i:], width, src[i*ld:], ld, min(8, n-i), k)
	}
	for p := done; p < k; p++ {
		for i := range n {
			dst[p*width+i] = src[i*ld+p]
		}
	}
}

// packTiles packs the columns from i on that r is cut into, each tile after the
// other: element p of a tile of h columns is dst[p*h:], from src[p*ld+i:]. It
// goes a few p at a time across all tiles, because one tile alone would fetch
// whole cache lines for a part of each.
func (r *rows) packTiles(dst, src []float32, ld, i, k int) {
	const few = 16
	for p := 0; p < k; p += few {
		dst, from := dst, src[p*ld+i:]
		n := min(few, k-p)
		for _, c := range r.cut {
			for range c.tiles {
				copyRuns(c.height, dst[p*c.height:], c.height, from, ld, n, few*ld)
				dst, from = dst[c.height*k:], from[min(c.height, len(from)):]
			}
		}
	}
}

// packPanels packs n columns, a multiple of width, a row over all panels at a
// time: for strides that let the lines of a column displace each other.
func packPanels(dst []float32, width int, src []float32, ld, n, k int) {
	if n == 0 {
		return
	}
	for p := range k {
		for v := 0; v < width; v += 16 {
			copyRuns(16, dst[p*width+v:], k*width, src[p*ld+v:], width, n/width, ld)
		}
	}
}

// copyRunsGo is copyRuns in plain Go.
func copyRunsGo(width int, dst []float32, ldd int, src []float32, lds, n int) {
	for i := range n {
		copy(dst[i*ldd:][:width], src[i*lds:][:width])
	}
}

// Transpose writes the transpose of a rows×cols matrix.
func Transpose(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	i := 0
	for ; i+8 <= rows; i += 8 {
		packRows(dst[i:], ldd, src[i*lds:], lds, 8, cols)
	}
	for ; i < rows; i++ {
		for p, v := range src[i*lds:][:cols] {
			dst[p*ldd+i] = v
		}
	}
}

// transpose writes dst[p*ldd+i] = src[i*lds+p] for i < rows (at most 8) and p
// up to the multiple of 8 it returns, 0 where there is no kernel for it. It may write
// eight values from each dst[p*ldd] on, later p last.
func transpose(dst []float32, ldd int, src []float32, lds, rows, k int) int {
	k &^= 7
	if k == 0 {
		return 0
	}
	_, _ = dst[(k-1)*ldd+7], src[(rows-1)*lds+k-1]
	if !transpose8(&dst[0], ldd, &src[0], lds, rows, k/8) {
		return 0
	}
	return k
}

// copyRuns copies n runs of width elements, lds apart in src, ldd apart in dst.
// The run ahead elements further will be wanted soon; it need not exist.
func copyRuns(width int, dst []float32, ldd int, src []float32, lds, n, ahead int) {
	_, _ = dst[(n-1)*ldd+width-1], src[(n-1)*lds+width-1]
	done := false
	switch width {
	case 4:
		done = copy4(&dst[0], ldd, &src[0], lds, n, ahead)
	case 6:
		done = copy6(&dst[0], ldd, &src[0], lds, n, ahead)
	case 8:
		done = copy8(&dst[0], ldd, &src[0], lds, n, ahead)
	case 10:
		done = copy10(&dst[0], ldd, &src[0], lds, n, ahead)
	case 12:
		done = copy12(&dst[0], ldd, &src[0], lds, n, ahead)
	case 16:
		done = copy16(&dst[0], ldd, &src[0], lds, n, ahead)
	}
	if !done {
		copyRunsGo(width, dst, ldd, src, lds, n)
	}
}

// pairsAlong is pairsAlongGo.
func pairsAlong(dst, x []float32) {
	if n := len(x) &^ 1; n > 0 {
		_ = dst[n/2-1]
		if pairsAlongBF16(&dst[0], &x[0], n) {
			dst, x = dst[n/2:], x[n:]
		}
	}
	pairsAlongGo(dst, x)
}

// pairsAcross is pairsAcrossGo.
func pairsAcross(dst, first, second []float32) {
	if n := len(dst); n > 0 {
		_, _ = first[n-1], second[n-1]
		if pairsAcrossBF16(&dst[0], &first[0], &second[0], n) {
			return
		}
	}
	pairsAcrossGo(dst, first, second)
}

// halvesAlong is halvesAlongGo.
func halvesAlong(dst []float32, b []byte) {
	if n := len(b) / 4; n > 0 {
		_ = dst[n-1]
		if halvesAlongBF16(&dst[0], &b[0], n) {
			dst, b = dst[n:], b[4*n:]
		}
	}
	halvesAlongGo(dst, b)
}

// halvesAcross is halvesAcrossGo.
func halvesAcross(dst []float32, first, second []byte) {
	if n := len(dst); n > 0 {
		_, _ = first[2*n-1], second[2*n-1]
		if halvesAcrossBF16(&dst[0], &first[0], &second[0], n) {
			return
		}
	}
	halvesAcrossGo(dst, first, second)
}
