package f32

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// Vectors as bytes: on the wire a float32 is its four bytes, little-endian.
// On a little-endian machine memory already looks like that and copying is a
// memmove; elsewhere the portable loops run.

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Bytes returns the memory of x as 4·len(x) little-endian bytes, sharing x's
// storage. On a big-endian machine there is no such view and ok is false.
func Bytes(x []float32) (b []byte, ok bool) {
	if !littleEndian {
		return nil, false
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x)), true
}

// Floats is the inverse of Bytes: b's memory as len(b)/4 floats, sharing b's
// storage. ok is false on a big-endian machine, when b is not aligned to four
// bytes, or when its length is not a multiple of four.
func Floats(b []byte) (x []float32, ok bool) {
	p := unsafe.SliceData(b)
	if !littleEndian || len(b)%4 != 0 || uintptr(unsafe.Pointer(p))%4 != 0 {
		return nil, false
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(p)), len(b)/4), true
}

// AppendBytes appends the 4·len(x) little-endian bytes of x to dst and returns
// the longer slice.
func AppendBytes(dst []byte, x []float32) []byte {
	if b, ok := Bytes(x); ok {
		return append(dst, b...)
	}
	for _, v := range x {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst
}

// FromBytes fills dst from its little-endian bytes. It panics unless
// len(b) == 4·len(dst).
func FromBytes(dst []float32, b []byte) {
	same("FromBytes", len(b), 4*len(dst))
	if d, ok := Bytes(dst); ok {
		copy(d, b)
		return
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}

// AddBytes adds a multiple of a vector in its byte form, at any alignment:
//
//	for i: dst[i] += scale * float32(b[4i:4i+4])
//
// It panics unless len(b) == 4·len(dst).
func AddBytes(dst []float32, scale float32, b []byte) {
	same("AddBytes", len(b), 4*len(dst))
	n := addBytesAVX2(dst, scale, b)
	addBytesGo(dst[n:], scale, b[4*n:])
}

func addBytesGo(dst []float32, scale float32, b []byte) {
	for i := range dst {
		dst[i] += float32(scale * math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
}
