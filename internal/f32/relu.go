package f32

import "math"

// The rectifier, without branches: signs are a coin toss to the predictor. A
// NaN stays the NaN it is, so that a net that has diverged shows it; −0 becomes
// 0.

// rectify is v where v > 0 or NaN, else 0.
func rectify(v float32) float32 {
	b := math.Float32bits(v)
	if v <= 0 {
		b = 0
	}
	return math.Float32frombits(b)
}

// passed is d where y ≠ 0 (or NaN), else 0.
func passed(d, y float32) float32 {
	b := math.Float32bits(y) << 1 // without the sign
	return math.Float32frombits(math.Float32bits(d) & uint32(int32(b|-b)>>31))
}

// ReLU rectifies:
//
//	for i: dst[i] = max(x[i], 0)
//
// It panics unless len(x) == len(dst).
func ReLU(dst, x []float32) {
	same("ReLU", len(x), len(dst))
	n := reluAVX2(dst, x)
	reluGo(dst[n:], x[n:])
}

func reluGo(dst, x []float32) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = rectify(v)
	}
}

// AddReLU adds and rectifies:
//
//	for i: dst[i] = max(a[i] + b[i], 0)
//
// It panics unless the lengths agree.
func AddReLU(dst, a, b []float32) {
	same("AddReLU", len(a), len(dst))
	same("AddReLU", len(b), len(dst))
	n := addReLUAVX2(dst, a, b)
	addReLUGo(dst[n:], a[n:], b[n:])
}

func addReLUGo(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = rectify(v + b[i])
	}
}

// ReLUGrad takes a gradient back through a rectifier whose output was y:
//
//	for i: dx[i] = dy[i] if y[i] ≠ 0, else 0
//
// It panics unless the lengths agree.
func ReLUGrad(dx, dy, y []float32) {
	same("ReLUGrad", len(dy), len(dx))
	same("ReLUGrad", len(y), len(dx))
	n := reluGradAVX2(dx, dy, y)
	reluGradGo(dx[n:], dy[n:], y[n:])
}

func reluGradGo(dx, dy, y []float32) {
	dy, y = dy[:len(dx)], y[:len(dx)]
	for i, d := range dy {
		dx[i] = passed(d, y[i])
	}
}
