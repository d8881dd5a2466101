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
