package codec

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// Selection by magnitude. Magnitudes of floats order like their bits, which is
// what thresholds are given in here.

// atLeast writes one bit an element, the first in the lowest bit: whether its
// magnitude is at least tau. It returns the largest magnitude. len(mask) is
// ⌈len(x)/8⌉.
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
// whose magnitude has at least the bits tau, and to val, unless it is nil, the
// elements. It returns false as soon as it sees a NaN or Inf.
func AppendReaching(idx []uint32, val, x []float32, tau uint32) (_ []uint32, _ []float32, finite bool) {
	const block = 4096 // elements, that stay in cache
	var mask [block / 8]byte
	for lo := 0; lo < len(x); lo += block {
		part := x[lo:min(lo+block, len(x))]
		n := (len(part) + 7) / 8
		if atLeast(mask[:n], part, tau) >= infinity {
			return idx, val, false
		}
		clear(mask[n:])
		hits := 0
		for at := 0; at < n; at += 8 {
			hits += bits.OnesCount64(binary.LittleEndian.Uint64(mask[at:]))
		}
		first := len(idx)
		idx = slices.Grow(idx, hits+2)[:first+hits+2]
		out := idx[first:]
		j := 0
		for at := 0; at < n; at += 8 {
			w := binary.LittleEndian.Uint64(mask[at:])
			base := uint32(lo + 8*at)
			// Up to two hits without a branch: where hits are rare no branch on
			// them can be foreseen.
			for range 2 {
				out[j] = base + uint32(bits.TrailingZeros64(w))
				j += int((w | -w) >> 63)
				w &= w - 1
			}
			for ; w != 0; w &= w - 1 {
				out[j] = base + uint32(bits.TrailingZeros64(w))
				j++
			}
		}
		idx = idx[:first+hits]
		if val != nil {
			for _, i := range idx[first:] {
				val = append(val, x[i])
			}
		}
	}
	return idx, val, true
}

// count is how many elements have at least the magnitude tau.
func count(x []float32, tau uint32) int {
	const most = 1 << 30 // what lanes of 32 bits can count
	c := 0
	for len(x) > most {
		c, x = c+count(x[:most], tau), x[most:]
	}
	n := whole(len(x), 32)
	return c + countAVX2(x[:n], tau) + countGo(x[n:], tau)
}

func countGo(x []float32, tau uint32) (c int) {
	for _, v := range x {
		if math.Float32bits(v)&magnitude >= tau {
			c++
		}
	}
	return c
}

// Cut is where the k largest magnitudes of x end, 1 ≤ k ≤ len(x): all elements
// beyond the bits tau are among them, and so many of those that equal it. It
// bisects, which takes up to 31 passes, and half of them on common data.
func Cut(x []float32, k int) (tau uint32, ties int) {
	lo, hi, beyond := uint32(0), uint32(1<<31), 0 // count(lo) ≥ k > count(hi) = beyond
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		switch c := count(x, mid); {
		case c == k:
			return mid - 1, 0
		case c > k:
			lo = mid
		default:
			hi, beyond = mid, c
		}
	}
	return lo, k - beyond
}
