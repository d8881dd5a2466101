package f32

import (
	"encoding/binary"
	"math"
)

// IEEE half precision (1 sign, 5 exponent, 10 fraction bits): three decimal
// digits between 6e-8 (subnormal) and 65504. On the wire: two bytes,
// little-endian.

// ToFP16 rounds to the nearest half, ties to even, through the subnormals.
// From 65520 up it gives an infinity. A NaN becomes a quiet NaN with the part of
// its payload that fits, as IEEE 754 has it and hardware does.
func ToFP16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 1<<31 - 1
	switch {
	case b > 0x7f800000: // NaN
		return sign | 0x7e00 | uint16(b>>13&0x1ff)
	case b >= 0x477ff000: // 65520: halfway between the largest half and 2^16
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: one unit is 2^-24, the spacing of float32 at 0.5
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	return sign | uint16((b-0x38000000+0xfff+b>>13&1)>>13)
}

// FromFP16 is the float32 with the same value, exactly. A signalling NaN becomes
// quiet.
func FromFP16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	b := uint32(h&0x7fff) << 13
	switch {
	case b > 0x0f800000: // NaN
		b += 0x70000000
		b |= 0x00400000
	case b == 0x0f800000: // infinity
		b = 0x7f800000
	case b >= 0x00800000: // normal: move the bias from 15 to 127
		b += 0x38000000
	default: // subnormal: a count of 2^-24
		b = math.Float32bits(float32(h&0x7fff) * (1.0 / (1 << 24)))
	}
	return math.Float32frombits(sign | b)
}

// EncodeFP16 writes x as halves, two little-endian bytes an element. It
// panics unless len(dst) == 2·len(x).
func EncodeFP16(dst []byte, x []float32) {
	same("EncodeFP16", len(dst), 2*len(x))
	n := encodeFP16AVX2(dst, x)
	encodeFP16Go(dst[2*n:], x[n:])
}

func encodeFP16Go(dst []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint16(dst[2*i:], ToFP16(v))
	}
}

// DecodeFP16 fills dst from halves as written by EncodeFP16. It panics
// unless len(b) == 2·len(dst).
func DecodeFP16(dst []float32, b []byte) {
	same("DecodeFP16", len(b), 2*len(dst))
	n := decodeFP16AVX2(dst, b)
	decodeFP16Go(dst[n:], b[2*n:])
}

func decodeFP16Go(dst []float32, b []byte) {
	for i := range dst {
		dst[i] = FromFP16(binary.LittleEndian.Uint16(b[2*i:]))
	}
}

// AddFP16 adds a multiple of a vector in half-precision bytes:
//
//	for i: dst[i] += scale * FromFP16(b[2i:2i+2])
//
// It panics unless len(b) == 2·len(dst).
func AddFP16(dst []float32, scale float32, b []byte) {
	same("AddFP16", len(b), 2*len(dst))
	n := addFP16AVX2(dst, scale, b)
	addFP16Go(dst[n:], scale, b[2*n:])
}

func addFP16Go(dst []float32, scale float32, b []byte) {
	for i := range dst {
		dst[i] += float32(scale * FromFP16(binary.LittleEndian.Uint16(b[2*i:])))
	}
}

// RoundFP16 replaces each element by the half nearest to it, what a
// receiver of EncodeFP16(x) would see.
func RoundFP16(x []float32) {
	n := roundFP16AVX2(x)
	roundFP16Go(x[n:])
}

func roundFP16Go(x []float32) {
	for i, v := range x {
		x[i] = FromFP16(ToFP16(v))
	}
}
