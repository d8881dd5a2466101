package codec

// Products of a matrix M, rows×cols, with factors of few columns r. P is rows×r,
// row by row; Qᵀ is r×cols, row by row. Every product is rounded to float32 before
// it is added, so the bits are the same on every machine.

// LeftFactor sets P = M·Q. An inner product is taken over eight interleaved partial
// sums, added up as
//
//	((s[0]+s[4])+(s[2]+s[6])) + ((s[1]+s[5])+(s[3]+s[7]))
//
// It panics unless the lengths agree.
func LeftFactor(p, m, qt []float32, rows, cols, r int) {
	checkFactors("LeftFactor", p, m, qt, rows, cols, r)
	for i := 0; i < rows; i += 2 {
		row, next := twoRows(m, i, rows, cols)
		for c := 0; c < r; c += 4 {
			var s [64]float32
			columns := min(4, r-c)
			dots(&s, row, next, qt[c*cols:], cols, columns)
			for k := range columns {
				p[i*r+c+k] = total32(s[8*k:])
				if i+1 < rows {
					p[(i+1)*r+c+k] = total32(s[32+8*k:])
				}
			}
		}
	}
}

// twoRows is row i of m and the next, or itself again if it is the last.
func twoRows(m []float32, i, rows, cols int) (row, next []float32) {
	j := min(i+1, rows-1)
	return m[i*cols : (i+1)*cols], m[j*cols : (j+1)*cols]
}

func total32(s []float32) float32 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// RightFactor sets Qᵀ = Pᵀ·M, the rows of M one after the other. It panics unless
// the lengths agree.
func RightFactor(qt, p, m []float32, rows, cols, r int) {
	checkFactors("RightFactor", p, m, qt, rows, cols, r)
	clear(qt)
	for i := 0; i < rows; i += 2 {
		row, next := twoRows(m, i, rows, cols)
		for c := 0; c < r; c += 4 {
			var a [8]float32 // of a row that is not there, 0
			columns := min(4, r-c)
			for k := range columns {
				a[k] = p[i*r+c+k]
				if i+1 < rows {
					a[4+k] = p[(i+1)*r+c+k]
				}
			}
			spread(qt[c*cols:], cols, row, next, &a, columns)
		}
	}
}

// AddFactors adds scale·P·Qᵀ to M, for four columns of the factors after the other
// four. It panics unless the lengths agree.
func AddFactors(m []float32, scale float32, p, qt []float32, rows, cols, r int) {
	checkFactors("AddFactors", p, m, qt, rows, cols, r)
	for i := range rows {
		row := m[i*cols : (i+1)*cols]
		for c := 0; c < r; c += 4 {
			var a [4]float32
			columns := copy(a[:], p[i*r+c:(i+1)*r])
			combine(row, scale, qt[c*cols:], cols, &a, columns)
		}
	}
}

func checkFactors(op string, p, m, qt []float32, rows, cols, r int) {
	same(op, len(p), rows*r)
	same(op, len(m), rows*cols)
	same(op, len(qt), cols*r)
}

// dots adds products of two rows with so many rows of q, stride elements apart, to
// eight partial sums each.
func dots(s *[64]float32, m, m2, q []float32, stride, columns int) {
	n := 0
	switch columns {
	case 1:
		n = dots1AVX2(s, m, m2, q, stride)
	case 2:
		n = dots2AVX2(s, m, m2, q, stride)
	case 3:
		n = dots3AVX2(s, m, m2, q, stride)
	case 4:
		n = dots4AVX2(s, m, m2, q, stride)
	}
	dotsGo(s, m[n:], m2[n:], q[n:], stride, columns)
}

// dotsGo starts at a multiple of eight.
func dotsGo(s *[64]float32, m, m2, q []float32, stride, columns int) {
	for c := range columns {
		for j, v := range m {
			s[8*c+j%8] += float32(v * q[c*stride+j])
			s[32+8*c+j%8] += float32(m2[j] * q[c*stride+j])
		}
	}
}

// spread adds two rows, times a[c] and a[4+c], to row c of q.
func spread(q []float32, stride int, m, m2 []float32, a *[8]float32, columns int) {
	n := 0
	switch columns {
	case 1:
		n = spread1AVX2(q, stride, m, m2, a)
	case 2:
		n = spread2AVX2(q, stride, m, m2, a)
	case 3:
		n = spread3AVX2(q, stride, m, m2, a)
	case 4:
		n = spread4AVX2(q, stride, m, m2, a)
	}
	spreadGo(q[n:], stride, m[n:], m2[n:], a, columns)
}

func spreadGo(q []float32, stride int, m, m2 []float32, a *[8]float32, columns int) {
	for c := range columns {
		for j, v := range m {
			sum := q[c*stride+j] + float32(v*a[c])
			q[c*stride+j] = sum + float32(m2[j]*a[4+c])
		}
	}
}

// combine adds scale times the sum of a[c] times row c of q.
func combine(dst []float32, scale float32, q []float32, stride int, a *[4]float32, columns int) {
	n := 0
	switch columns {
	case 1:
		n = combine1AVX2(dst, scale, q, stride, a)
	case 2:
		n = combine2AVX2(dst, scale, q, stride, a)
	case 3:
		n = combine3AVX2(dst, scale, q, stride, a)
	case 4:
		n = combine4AVX2(dst, scale, q, stride, a)
	}
	combineGo(dst[n:], scale, q[n:], stride, a, columns)
}

func combineGo(dst []float32, scale float32, q []float32, stride int, a *[4]float32, columns int) {
	for j := range dst {
		sum := float32(a[0] * q[j])
		for c := 1; c < columns; c++ {
			sum += float32(a[c] * q[c*stride+j])
		}
		dst[j] += float32(scale * sum)
	}
}
