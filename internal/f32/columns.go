package f32

import "fmt"

// Kernels over the rows of a matrix with one parameter or one sum a column:
// biases, and batch norms over images with the channels last. A matrix is a
// flat slice, row after row; its width is the number of parameters.
//
// Sums run in float64, row by row,
//
//	for each row: sum[c] += float64(term)
//
// and add to what is there. The square of a float32 and the product of two are
// exact in float64, so a sum over n rows is good to n·2⁻⁵³ of the sum of
// magnitudes: float32 accuracy for any batch, and for variances as Σx²/n − μ²
// as long as |μ| is below ten thousand σ. A matrix taken in pieces, first rows
// first, gives the bits it gives as a whole.
//
// Kernels take the columns up to the last whole group of eight, the Go
// twins the columns from lo on.

// rowsOf is the number of rows of x at the given width. Anything else than
// whole rows is the caller's error.
func rowsOf(op string, x []float32, cols int) int {
	if cols == 0 && len(x) == 0 {
		return 0
	}
	if cols == 0 || len(x)%cols != 0 {
		panic(fmt.Sprintf("f32: %s: %d values are no rows of %d", op, len(x), cols))
	}
	return len(x) / cols
}

// BiasReLU adds a row to every row of x in place, and rectifies if relu is set:
//
//	for r, c: x[r,c] += bias[c]; if relu: x[r,c] = max(x[r,c], 0)
//
// x is rows × len(bias). It panics unless x is whole rows.
func BiasReLU(x, bias []float32, relu bool) {
	rows := rowsOf("BiasReLU", x, len(bias))
	n := biasReLUAVX2(rows, len(bias), x, bias, relu)
	biasReLUGo(n, x, bias, relu)
}

func biasReLUGo(lo int, x, bias []float32, relu bool) {
	cols := len(bias)
	for at := lo; at < len(x) && lo < cols; at += cols {
		row := x[at : at+cols-lo]
		for j, b := range bias[lo:] {
			v := row[j] + b
			if relu {
				v = rectify(v)
			}
			row[j] = v
		}
	}
}

// ScaleShift is the forward pass of a batch norm, with a shortcut and a
// rectifier behind it as wanted:
//
//	for r, c: v = scale[c]*x[r,c] + shift[c]
//	          if plus: v += plus[r,c]
//	          if relu: v = max(v, 0)
//	          y[r,c] = v
//
// x and y are rows × len(scale), as is plus unless it is nil. y may be x or
// plus. It panics unless the lengths agree.
func ScaleShift(y, x, scale, shift, plus []float32, relu bool) {
	rows := rowsOf("ScaleShift", x, len(scale))
	same("ScaleShift", len(y), len(x))
	same("ScaleShift", len(shift), len(scale))
	if plus != nil {
		same("ScaleShift", len(plus), len(x))
	}
	n := scaleShiftAVX2(rows, len(scale), y, x, scale, shift, plus, relu)
	scaleShiftGo(n, y, x, scale, shift, plus, relu)
}

func scaleShiftGo(lo int, y, x, scale, shift, plus []float32, relu bool) {
	cols := len(scale)
	for at := lo; at < len(x) && lo < cols; at += cols {
		from, to := x[at:at+cols-lo], y[at:at+cols-lo]
		b := shift[lo:]
		for j, a := range scale[lo:] {
			v := float32(a*from[j]) + b[j]
			if plus != nil {
				v += plus[at+j]
			}
			if relu {
				v = rectify(v)
			}
			to[j] = v
		}
	}
}

// NormGrad is the last step of a batch norm's backward pass:
//
//	for r, c: dx[r,c] = (k[c]*dy[r,c] + p[c]*x[r,c]) + q[c]
//
// dx, dy and x are rows × len(k). dx may be dy or x. It panics unless the
// lengths agree.
func NormGrad(dx, dy, x, k, p, q []float32) {
	rows := rowsOf("NormGrad", x, len(k))
	same("NormGrad", len(dx), len(x))
	same("NormGrad", len(dy), len(x))
	same("NormGrad", len(p), len(k))
	same("NormGrad", len(q), len(k))
	n := normGradAVX2(rows, len(k), dx, dy, x, k, p, q)
	normGradGo(n, dx, dy, x, k, p, q)
}

func normGradGo(lo int, dx, dy, x, k, p, q []float32) {
	cols := len(k)
	for at := lo; at < len(x) && lo < cols; at += cols {
		from, d, to := x[at:at+cols-lo], dy[at:at+cols-lo], dx[at:at+cols-lo]
		p, q := p[lo:], q[lo:]
		for j, k := range k[lo:] {
			to[j] = float32(float32(k*d[j])+float32(p[j]*from[j])) + q[j]
		}
	}
}

// ColSums adds up columns:
//
//	for r, c: sum[c] += x[r,c]
//
// x is rows × len(sum). It panics unless x is whole rows.
func ColSums(sum []float64, x []float32) {
	rows := rowsOf("ColSums", x, len(sum))
	n := colSumsAVX2(rows, len(sum), sum, x)
	colSumsGo(n, sum, x)
}

func colSumsGo(lo int, sum []float64, x []float32) {
	cols := len(sum)
	for at := lo; at < len(x) && lo < cols; at += cols {
		for j, v := range x[at : at+cols-lo] {
			sum[lo+j] += float64(v)
		}
	}
}

// ReLUGradColSums is ReLUGrad in place and ColSums of the result, the gradient
// of a bias below a rectifier:
//
//	for r, c: dy[r,c] = dy[r,c] if y[r,c] ≠ 0, else 0; sum[c] += dy[r,c]
//
// dy and y are rows × len(sum). It panics unless the lengths agree.
func ReLUGradColSums(sum []float64, dy, y []float32) {
	rows := rowsOf("ReLUGradColSums", dy, len(sum))
	same("ReLUGradColSums", len(y), len(dy))
	n := reluGradColSumsAVX2(rows, len(sum), sum, dy, y)
	reluGradColSumsGo(n, sum, dy, y)
}

func reluGradColSumsGo(lo int, sum []float64, dy, y []float32) {
	cols := len(sum)
	for at := lo; at < len(dy) && lo < cols; at += cols {
		d, y := dy[at:at+cols-lo], y[at:at+cols-lo]
		for j, v := range d {
			v = passed(v, y[j])
			d[j] = v
			sum[lo+j] += float64(v)
		}
	}
}

// Moments adds up columns and their squares:
//
//	for r, c: sum[c] += x[r,c]; sq[c] += x[r,c]²
//
// x is rows × len(sum). It panics unless the lengths agree.
func Moments(sum, sq []float64, x []float32) {
	rows := rowsOf("Moments", x, len(sum))
	same("Moments", len(sq), len(sum))
	n := momentsAVX2(rows, len(sum), sum, sq, x)
	momentsGo(n, sum, sq, x)
}

func momentsGo(lo int, sum, sq []float64, x []float32) {
	cols := len(sum)
	for at := lo; at < len(x) && lo < cols; at += cols {
		s, t := sum[lo:], sq[lo:]
		for j, v := range x[at : at+cols-lo] {
			s[j] += float64(v)
			t[j] += float64(float64(v) * float64(v))
		}
	}
}

// NormGradSums is the first step of a batch norm's backward pass. Unless y is
// nil, it begins with the rectifier behind the norm, whose output y was, as
// ReLUGrad does, in place:
//
//	for r, c: if y: dy[r,c] = dy[r,c] if y[r,c] ≠ 0, else 0
//	          sdy[c] += dy[r,c]; sdyx[c] += dy[r,c]*x[r,c]
//
// dy and x are rows × len(sdy), as is y unless it is nil. It panics unless the
// lengths agree.
func NormGradSums(sdy, sdyx []float64, dy, x, y []float32) {
	rows := rowsOf("NormGradSums", dy, len(sdy))
	same("NormGradSums", len(sdyx), len(sdy))
	same("NormGradSums", len(x), len(dy))
	if y != nil {
		same("NormGradSums", len(y), len(dy))
	}
	n := normGradSumsAVX2(rows, len(sdy), sdy, sdyx, dy, x, y)
	normGradSumsGo(n, sdy, sdyx, dy, x, y)
}

func normGradSumsGo(lo int, sdy, sdyx []float64, dy, x, y []float32) {
	cols := len(sdy)
	for at := lo; at < len(dy) && lo < cols; at += cols {
		d, x := dy[at:at+cols-lo], x[at:at+cols-lo]
		s, t := sdy[lo:], sdyx[lo:]
		for j, v := range d {
			if y != nil {
				v = passed(v, y[at+j])
				d[j] = v
			}
			s[j] += float64(v)
			t[j] += float64(float64(v) * float64(x[j]))
		}
	}
}
