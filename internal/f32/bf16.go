package f32

import (
	"encoding/binary"
	"math"
)

// bfloat16: the upper half of a float32 (1 sign, 8 exponent, 7 fraction bits).
// The range of float32, two to three decimal digits. On the wire: two bytes,
// little-endian.

// ToBF16 rounds to the nearest bfloat16, ties to even. Beyond the largest
// finite value it gives an infinity; a NaN stays a NaN, with the part of its
// payload that fits.
func ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&(1<<31-1) > 0x7f800000 { // NaN
		if b&0x7f0000 == 0 {
			b |= 0x400000 // all payload lost: make it a quiet NaN, not an infinity
		}
		return uint16(b >> 16)
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// FromBF16 is the float32 with the same value, exactly.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// EncodeBF16 writes x as bfloat16, two little-endian bytes an element. It
// panics unless len(dst) == 2·len(x).
func EncodeBF16(dst []byte, x []float32) {
	same("EncodeBF16", len(dst), 2*len(x))
	n := encodeBF16AVX2(dst, x)
	encodeBF16Go(dst[2*n:], x[n:])
}

func encodeBF16Go(dst []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint16(dst[2*i:], ToBF16(v))
	}
}

// DecodeBF16 fills dst from bfloat16 bytes as written by EncodeBF16. It panics
// unless len(b) == 2·len(dst).
func DecodeBF16(dst []float32, b []byte) {
	same("DecodeBF16", len(b), 2*len(dst))
	n := decodeBF16AVX2(dst, b)
	decodeBF16Go(dst[n:], b[2*n:])
}

func decodeBF16Go(dst []float32, b []byte) {
	for i := range dst {
		dst[i] = FromBF16(binary.LittleEndian.Uint16(b[2*i:]))
	}
}

// AddBF16 adds a multiple of a vector in bfloat16 bytes:
//
//	for i: dst[i] += scale * FromBF16(b[2i:2i+2])
//
// It panics unless len(b) == 2·len(dst).
func AddBF16(dst []float32, scale float32, b []byte) {
	same("AddBF16", len(b), 2*len(dst))
	n := addBF16AVX2(dst, scale, b)
	addBF16Go(dst[n:], scale, b[2*n:])
}

func addBF16Go(dst []float32, scale float32, b []byte) {
	for i := range dst {
		dst[i] += float32(scale * FromBF16(binary.LittleEndian.Uint16(b[2*i:])))
	}
}

// RoundBF16 replaces each element by the bfloat16 nearest to it, what a
// receiver of EncodeBF16(x) would see.
func RoundBF16(x []float32) {
	n := roundBF16AVX2(x)
	roundBF16Go(x[n:])
}

func roundBF16Go(x []float32) {
	for i, v := range x {
		x[i] = FromBF16(ToBF16(v))
	}
}
