package f32

import "math"

// SwiGLU multiplies by a gate, the sigmoid linear unit (Shazeer 2020, "GLU Variants
// Improve Transformer", equation 6):
//
//	for i: y[i] = a[i]·σ(a[i])·b[i],  σ(x) = 1/(1+e^−x)
//
// σ is 0 below −86.99; elsewhere y[i] is off by at most 5·2⁻²⁴ of itself. It panics unless
// the lengths agree.
func SwiGLU(y, a, b []float32) {
	same("SwiGLU", len(a), len(y))
	same("SwiGLU", len(b), len(y))
	n := swiGLUAVX512(y, a, b)
	n += swiGLUAVX2(y[n:], a[n:], b[n:])
	swiGLUGo(y[n:], a[n:], b[n:])
}

func swiGLUGo(y, a, b []float32) {
	y, b = y[:len(a)], b[:len(a)]
	for i, v := range a {
		s, _ := sigmoid(v)
		y[i] = v * s * b[i]
	}
}

// SwiGLUGrad takes the gradient dy back through SwiGLU:
//
//	for i: da[i] = dy[i]·b[i]·(σ(a[i]) + a[i]·σ(a[i])·σ(−a[i]))
//	       db[i] = dy[i]·a[i]·σ(a[i])
//
// Each is off by at most 6·2⁻²⁴ of the sum of its terms' sizes. da and db may each be any of
// the others, but not one and the same. It panics unless the lengths agree.
func SwiGLUGrad(da, db, dy, a, b []float32) {
	for _, x := range [][]float32{da, db, a, b} {
		same("SwiGLUGrad", len(x), len(dy))
	}
	n := swiGLUGradAVX512(da, db, dy, a, b)
	n += swiGLUGradAVX2(da[n:], db[n:], dy[n:], a[n:], b[n:])
	swiGLUGradGo(da[n:], db[n:], dy[n:], a[n:], b[n:])
}

func swiGLUGradGo(da, db, dy, a, b []float32) {
	da, db, a, b = da[:len(dy)], db[:len(dy)], a[:len(dy)], b[:len(dy)]
	for i, d := range dy {
		s, rest := sigmoid(a[i])
		silu := a[i] * s
		da[i], db[i] = d*b[i]*(s+float32(silu*rest)), d*silu
	}
}

// sigmoid returns σ(x) and σ(−x).
func sigmoid(x float32) (s, rest float32) {
	up, down := sigmoids(x)
	if math.Float32bits(x)>>31 == 1 {
		return down, up
	}
	return up, down
}

// sigmoids returns σ(|x|) and σ(−|x|).
func sigmoids(x float32) (up, down float32) {
	e := Exp(math.Float32frombits(math.Float32bits(x) | 1<<31))
	up = 1 / (1 + e)
	return up, e * up
}
