package f32

import (
	"fmt"
	"math"
)

// Element-wise kernels: one pass, one fixed rounding per operation. Products
// are rounded to float32 before they are added (the conversion forbids the
// compiler to fuse), so the bits are the same on every machine. Which of
// several NaNs comes out of arithmetic is left open.
//
// A kernel xxx has a twin xxxGo in plain Go, which is its specification and
// does what assembly does not: all of it where there is none, elsewhere what is
// left behind the last whole group of eight.
//
// Arguments may be one and the same slice, but must not overlap otherwise.

// same panics unless two lengths agree: a mismatch is the caller's error.
func same(op string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("f32: %s: length %d, want %d", op, got, want))
	}
}

// Axpy adds a multiple of one vector to another:
//
//	for i: dst[i] += a * x[i]
//
// It panics unless len(x) == len(dst).
func Axpy(dst []float32, a float32, x []float32) {
	same("Axpy", len(x), len(dst))
	n := axpyAVX2(dst, a, x)
	axpyGo(dst[n:], a, x[n:])
}

func axpyGo(dst []float32, a float32, x []float32) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] += float32(a * v)
	}
}

// AxpyTo writes the sum of a vector and a multiple of another:
//
//	for i: dst[i] = y[i] + a * x[i]
//
// It panics unless the lengths agree.
func AxpyTo(dst, y []float32, a float32, x []float32) {
	same("AxpyTo", len(y), len(dst))
	same("AxpyTo", len(x), len(dst))
	n := axpyToAVX2(dst, y, a, x)
	axpyToGo(dst[n:], y[n:], a, x[n:])
}

func axpyToGo(dst, y []float32, a float32, x []float32) {
	y, dst = y[:len(x)], dst[:len(x)]
	for i, v := range x {
		dst[i] = y[i] + float32(a*v)
	}
}

// Add adds one vector to another:
//
//	for i: dst[i] += x[i]
//
// It panics unless len(x) == len(dst).
func Add(dst, x []float32) {
	same("Add", len(x), len(dst))
	n := addAVX2(dst, x)
	addGo(dst[n:], x[n:])
}

func addGo(dst, x []float32) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] += v
	}
}

// Sub subtracts one vector from another:
//
//	for i: dst[i] -= x[i]
//
// It panics unless len(x) == len(dst).
func Sub(dst, x []float32) {
	same("Sub", len(x), len(dst))
	n := subAVX2(dst, x)
	subGo(dst[n:], x[n:])
}

func subGo(dst, x []float32) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] -= v
	}
}

// Scale multiplies a vector by a number in place:
//
//	for i: x[i] *= a
func Scale(x []float32, a float32) {
	n := scaleAVX2(x, a)
	scaleGo(x[n:], a)
}

func scaleGo(x []float32, a float32) {
	for i := range x {
		x[i] *= a
	}
}

// Clamp bounds every magnitude by limit, which must not be negative. A NaN
// stays as it is:
//
//	for i: x[i] = max(-limit, min(limit, x[i]))
func Clamp(x []float32, limit float32) {
	n := clampAVX2(x, limit)
	clampGo(x[n:], limit)
}

func clampGo(x []float32, limit float32) {
	for i, v := range x {
		if v > limit {
			x[i] = limit
		} else if v < -limit {
			x[i] = -limit
		}
	}
}

// Fill sets every element to one value:
//
//	for i: x[i] = v
func Fill(x []float32, v float32) {
	if math.Float32bits(v) == 0 {
		clear(x)
		return
	}
	n := fillAVX2(x, v)
	fillGo(x[n:], v)
}

func fillGo(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
