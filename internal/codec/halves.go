package codec

import (
	"encoding/binary"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

// Halves as codecs send them, two little-endian bytes an element. The largest
// magnitude of x comes with them, as the bits of a float32: from 0x7f800000 on, x is
// not finite and what was written means nothing.

// NearestFP16 rounds x to the nearest IEEE half, ties to even; what is too large
// becomes infinite. It panics unless len(dst) == 2·len(x).
func NearestFP16(dst []byte, x []float32) uint32 {
	same("NearestFP16", len(dst), 2*len(x))
	n, most := nearestFP16AVX2(dst, x)
	return max(most, nearestFP16Go(dst[2*n:], x[n:]))
}

func nearestFP16Go(dst []byte, x []float32) (most uint32) {
	for i, v := range x {
		most = max(most, math.Float32bits(v)&magnitude)
		binary.LittleEndian.PutUint16(dst[2*i:], f32.ToFP16(v))
	}
	return most
}

// NearestBF16 rounds x to the nearest bfloat16, ties to even; what would become
// infinite becomes the largest number. It panics unless len(dst) == 2·len(x).
func NearestBF16(dst []byte, x []float32) uint32 {
	same("NearestBF16", len(dst), 2*len(x))
	n, most := nearestBF16AVX2(dst, x)
	return max(most, nearestBF16Go(dst[2*n:], x[n:]))
}

func nearestBF16Go(dst []byte, x []float32) (most uint32) {
	for i, v := range x {
		u := math.Float32bits(v)
		most = max(most, u&magnitude)
		putBF16(dst[2*i:], u+0x7fff+u>>16&1)
	}
	return most
}

// RandomBF16 is NearestBF16 that rounds up or down at random, without bias. 16 bits of draw j of key
// serve each of the elements 4j to 4j+3 of a block; first is the place of x[0] in
// it, a multiple of four. It panics unless len(dst) == 2·len(x).
func RandomBF16(dst []byte, x []float32, key rng.Key, first uint64) uint32 {
	same("RandomBF16", len(dst), 2*len(x))
	n, most := randomBF16AVX2(dst, x, start(key, first>>2))
	return max(most, randomBF16Go(dst[2*n:], x[n:], key, first+uint64(n)))
}

func randomBF16Go(dst []byte, x []float32, key rng.Key, first uint64) (most uint32) {
	for i, v := range x {
		u, at := math.Float32bits(v), first+uint64(i)
		most = max(most, u&magnitude)
		putBF16(dst[2*i:], u+uint32(key.Uint64(at>>2)>>(at&3*16))&0xffff)
	}
	return most
}

// RandomFP16 does for IEEE halves what RandomBF16 does for bfloat16: 13 random bits
// are added below the last one kept, and cut off; what is too large becomes the
// largest half. Below 2⁻¹⁴, where halves are evenly spaced, it rounds a count of
// 2⁻²⁴ with a draw of its own, number 2⁴⁰ plus the element's. It panics unless
// len(dst) == 2·len(x).
func RandomFP16(dst []byte, x []float32, key rng.Key, first uint64) uint32 {
	same("RandomFP16", len(dst), 2*len(x))
	n, most := randomFP16AVX2(dst, x, start(key, first>>2))
	for i, v := range x[:n] {
		if u := math.Float32bits(v); u&magnitude < leastHalf {
			smallFP16(dst[2*i:], u, key, first+uint64(i))
		}
	}
	return max(most, randomFP16Go(dst[2*n:], x[n:], key, first+uint64(n)))
}

const leastHalf = 0x38800000 // the bits of 2⁻¹⁴, the least normal one

func randomFP16Go(dst []byte, x []float32, key rng.Key, first uint64) (most uint32) {
	for i, v := range x {
		u, at := math.Float32bits(v), first+uint64(i)
		b := u & magnitude
		most = max(most, b)
		if b < leastHalf {
			smallFP16(dst[2*i:], u, key, at)
			continue
		}
		random := uint32(key.Uint64(at>>2)>>(at&3*16)) & 0x1fff
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(u>>31<<15|min(0x7bff, (b-0x38000000+random)>>13)))
	}
	return most
}

// smallFP16 writes element number at of bits u, below the least normal half.
func smallFP16(dst []byte, u uint32, key rng.Key, at uint64) {
	units := float64(float64(math.Float32frombits(u&magnitude)) * (1 << 24))
	n := math.Floor(units)
	if key.Float64(at|1<<40) < units-n {
		n++
	}
	binary.LittleEndian.PutUint16(dst, uint16(u>>31<<15|uint32(n)))
}

// putBF16 cuts off the lower half.
func putBF16(dst []byte, u uint32) {
	h := uint16(u >> 16)
	if h&0x7fff == 0x7f80 {
		h--
	}
	binary.LittleEndian.PutUint16(dst, h)
}
