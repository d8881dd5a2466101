package codec

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Masks are one bit an element, the first in the lowest bit of a byte.

// word is 64 bits of a mask from bit 8i on; what is behind its end is 0.
func word(mask []byte, i int) uint64 {
	if i+8 <= len(mask) {
		return binary.LittleEndian.Uint64(mask[i:])
	}
	var last [8]byte
	if i < len(mask) {
		copy(last[:], mask[i:])
	}
	return binary.LittleEndian.Uint64(last[:])
}

// Ones sets idx to the places of the bits that are set in mask, which must be as many.
func Ones(idx []uint32, mask []byte) {
	j := 0
	for i := 0; i < len(mask); i += 8 {
		for w := word(mask, i); w != 0; w &= w - 1 {
			idx[j] = uint32(8*i + bits.TrailingZeros64(w))
			j++
		}
	}
}

// AddSigned adds plus, with a sign, to the elements of dst at the bits that are set in
// mask: bit j of signs is that of the j-th of them. mask may be shorter than dst, and
// signs must have as many bits as are set in it.
func AddSigned(dst []float32, mask, signs []byte, plus float32) {
	const block = 64 // words
	var at, by [block]uint64
	from := 0 // the next sign
	for i := 0; i < len(mask); i += 8 * block {
		n := min(block, (len(mask)-i+7)/8)
		for j := range n {
			w := word(mask, i+8*j)
			at[j], by[j] = w, word(signs, from>>3)>>(from&7)
			if from&7 > 0 && from>>3+8 < len(signs) {
				by[j] |= uint64(signs[from>>3+8]) << (64 - from&7)
			}
			from += bits.OnesCount64(w)
		}
		part := dst[8*i : min(len(dst), 8*i+64*n)]
		k := addSignedAVX2(part, at[:len(part)/64], by[:], plus)
		addSignedGo(part[64*k:], at[k:n], by[k:n], plus)
	}
}

// addSignedGo takes 64 elements a word; the last ones may be fewer.
func addSignedGo(dst []float32, mask, signs []uint64, plus float32) {
	both := [2]float32{plus, -plus}
	for i, w := range mask {
		for s := signs[i]; w != 0; w, s = w&(w-1), s>>1 {
			dst[64*i+bits.TrailingZeros64(w)] += both[s&1]
		}
	}
}

// Pick sets dst to the elements of x at the bits that are set in mask, and returns how
// many there are. dst has room for sixteen more, or is as long as x: what is behind the
// last may be overwritten.
func Pick(dst, x []float32, mask []byte) int {
	n, j := pickAVX512(dst, x, mask)
	x, mask = x[n:], mask[n/8:]
	n, more := pickAVX2(dst[j:], x, mask, &together)
	j += more
	return j + pickGo(dst[j:], x[n:], mask[n/8:])
}

func pickGo(dst, x []float32, mask []byte) (j int) {
	for i, v := range x {
		if mask[i>>3]>>(i&7)&1 == 1 {
			dst[j] = v
			j++
		}
	}
	return j
}

// SumsReach writes one bit an element: whether the magnitude of x[i] + y[i], maybe
// infinite, is at least tau[i], which is not negative. len(mask) is ⌈len(x)/8⌉. It panics
// unless x, y and tau have one length.
func SumsReach(mask []byte, x, y, tau []float32) {
	same("SumsReach", len(y), len(x))
	same("SumsReach", len(tau), len(x))
	n := sumsReachAVX2(mask, x, y, tau)
	sumsReachGo(mask[n/8:], x[n:], y[n:], tau[n:])
}

func sumsReachGo(mask []byte, x, y, tau []float32) {
	clear(mask)
	for i, v := range x {
		if math.Float32bits(v+y[i])&magnitude >= math.Float32bits(tau[i]) {
			mask[i>>3] |= 1 << (i & 7)
		}
	}
}

// Momentum is a step of momentum correction, where what was sent, one bit an element, is 0
// first: u becomes scale·g + m·u, and v becomes u + v. It returns the bits of the largest
// magnitude of both. len(sent) is ⌈len(u)/8⌉. It panics unless u, v and g have one length.
func Momentum(u, v, g []float32, sent []byte, m, scale float32) uint32 {
	same("Momentum", len(v), len(u))
	same("Momentum", len(g), len(u))
	n, most := momentumAVX2(u, v, g, sent, m, scale)
	return max(most, momentumGo(u[n:], v[n:], g[n:], sent[n/8:], m, scale))
}

func momentumGo(u, v, g []float32, sent []byte, m, scale float32) (most uint32) {
	for i, by := range g {
		if sent[i>>3]>>(i&7)&1 == 1 {
			u[i], v[i] = 0, 0
		}
		u[i] = float32(scale*by) + float32(m*u[i])
		v[i] = u[i] + v[i]
		most = max(most, math.Float32bits(u[i])&magnitude, math.Float32bits(v[i])&magnitude)
	}
	return most
}

// Shrink takes tau, above 0, off the elements of x whose magnitude has at least as much.
func Shrink(x []float32, tau float32) {
	n := shrinkAVX2(x, tau)
	shrinkGo(x[n:], tau)
}

func shrinkGo(x []float32, tau float32) {
	by := math.Float32bits(tau)
	for i, v := range x {
		if u := math.Float32bits(v); u&magnitude >= by {
			x[i] = v - math.Float32frombits(by|u&^magnitude)
		}
	}
}
