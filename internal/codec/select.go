package codec

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// atLeast writes one bit an element, the first in the lowest bit: whether its
// magnitude is at least tau > 0, both as the bits of a float32. It returns the
// largest magnitude. len(mask) is ⌈len(x)/8⌉.
func atLeast(mask []byte, x []float32, tau uint32) uint32 {
	n := whole(len(x), 32)
	most := atLeastAVX2(mask, x[:n], tau)
	return max(most, atLeastGo(mask[n/8:], x[n:], tau))
}

func atLeastGo(mask []byte, x []float32, tau uint32) (most uint32) {
	clear(mask)
	for i, v := range x {
		u := math.Float32bits(v) & magnitude
		most = max(most, u)
		if u >= tau {
			mask[i>>3] |= 1 << (i & 7)
		}
	}
	return most
}

// AppendReaching appends to idx the positions, in ascending order, of the elements
// whose magnitude is at least tau > 0. It returns false as soon as it sees a NaN
// or Inf.
func AppendReaching(idx []uint32, x []float32, tau float32) (_ []uint32, finite bool) {
	const block = 4096 // elements, that stay in cache
	var mask [block / 8]byte
	least := math.Float32bits(tau)
	for lo := 0; lo < len(x); lo += block {
		part := x[lo:min(lo+block, len(x))]
		n := (len(part) + 7) / 8
		if atLeast(mask[:n], part, least) >= infinity {
			return idx, false
		}
		clear(mask[n:])
		for at := 0; at < n; at += 8 {
			for w := binary.LittleEndian.Uint64(mask[at:]); w != 0; w &= w - 1 {
				idx = append(idx, uint32(lo+8*at+bits.TrailingZeros64(w)))
			}
		}
	}
	return idx, true
}
