package codec

import (
	"math"

	"github.com/gradlab/gradlab/internal/rng"
)

// Levels rounds magnitudes at random to whole levels, without bias, in fixed
// point with 32 fraction bits, and writes them with their signs above most:
//
//	l = min(⌊(|x[i]|·perLevel + u)/2³²⌋, most)
//	codes[i] = most + l if x[i] has no sign, else most − l
//
// perLevel is levels a unit, times 2³²; most is from 1 to 127. Half a draw serves
// an element: u is the lower half of draw j of key for element 2j of a block, the
// upper one for the next. first is the place of x[0] in it. It panics unless
// len(codes) == len(x).
func Levels(codes []byte, x []float32, perLevel float64, most int, key rng.Key, first uint64) {
	same("Levels", len(codes), len(x))
	n := 0
	if first&1 == 0 {
		n = whole(len(x), 32)
		levelsAVX2(codes, x[:n], perLevel, most, start(key, first>>1))
	}
	levelsGo(codes[n:], x[n:], perLevel, most, key, first+uint64(n))
}

func levelsGo(codes []byte, x []float32, perLevel float64, most int, key rng.Key, first uint64) {
	codes = codes[:len(x)]
	i, pair := 0, first>>1
	if first&1 == 1 && len(x) > 0 {
		codes[0] = level(x[0], perLevel, key.Uint64(pair)>>32, most)
		i, pair = 1, pair+1
	}
	for ; i+1 < len(x); i, pair = i+2, pair+1 {
		draw := key.Uint64(pair)
		codes[i] = level(x[i], perLevel, draw&(1<<32-1), most)
		codes[i+1] = level(x[i+1], perLevel, draw>>32, most)
	}
	if i < len(x) {
		codes[i] = level(x[i], perLevel, key.Uint64(pair)&(1<<32-1), most)
	}
}

func level(v float32, perLevel float64, draw uint64, most int) byte {
	u := math.Float32bits(v)
	r := min(float64(math.Float32frombits(u&magnitude))*perLevel, float64(most)*(1<<32))
	l := int32((uint64(int64(r)) + draw) >> 32)
	sign := int32(u) >> 31 // 0 or −1
	return byte(int32(most) + (l ^ sign - sign))
}

// AddLevels adds what codes stand for on an even scale:
//
//	for i: dst[i] += scale · float32(low + (codes[i] − zero)·unit)
//
// It panics unless len(codes) == len(dst).
func AddLevels(dst []float32, scale float32, codes []byte, zero int, low, unit float64) {
	same("AddLevels", len(codes), len(dst))
	n := whole(len(dst), 8)
	addLevelsAVX2(dst[:n], scale, codes, zero, low, unit)
	addLevelsGo(dst[n:], scale, codes[n:], zero, low, unit)
}

func addLevelsGo(dst []float32, scale float32, codes []byte, zero int, low, unit float64) {
	codes = codes[:len(dst)]
	for i, c := range codes {
		dst[i] += float32(scale * float32(low+float64(float64(int(c)-zero)*unit)))
	}
}
