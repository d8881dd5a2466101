package codec

import (
	"math"

	"github.com/gradlab/gradlab/internal/rng"
)

// Steps counts even steps from low, rounding at random without bias, in fixed
// point with 23 fraction bits:
//
//	r = min((x[i]·Pre − low·Pre)·PerLevel, top·2²³), as float32, to the nearest whole number
//	codes[i] = ⌊(r + u)/2²³⌋, u the upper 23 bits of the element's fraction
//
// No element is below low; top is at most 255; first is the place of x[0] in a
// block. It panics unless len(codes) == len(x).
func Steps(codes []byte, x []float32, low float32, s Scale, top int, key rng.Key, first uint64) {
	same("Steps", len(codes), len(x))
	low *= s.Pre
	most := float32(top) * (1 << 23)
	n := 0
	if first&15 == 0 { // a kernel draws for sixteen at a time
		n = stepsAVX2(codes, x, s.Pre, low, s.PerLevel, most, start(key, first>>2))
	}
	stepsGo(codes[n:], x[n:], s.Pre, low, s.PerLevel, most, key, first+uint64(n))
}

func stepsGo(codes []byte, x []float32, pre, low, perStep, top float32, key rng.Key, first uint64) {
	f := fractions{key: key}
	codes = codes[:len(x)]
	for i, v := range x {
		r := float32(float32(v*pre)-low) * perStep
		if r > top {
			r = top
		}
		codes[i] = byte((nearest(r) + f.of(first+uint64(i))>>9) >> 23)
	}
}

// NearestSteps counts even steps from low, to the nearest:
//
//	codes[i] = ⌊min((x[i] − low)·perStep + ½, top)⌋, in float64
//
// No element is below low; top is at most 255. It panics unless len(codes) ==
// len(x).
func NearestSteps(codes []byte, x []float32, low, perStep, top float64) {
	same("NearestSteps", len(codes), len(x))
	n := nearestStepsAVX2(codes, x, low, perStep, top)
	nearestStepsGo(codes[n:], x[n:], low, perStep, top)
}

func nearestStepsGo(codes []byte, x []float32, low, perStep, top float64) {
	for i, v := range x {
		codes[i] = byte(min(float64((float64(v)-low)*perStep)+0.5, top))
	}
}

// Extent returns the least and the largest element of x, which must not be
// empty; −0 is less than 0. It returns false if x has a NaN or Inf.
func Extent(x []float32) (lo, hi float32, finite bool) {
	n, l, h := extentAVX2(x)
	if l2, h2 := extentGo(x[n:]); n > 0 {
		l, h = min(l, l2), max(h, h2)
	} else {
		l, h = l2, h2
	}
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
