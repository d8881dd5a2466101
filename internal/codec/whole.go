package codec

import "encoding/binary"

// Whole numbers that travel in one or two bytes, little-endian. They must fit.

// PutI8 writes elements that are whole numbers from −128 to 127, a byte each. It
// panics unless len(dst) == len(x).
func PutI8(dst []byte, x []float32) {
	same("PutI8", len(dst), len(x))
	n := put8AVX2(dst, x)
	put8Go(dst[n:], x[n:])
}

func put8Go(dst []byte, x []float32) {
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] = byte(int8(v))
	}
}

// SetI8 reads what PutI8 wrote. It panics unless len(src) == len(x).
func SetI8(x []float32, src []byte) {
	same("SetI8", len(src), len(x))
	n := set8AVX2(x, src)
	set8Go(x[n:], src[n:])
}

func set8Go(x []float32, src []byte) {
	src = src[:len(x)]
	for i, b := range src {
		x[i] = float32(int8(b))
	}
}

// AddI8 adds what PutI8 wrote to x. It panics unless len(src) == len(x).
func AddI8(x []float32, src []byte) {
	same("AddI8", len(src), len(x))
	n := add8AVX2(x, src)
	add8Go(x[n:], src[n:])
}

func add8Go(x []float32, src []byte) {
	src = src[:len(x)]
	for i, b := range src {
		x[i] += float32(int8(b))
	}
}

// PutI16 writes elements that are whole numbers from −32768 to 32767, two bytes
// each. It panics unless len(dst) == 2·len(x).
func PutI16(dst []byte, x []float32) {
	same("PutI16", len(dst), 2*len(x))
	n := put16AVX2(dst, x)
	put16Go(dst[2*n:], x[n:])
}

func put16Go(dst []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(int16(v)))
	}
}

// SetI16 reads what PutI16 wrote. It panics unless len(src) == 2·len(x).
func SetI16(x []float32, src []byte) {
	same("SetI16", len(src), 2*len(x))
	n := set16AVX2(x, src)
	set16Go(x[n:], src[2*n:])
}

func set16Go(x []float32, src []byte) {
	for i := range x {
		x[i] = float32(int16(binary.LittleEndian.Uint16(src[2*i:])))
	}
}

// AddI16 adds what PutI16 wrote to x. It panics unless len(src) == 2·len(x).
func AddI16(x []float32, src []byte) {
	same("AddI16", len(src), 2*len(x))
	n := add16AVX2(x, src)
	add16Go(x[n:], src[2*n:])
}

func add16Go(x []float32, src []byte) {
	for i := range x {
		x[i] += float32(int16(binary.LittleEndian.Uint16(src[2*i:])))
	}
}
