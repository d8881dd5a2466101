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

	"github.com/gradlab/gradlab/internal/f32"
)

// PackedLen is the length in bytes of n codes of width bits each.
func PackedLen(n, width int) int { return (n*width + 7) / 8 }

// AppendPacked appends codes, each below 1<<width, at width bits a code, 1 to
// 8. Eight codes fill exactly width bytes; only the last group may be shorter.
func AppendPacked(dst, codes []byte, width int) []byte {
	if width == 8 {
		return append(dst, codes...)
	}
	w := uint(width)
	for len(codes) >= 8 {
		c := codes[:8:8]
		v := uint64(c[0]) | uint64(c[1])<<w | uint64(c[2])<<(2*w) | uint64(c[3])<<(3*w) |
			uint64(c[4])<<(4*w) | uint64(c[5])<<(5*w) | uint64(c[6])<<(6*w) | uint64(c[7])<<(7*w)
		dst = appendLow(dst, v, width)
		codes = codes[8:]
	}
	var v uint64
	for i, c := range codes {
		v |= uint64(c) << (uint(i) * w)
	}
	return appendLow(dst, v, PackedLen(len(codes), width))
}

// appendLow appends the n low bytes of v.
func appendLow(dst []byte, v uint64, n int) []byte {
	if n == 4 {
		return binary.LittleEndian.AppendUint32(dst, uint32(v))
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return append(dst, b[:n]...)
}

// Unpack fills codes from p, which must be exactly PackedLen(len(codes), width)
// bytes with zero padding bits; otherwise it returns false and codes is
// undefined.
func Unpack(codes, p []byte, width int) bool {
	if len(p) != PackedLen(len(codes), width) {
		return false
	}
	w, mask := uint(width), byte(1<<uint(width)-1)
	for len(codes) >= 8 {
		v := load(p, width)
		c := codes[:8:8]
		c[0] = byte(v) & mask
		c[1] = byte(v>>w) & mask
		c[2] = byte(v>>(2*w)) & mask
		c[3] = byte(v>>(3*w)) & mask
		c[4] = byte(v>>(4*w)) & mask
		c[5] = byte(v>>(5*w)) & mask
		c[6] = byte(v>>(6*w)) & mask
		c[7] = byte(v>>(7*w)) & mask
		codes, p = codes[8:], p[width:]
	}
	v := load(p, len(p))
	for i := range codes {
		codes[i] = byte(v) & mask
		v >>= w
	}
	return v == 0
}

// PackedOK reports whether p is exactly n codes of width ≥ 2 bits with zero
// padding, none of them all ones: the code that a symmetric range of levels
// leaves unused.
func PackedOK(p []byte, n, width int) bool {
	if len(p) != PackedLen(n, width) {
		return false
	}
	var lowest uint64 // the lowest bit of each of eight codes
	for i := range 8 {
		lowest |= 1 << uint(i*width)
	}
	var bad uint64
	for ; n >= 8; n, p = n-8, p[width:] {
		v := load(p, width)
		ones := v
		for i := 1; i < width; i++ {
			ones &= v >> uint(i)
		}
		bad |= ones & lowest
	}
	v := load(p, len(p))
	for ; n > 0; n, v = n-1, v>>uint(width) {
		if v&(1<<uint(width)-1) == 1<<uint(width)-1 {
			return false
		}
	}
	return bad == 0 && v == 0
}

// load reads the n low bytes of a word from p; n ≤ min(8, len(p)).
func load(p []byte, n int) uint64 {
	if len(p) >= 8 {
		return binary.LittleEndian.Uint64(p) & (1<<(8*uint(n)&63) - 1 | -(uint64(n) >> 3))
	}
	var v uint64
	for i := n - 1; i >= 0; i-- {
		v = v<<8 | uint64(p[i])
	}
	return v
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
