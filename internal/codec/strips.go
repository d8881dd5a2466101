package codec

// Steps of cosine transforms, on blocks of s of the n rows of a strip of eight columns.
// In the space rows are eight numbers apart, in a matrix stride.

// folds sets rows of dst: sums of the mirrored rows of a block of src, then differences
// times mul.
func folds(dst, src []float64, stride, n, s int, mul []float64) {
	if !foldsAVX512(dst, src, stride, n, s, mul) && !foldsAVX2(dst, src, stride, n, s, mul) {
		foldsGo(dst, src, stride, n, s, mul)
	}
}

func foldsGo(dst, src []float64, stride, n, s int, mul []float64) {
	for at := 0; at < n; at += s {
		for i := range s / 2 {
			x, y := row(src, (at+i)*stride), row(src, (at+s-1-i)*stride)
			sum, diff := row(dst, (at+i)*stripCols), row(dst, (at+s/2+i)*stripCols)
			for j, v := range x {
				sum[j], diff[j] = v+y[j], (v-y[j])*mul[i]
			}
		}
	}
}

// unfolds is the transpose of folds.
func unfolds(dst []float64, stride int, src []float64, n, s int, mul []float64) {
	if !unfoldsAVX512(dst, stride, src, n, s, mul) && !unfoldsAVX2(dst, stride, src, n, s, mul) {
		unfoldsGo(dst, stride, src, n, s, mul)
	}
}

func unfoldsGo(dst []float64, stride int, src []float64, n, s int, mul []float64) {
	for at := 0; at < n; at += s {
		for i := range s / 2 {
			x, y := row(dst, (at+i)*stride), row(dst, (at+s-1-i)*stride)
			sum, diff := row(src, (at+i)*stripCols), row(src, (at+s/2+i)*stripCols)
			for j, v := range sum {
				d := float64(diff[j] * mul[i])
				x[j], y[j] = v+d, v-d
			}
		}
	}
}

// weaves takes even rows of a block from its first half, odd ones from sums of
// neighbours in its second, all times scale.
func weaves(dst []float64, stride int, src []float64, n, s int, scale float64) {
	if !weavesAVX512(dst, stride, src, n, s, scale) && !weavesAVX2(dst, stride, src, n, s, scale) {
		weavesGo(dst, stride, src, n, s, scale)
	}
}

func weavesGo(dst []float64, stride int, src []float64, n, s int, scale float64) {
	for at := 0; at < n; at += s {
		for i := range s / 2 {
			even, odd := row(dst, (at+2*i)*stride), row(dst, (at+2*i+1)*stride)
			a, b := row(src, (at+i)*stripCols), *row(src, (at+s/2+i)*stripCols)
			if 2*i+2 < s {
				for j, v := range row(src, (at+s/2+i+1)*stripCols) {
					b[j] += v
				}
			}
			for j, v := range a {
				even[j], odd[j] = v*scale, b[j]*scale
			}
		}
	}
}

// unweaves is the transpose of weaves.
func unweaves(dst, src []float64, stride, n, s int, scale float64) {
	if !unweavesAVX512(dst, src, stride, n, s, scale) && !unweavesAVX2(dst, src, stride, n, s, scale) {
		unweavesGo(dst, src, stride, n, s, scale)
	}
}

func unweavesGo(dst, src []float64, stride, n, s int, scale float64) {
	for at := 0; at < n; at += s {
		var before [stripCols]float64
		for i := range s / 2 {
			even, odd := row(src, (at+2*i)*stride), row(src, (at+2*i+1)*stride)
			a, b := row(dst, (at+i)*stripCols), row(dst, (at+s/2+i)*stripCols)
			for j, v := range even {
				w := float64(odd[j] * scale)
				if a[j], b[j] = v*scale, w; i > 0 {
					b[j] += before[j]
				}
				before[j] = w
			}
		}
	}
}

// Three steps at once, on all n rows of a strip, where there is a kernel for it: they
// report whether it did so. The multipliers of the eight rows of a matrix that are folded
// into row j of the eighths in the space are in mul from 7·j on: four of the first fold, two
// of the next, and one.

// folds3 is three folds, of n rows, of halves and of quarters.
func folds3(dst, src []float64, stride, n int, mul []float64) bool {
	return folds3AVX512(dst, src, stride, n, mul) || folds3AVX2(dst, src, stride, n, mul)
}

// unfolds3 is the transpose of folds3.
func unfolds3(dst []float64, stride int, src []float64, n int, mul []float64) bool {
	return unfolds3AVX512(dst, stride, src, n, mul) || unfolds3AVX2(dst, stride, src, n, mul)
}

// weaves3 is three weaves, of quarters, of halves and of n rows, the last times scale.
func weaves3(dst []float64, stride int, src []float64, n int, scale float64) bool {
	return weaves3AVX512(dst, stride, src, n, scale) || weaves3AVX2(dst, stride, src, n, scale)
}

// unweaves3 is the transpose of weaves3.
func unweaves3(dst, src []float64, stride, n int, scale float64) bool {
	return unweaves3AVX512(dst, src, stride, n, scale) || unweaves3AVX2(dst, src, stride, n, scale)
}

// eights transforms blocks of eight rows. The multipliers of eight rows are the first
// four, then come those of four and of two.
func eights(x []float64, stride, n int, mul *[7]float64) {
	if !eightsAVX512(x, stride, n, mul) && !eightsAVX2(x, stride, n, mul) {
		eightsGo(x, stride, n, mul)
	}
}

func eightsGo(x []float64, stride, n int, mul *[7]float64) {
	inEights(x, stride, n, func(col []float64) { fold8(col, mul) })
}

// eightsBack is the transpose of eights.
func eightsBack(x []float64, stride, n int, mul *[7]float64) {
	if !eightsBackAVX512(x, stride, n, mul) && !eightsBackAVX2(x, stride, n, mul) {
		eightsBackGo(x, stride, n, mul)
	}
}

func eightsBackGo(x []float64, stride, n int, mul *[7]float64) {
	inEights(x, stride, n, func(col []float64) { unfold8(col, mul) })
}

// inEights runs fn on every column of blocks of eight rows.
func inEights(x []float64, stride, n int, fn func(col []float64)) {
	var col [8]float64
	for at := 0; at < n; at += 8 {
		for j := range stripCols {
			for i := range col {
				col[i] = x[(at+i)*stride+j]
			}
			fn(col[:])
			for i, v := range col {
				x[(at+i)*stride+j] = v
			}
		}
	}
}

// fold8 transforms eight numbers, fewer inside it.
func fold8(x []float64, mul *[7]float64) {
	n := len(x)
	if n == 1 {
		x[0] += 0 // −0 becomes 0
		return
	}
	var both [8]float64
	a, b := both[:n/2], both[4:][:n/2]
	for i := range a {
		a[i], b[i] = x[i]+x[n-1-i], (x[i]-x[n-1-i])*mul[8-n+i]
	}
	fold8(a, mul)
	fold8(b, mul)
	for i, v := range a {
		x[2*i], x[2*i+1] = v, b[i]
		if i+1 < len(b) {
			x[2*i+1] += b[i+1]
		}
	}
}

// unfold8 is the transpose of fold8.
func unfold8(x []float64, mul *[7]float64) {
	n := len(x)
	if n == 1 {
		x[0] += 0
		return
	}
	var both [8]float64
	a, b := both[:n/2], both[4:][:n/2]
	for i := range a {
		a[i], b[i] = x[2*i], x[2*i+1]
		if i > 0 {
			b[i] += x[2*i-1]
		}
	}
	unfold8(a, mul)
	unfold8(b, mul)
	for i, v := range a {
		d := float64(b[i] * mul[8-n+i])
		x[i], x[n-1-i] = v+d, v-d
	}
}

// Transpose sets dst, w×h, to the transpose of src, h×w. It panics unless the lengths
// agree.
func Transpose(dst, src []float64, h, w int) {
	same("Transpose", len(src), h*w)
	same("Transpose", len(dst), h*w)
	if (h|w)%4 != 0 || len(src) == 0 || !transposeAVX2(dst, src, h, w) {
		transposeGo(dst, src, h, w)
	}
}

func transposeGo(dst, src []float64, h, w int) {
	for i := range h {
		for j, v := range src[i*w:][:w] {
			dst[j*h+i] = v
		}
	}
}

// Widen sets dst to src. It panics unless they have one length.
func Widen(dst []float64, src []float32) {
	same("Widen", len(src), len(dst))
	n := widenAVX2(dst, src)
	widenGo(dst[n:], src[n:])
}

func widenGo(dst []float64, src []float32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = float64(v)
	}
}

// Narrow sets dst to src, rounded. It panics unless they have one length.
func Narrow(dst []float32, src []float64) {
	same("Narrow", len(src), len(dst))
	n := narrowAVX2(dst, src)
	narrowGo(dst[n:], src[n:])
}

func narrowGo(dst []float32, src []float64) {
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] = float32(v)
	}
}
