package codec

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// Selection by magnitude. Magnitudes of floats order like their bits, which is
// what thresholds are given in here.

// AtLeast writes one bit an element, the first in the lowest bit: whether its
// magnitude has at least the bits tau. It returns those of the largest magnitude.
// len(mask) is ⌈len(x)/8⌉.
func AtLeast(mask []byte, x []float32, tau uint32) uint32 {
	n, most := atLeastAVX2(mask, x, tau)
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
// whose magnitude has at least the bits tau, and to val the elements. It returns false
// as soon as it sees a NaN or Inf.
func AppendReaching(idx []uint32, val, x []float32, tau uint32) (_ []uint32, _ []float32, finite bool) {
	const (
		block = 4096 // elements, that stay in cache
		dense = 16   // one hit in so many makes it worth while to look at every element
	)
	var mask [block / 8]byte
	for lo := 0; lo < len(x); lo += block {
		part := x[lo:min(lo+block, len(x))]
		n := (len(part) + 7) / 8
		if AtLeast(mask[:n], part, tau) >= infinity {
			return idx, val, false
		}
		clear(mask[n:])
		hits := 0
		for at := 0; at < n; at += 8 {
			hits += bits.OnesCount64(binary.LittleEndian.Uint64(mask[at:]))
		}
		first, from := len(idx), len(val)
		idx, val = slices.Grow(idx, hits+8)[:first+hits+8], slices.Grow(val, hits+8)[:from+hits+8]
		if hits*dense > len(part) {
			Reaching(idx[first:], val[from:], part, tau, uint32(lo))
		} else {
			fewOnes(idx[first:], mask[:(n+7)&^7], uint32(lo))
			for j, i := range idx[first : first+hits] {
				val[from+j] = x[i]
			}
		}
		idx, val = idx[:first+hits], val[:from+hits]
	}
	return idx, val, true
}

// fewOnes sets idx to the places of the bits that are set in mask, whole words of 64,
// counted from first. It needs room for two more.
func fewOnes(idx []uint32, mask []byte, first uint32) {
	j := 0
	for at := 0; at < len(mask); at += 8 {
		w, base := binary.LittleEndian.Uint64(mask[at:]), first+uint32(8*at)
		// Up to two hits without a branch: where hits are rare no branch on them can be
		// foreseen.
		for range 2 {
			idx[j] = base + uint32(bits.TrailingZeros64(w))
			j += int((w | -w) >> 63)
			w &= w - 1
		}
		for ; w != 0; w &= w - 1 {
			idx[j] = base + uint32(bits.TrailingZeros64(w))
			j++
		}
	}
}

// Reaching writes to idx the places, counted from first, of the elements of x whose
// magnitude has at least the bits tau, and to val the elements. It returns how many
// there are. Both need room for eight more, or as many elements as x: what is behind the
// last may be overwritten.
func Reaching(idx []uint32, val, x []float32, tau, first uint32) int {
	n, j := squeezeAVX2(idx, val, x, tau, first, &together)
	return j + reachingGo(idx[j:], val[j:], x[n:], tau, first+uint32(n))
}

func reachingGo(idx []uint32, val, x []float32, tau, first uint32) (j int) {
	for i, v := range x {
		idx[j], val[j] = first+uint32(i), v
		if math.Float32bits(v)&magnitude >= tau {
			j++
		}
	}
	return j
}

// Between sets dst to the magnitudes of x that have at least the bits lo and fewer than
// hi, and returns how many there are. dst is as long as x, and what is left of it may be
// overwritten; it may be x.
func Between(dst, x []float32, lo, hi uint32) int {
	n, j := betweenAVX512(dst, x, lo, hi)
	x = x[n:]
	n, more := betweenAVX2(dst[j:], x, lo, hi, &together)
	j += more
	return j + betweenGo(dst[j:], x[n:], lo, hi)
}

func betweenGo(dst, x []float32, lo, hi uint32) (j int) {
	for _, v := range x {
		u := math.Float32bits(v) & magnitude
		dst[j] = math.Float32frombits(u)
		if u >= lo && u < hi {
			j++
		}
	}
	return j
}

// Band writes to idx the places, counted from first, of the elements of x whose magnitude
// has at least the bits lo and fewer than hi, and to val the elements. It returns how many
// there are. Both are as long as x, and what is left of them may be overwritten.
func Band(idx []uint32, val, x []float32, lo, hi, first uint32) int {
	n, j := bandAVX512(idx, val, x, lo, hi, first)
	x, first = x[n:], first+uint32(n)
	n, more := bandAVX2(idx[j:], val[j:], x, lo, hi, first, &together)
	j += more
	return j + bandGo(idx[j:], val[j:], x[n:], lo, hi, first+uint32(n))
}

func bandGo(idx []uint32, val, x []float32, lo, hi, first uint32) (j int) {
	for i, v := range x {
		idx[j], val[j] = first+uint32(i), v
		if u := math.Float32bits(v) & magnitude; u >= lo && u < hi {
			j++
		}
	}
	return j
}

// together has for every eight bits the places of those that are set, the lowest first.
var together = func() (t [256]uint64) {
	for m := range t {
		for i, at := 0, 0; i < 8; i++ {
			if m>>i&1 == 1 {
				t[m] |= uint64(i) << (8 * at)
				at++
			}
		}
	}
	return t
}()

// count is how many elements have at least the magnitude tau.
func count(x []float32, tau uint32) int {
	const most = 1 << 30 // what lanes of 32 bits can count
	c := 0
	for len(x) > most {
		c, x = c+count(x[:most], tau), x[most:]
	}
	n, some := countAVX2(x, tau)
	return c + some + countGo(x[n:], tau)
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
// bisects, which takes up to 31 passes, and half of them on common data. As soon as
// half of the elements are out of question, those that are not go on in room, which is
// as long as x and may be x.
func Cut(x []float32, k int, room []float32) (tau uint32, ties int) {
	lo, hi := uint32(0), uint32(1<<31)
	beyond, within := 0, len(x) // elements of x from hi on, < k, and from lo to hi
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		switch c := count(x, mid); {
		case c == k:
			return mid - 1, 0
		case c > k:
			lo, within = mid, c-beyond
		default:
			hi, beyond, within = mid, c, within-(c-beyond)
		}
		if 2*within <= len(x) {
			x = room[:Between(room, x, lo, hi)]
			k, beyond = k-beyond, 0
		}
	}
	return lo, k - beyond
}
