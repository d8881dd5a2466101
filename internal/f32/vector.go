package f32

import "fmt"

// Element-wise kernels: one pass, one fixed rounding per operation. Products
// are rounded to float32 before they are added (the conversion forbids the
// compiler to fuse), so the bits are the same on every machine.

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
	for len(x) >= 4 && len(dst) >= 4 {
		d, s := dst[:4:4], x[:4:4]
		d[0] += float32(a * s[0])
		d[1] += float32(a * s[1])
		d[2] += float32(a * s[2])
		d[3] += float32(a * s[3])
		dst, x = dst[4:], x[4:]
	}
	for i, v := range x {
		dst[i] += float32(a * v)
	}
}

// Add adds one vector to another:
//
//	for i: dst[i] += x[i]
//
// It panics unless len(x) == len(dst).
func Add(dst, x []float32) {
	same("Add", len(x), len(dst))
	for len(x) >= 4 && len(dst) >= 4 {
		d, s := dst[:4:4], x[:4:4]
		d[0] += s[0]
		d[1] += s[1]
		d[2] += s[2]
		d[3] += s[3]
		dst, x = dst[4:], x[4:]
	}
	for i, v := range x {
		dst[i] += v
	}
}

// Scale multiplies a vector by a number in place:
//
//	for i: x[i] *= a
func Scale(x []float32, a float32) {
	for i := range x {
		x[i] *= a
	}
}

// Fill sets every element to one value:
//
//	for i: x[i] = v
func Fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
