package codec

import (
	"math"
	"math/bits"

	"github.com/gradlab/gradlab/internal/rng"
)

// fractions is where the random bits of a block's elements come from: 32 for each,
// uniform by themselves. A draw of key serves four elements: of the eight halves
// that four draws are, half h serves the elements h and h+8 of sixteen, the second
// with its own halves exchanged. So what two elements share is the upper 16 bits of
// one as the lower ones of the other: each is rounded exactly without bias, and one
// says nothing about the other beyond 2⁻¹⁶ of a level.
type fractions struct {
	key    rng.Key
	group  uint64 // one more than the number of the sixteen elements in halves
	halves [8]uint32
}

// of is the bits of element i of the block.
func (f *fractions) of(i uint64) uint32 {
	if f.group != i>>4+1 {
		f.draw(i >> 4)
	}
	return bits.RotateLeft32(f.halves[i&7], int(i&8<<1))
}

func (f *fractions) draw(group uint64) {
	f.group = group + 1
	for j := range uint64(4) {
		draw := f.key.Uint64(group<<2 + j)
		f.halves[2*j], f.halves[2*j+1] = uint32(draw), uint32(draw>>32)
	}
}

// Scale is how numbers become fixed-point levels: |x|·Pre·PerLevel, of which Pre
// is a power of two that keeps the other factor in range.
type Scale struct{ Pre, PerLevel float32 }

// NewScale makes norm so many levels, with so many fraction bits; levels·2^bits is
// below 2³¹. Nothing is far from a norm of 0: it makes everything 0.
func NewScale(levels, bits int, norm float64) Scale {
	s := Scale{Pre: 1}
	switch {
	case norm == 0:
		return s
	case norm < 0x1p-60:
		s.Pre = 0x1p64
	case norm >= 0x1p126:
		s.Pre = 0x1p-2
	}
	s.PerLevel = float32(math.Ldexp(float64(levels), bits) / (norm * float64(s.Pre)))
	return s
}

// Levels rounds magnitudes at random to whole levels, without bias, in fixed
// point with 24 fraction bits, and writes them with their signs above most:
//
//	r = min(|x[i]|·Pre·PerLevel, most·2²⁴), as float32, to the nearest whole number
//	l = ⌊(r + u)/2²⁴⌋, u the upper 24 bits of the element's fraction
//	codes[i] = most + l if x[i] has no sign, else most − l
//
// most is from 1 to 127; first is the place of x[0] in a block. It panics unless
// len(codes) == len(x).
func Levels(codes []byte, x []float32, s Scale, most int, key rng.Key, first uint64) {
	same("Levels", len(codes), len(x))
	n := 0
	if first&15 == 0 { // a kernel draws for sixteen at a time
		n = levelsAVX2(codes, x, s.Pre, s.PerLevel, most, start(key, first>>2))
	}
	levelsGo(codes[n:], x[n:], s, most, key, first+uint64(n))
}

func levelsGo(codes []byte, x []float32, s Scale, most int, key rng.Key, first uint64) {
	top, f := float32(most)*(1<<24), fractions{key: key}
	codes = codes[:len(x)]
	for ; first&15 == 0 && len(x) >= 16; first, x, codes = first+16, x[16:], codes[16:] {
		f.draw(first >> 4)
		x, codes := (*[16]float32)(x), (*[16]byte)(codes)
		for h, u := range f.halves {
			codes[h] = s.level(x[h], top, most, u)
			codes[h+8] = s.level(x[h+8], top, most, u<<16|u>>16)
		}
	}
	for i, v := range x {
		codes[i] = s.level(v, top, most, f.of(first+uint64(i)))
	}
}

func (s *Scale) level(v, top float32, most int, fraction uint32) byte {
	u := math.Float32bits(v)
	r := float32(math.Float32frombits(u&magnitude)*s.Pre) * s.PerLevel
	if r > top {
		r = top
	}
	l := int32((nearest(r) + fraction>>8) >> 24)
	sign := int32(u) >> 31 // 0 or −1
	return byte(int32(most) + (l ^ sign - sign))
}

// nearest is the whole number nearest to x, from 0 to 2³¹, ties to even: what is
// added to 2⁵² is rounded to one.
func nearest(x float32) uint32 { return uint32(math.Float64bits(float64(x) + 1<<52)) }

// AddLevels adds what codes of so many bits stand for on an even scale:
//
//	for i: dst[i] += scale · float32(low + (codes[i] − zero)·unit)
//
// It panics unless len(codes) == len(dst).
func AddLevels(dst []float32, scale float32, codes []byte, width, zero int, low, unit float64) {
	same("AddLevels", len(codes), len(dst))
	if width > 4 || len(dst) < 64 {
		n := addLevelsAVX2(dst, scale, codes, zero, low, unit)
		addLevelsGo(dst[n:], scale, codes[n:], zero, low, unit)
		return
	}
	var values [16]float32
	for c := range 1 << width {
		values[c] = value(byte(c), scale, zero, low, unit)
	}
	n := addLookupAVX2(dst, codes, &values)
	addLookupGo(dst[n:], codes[n:], &values)
}

func addLevelsGo(dst []float32, scale float32, codes []byte, zero int, low, unit float64) {
	codes = codes[:len(dst)]
	for i, c := range codes {
		dst[i] += value(c, scale, zero, low, unit)
	}
}

func value(code byte, scale float32, zero int, low, unit float64) float32 {
	return float32(scale * float32(low+float64(float64(int(code)-zero)*unit)))
}

func addLookupGo(dst []float32, codes []byte, values *[16]float32) {
	codes = codes[:len(dst)]
	for i, c := range codes {
		dst[i] += values[c&15]
	}
}
