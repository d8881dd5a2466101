package codec

import (
	"encoding/binary"
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
		k := deposited(len(part) / 64)
		addSignedAVX2(part[:64*k], at[:k], by[:k], plus)
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
