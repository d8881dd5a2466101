package codec

import (
	"math"

	"github.com/gradlab/gradlab/internal/rng"
)

// Steps counts even steps from low, rounding at random without bias:
//
//	codes[i] = ⌊min((x[i] − low)·perStep + u, top)⌋
//
// No element is below low; top is at most 255. u is uniform in [0, 1), 32 bits of
// a draw: see Levels. It panics unless len(codes) == len(x).
func Steps(codes []byte, x []float32, low, perStep, top float64, key rng.Key, first uint64) {
	same("Steps", len(codes), len(x))
	n := 0
	if first&1 == 0 {
		n = whole(len(x), 32)
		stepsAVX2(codes, x[:n], low, perStep, top, start(key, first>>1))
	}
	stepsGo(codes[n:], x[n:], low, perStep, top, key, first+uint64(n))
}

func stepsGo(codes []byte, x []float32, low, perStep, top float64, key rng.Key, first uint64) {
	draw, drawn := uint64(0), ^uint64(0)
	for i, v := range x {
		at := first + uint64(i)
		if at>>1 != drawn {
			drawn = at >> 1
			draw = key.Uint64(drawn)
		}
		u := float64(uint32(draw>>(at&1*32))) * 0x1p-32
		codes[i] = step(v, low, perStep, top, u)
	}
}

// NearestSteps is Steps with u = ½.
func NearestSteps(codes []byte, x []float32, low, perStep, top float64) {
	same("NearestSteps", len(codes), len(x))
	n := whole(len(x), 32)
	nearestStepsAVX2(codes, x[:n], low, perStep, top)
	nearestStepsGo(codes[n:], x[n:], low, perStep, top)
}

func nearestStepsGo(codes []byte, x []float32, low, perStep, top float64) {
	for i, v := range x {
		codes[i] = step(v, low, perStep, top, 0.5)
	}
}

func step(v float32, low, perStep, top, u float64) byte {
	return byte(min(float64((float64(v)-low)*perStep)+u, top))
}

// Extent returns the least and the largest element of x, which must not be
// empty; −0 is less than 0. It returns false if x has a NaN or Inf.
func Extent(x []float32) (lo, hi float32, finite bool) {
	n := whole(len(x), 8)
	l, h := extentAVX2(x[:n])
	l2, h2 := extentGo(x[n:])
	l, h = min(l, l2), max(h, h2)
	return math.Float32frombits(uint32(inOrder(l))), math.Float32frombits(uint32(inOrder(h))),
		l > inOrder(-1<<31|infinity) && h < infinity
}

const infinity = 0x7f800000

// extentGo gives the bits of the extreme elements in order, and of none the
// farthest ones the wrong way round.
func extentGo(x []float32) (lo, hi int32) {
	lo, hi = math.MaxInt32, math.MinInt32
	for _, v := range x {
		key := inOrder(int32(math.Float32bits(v)))
		lo, hi = min(lo, key), max(hi, key)
	}
	return lo, hi
}

// inOrder turns around the bits of negative floats, so that as integers they are
// in the order of the numbers. It is its own inverse.
func inOrder(bits int32) int32 { return bits ^ int32(uint32(bits>>31)>>1) }
