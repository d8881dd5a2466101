// Package bits packs integers into few bits: fixed widths, canonical varints,
// Rice codes, sign bits. Everything is little-endian, first value in the lowest
// bits. Decoders are total: any bytes give values or a refusal, never a panic,
// and there is exactly one encoding of every sequence, so trailing bytes and
// padding bits that are not zero are refused.
package bits

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
)

// PackedLen is the length in bytes of n codes of width bits each.
func PackedLen(n, width int) int { return codec.PackedLen(n, width) }

// AppendPacked appends codes, each below 1<<width, at width bits a code, 1 to
// 8. Eight codes fill exactly width bytes; only the last group may be shorter.
func AppendPacked(dst, codes []byte, width int) []byte {
	at, n := len(dst), PackedLen(len(codes), width)
	dst = slices.Grow(dst, n)[:at+n]
	codec.Pack(dst[at:], codes, width)
	return dst
}

// Unpack fills codes from p, which must be exactly PackedLen(len(codes), width)
// bytes with zero padding bits; otherwise it returns false and codes is
// undefined.
func Unpack(codes, p []byte, width int) bool {
	if !padded(p, len(codes), width) {
		return false
	}
	codec.Unpack(codes, p, width)
	return true
}

// PackedOK reports whether p is exactly n codes of width ≥ 2 bits with zero
// padding, none of them all ones: the code that a symmetric range of levels
// leaves unused.
func PackedOK(p []byte, n, width int) bool {
	if !padded(p, n, width) {
		return false
	}
	if width == 8 {
		return codec.MaxByte(p) < 255
	}
	var codes [2048]byte
	for n > 0 {
		part := codes[:min(n, len(codes))]
		size := PackedLen(len(part), width)
		codec.Unpack(part, p[:size], width)
		if codec.MaxByte(part) == 1<<uint(width)-1 {
			return false
		}
		n, p = n-len(part), p[size:]
	}
	return true
}

// padded reports whether p has the length of n codes and zeros behind the last.
func padded(p []byte, n, width int) bool {
	last := uint(n * width % 8)
	return len(p) == PackedLen(n, width) && (last == 0 || p[len(p)-1]>>last == 0)
}

// SignLen is the length in bytes of n sign bits.
func SignLen(n int) int { return (n + 7) / 8 }

// AppendSigns appends one bit an element: 1 for x[i] < 0 and for −0.
func AppendSigns(dst []byte, x []float32) []byte {
	at, n := len(dst), SignLen(len(x))
	dst = slices.Grow(dst, n)[:at+n]
	f32.Signs(dst[at:], x)
	return dst
}

// SignsOK reports whether p holds exactly n sign bits with zero padding.
func SignsOK(p []byte, n int) bool {
	return len(p) == SignLen(n) && (n&7 == 0 || p[len(p)-1]>>uint(n&7) == 0)
}

// Ones counts the bits that are set in p.
func Ones(p []byte) int {
	n := 0
	for ; len(p) >= 8; p = p[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(p))
	}
	for _, b := range p {
		n += bits.OnesCount8(b)
	}
	return n
}
