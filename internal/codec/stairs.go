package codec

import (
	"math"

	"github.com/gradlab/gradlab/internal/rng"
)

// Stairs is a table of whole numbers to round to, from −top to top.
type Stairs struct {
	top int
	// steps says of every whole number z from −top to top, at z + top, which is the last
	// entry that is not above it: its distance from −top << 16, how far the next entry
	// is from it << 8, 0 for the last one, and its place in the table.
	steps [256]uint32
}

// NewStairs takes up to 255 entries, which ascend from −top to top, at most 127.
func NewStairs(table []int) *Stairs {
	s := &Stairs{top: table[len(table)-1]}
	for place, from := range table {
		next := s.top + 1
		width := 0
		if place+1 < len(table) {
			next = table[place+1]
			width = next - from
		}
		for z := from; z < next; z++ {
			s.steps[z+s.top] = uint32(from+s.top)<<16 | uint32(width)<<8 | uint32(place)
		}
	}
	return s
}

// Round sets codes to the places of entries around y[i]·perUnit, at random, so that what
// they say is right on average:
//
//	v = y[i]·perUnit, at least −top and at most top, in float64
//	codes[i] = the place of the last entry e ≤ v, and one more if u·w < (v − e)·2³²
//
// with w from e to the next entry and u half i%2 of draw i/2 of key. u·w is exact: that
// is u/2³² < (v − e)/w without a division. No y is NaN; first, the place of y[0] in a
// block, is even. It panics unless len(codes) == len(y).
func (s *Stairs) Round(codes []byte, y []float32, perUnit float64, key rng.Key, first uint64) {
	same("Round", len(codes), len(y))
	if s.top <= 15 { // two registers hold so many steps
		n := climbAVX512(codes, y, perUnit, float64(s.top), &s.steps, start(key, first>>1))
		codes, y, first = codes[n:], y[n:], first+uint64(n)
	}
	n := climbAVX2(codes, y, perUnit, float64(s.top), &s.steps, start(key, first>>1))
	s.roundGo(codes[n:], y[n:], perUnit, key, first+uint64(n))
}

func (s *Stairs) roundGo(codes []byte, y []float32, perUnit float64, key rng.Key, first uint64) {
	var draw uint64
	top := float64(s.top)
	codes = codes[:len(y)]
	for i, v := range y {
		if draw >>= 32; i&1 == 0 {
			draw = key.Uint64((first + uint64(i)) >> 1)
		}
		x := max(-top, min(top, float64(float64(v)*perUnit)))
		step := s.steps[int(math.Floor(x))+s.top]
		width, from := uint64(step>>8&255), float64(int(step>>16)-s.top)
		codes[i] = byte(step)
		if float64(draw&(1<<32-1)*width) < (x-from)*0x1p32 {
			codes[i]++
		}
	}
}
