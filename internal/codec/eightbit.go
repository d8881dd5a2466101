package codec

import "math"

// Eight-bit floats: a sign and seven bits that stand for a share of the largest
// magnitude.

// Cells finds the code of a share in [0, 1] by the upper half of its bits as a
// float32. A cell holds the shares with the same upper half; behind its first at
// most one is where the next code begins. Cells[u]>>24 is the code of the first
// share in cell u, and the rest grows beyond 2²⁴ where the next code is reached.
type Cells [1 << 14]uint32

// NewCells makes the cells of codes of which the i-th, from 1 on, begins at
// cuts[i−1], ascending and above 0. It returns nil if two cuts share a cell, or
// there are more than 127.
func NewCells(cuts []float32) *Cells {
	if len(cuts) > 127 {
		return nil
	}
	t, code := new(Cells), 0
	for u := range t {
		for code < len(cuts) && math.Float32bits(cuts[code]) <= uint32(u)<<16 {
			code++
		}
		t[u] = uint32(code) << 24
		if code < len(cuts) && math.Float32bits(cuts[code])>>16 == uint32(u) {
			t[u] += 1<<24 - math.Float32bits(cuts[code])&0xffff
		}
		if code+1 < len(cuts) && math.Float32bits(cuts[code+1])>>16 <= uint32(u) {
			return nil
		}
	}
	return t
}

// EightBit encodes the share of each element:
//
//	b = the bits of float32(|x[i]|·inv), at most those of 1
//	codes[i] = sign<<7 | (cells[b>>16] + b&0xffff)>>24
//
// It panics unless len(codes) == len(x).
func EightBit(codes []byte, x []float32, inv float64, cells *Cells) {
	same("EightBit", len(codes), len(x))
	n := eightBitAVX2(codes, x, inv, (*[1 << 14]uint32)(cells))
	eightBitGo(codes[n:], x[n:], inv, cells)
}

func eightBitGo(codes []byte, x []float32, inv float64, cells *Cells) {
	codes = codes[:len(x)]
	for i, v := range x {
		u := math.Float32bits(v)
		b := math.Float32bits(float32(float64(math.Float32frombits(u&magnitude)) * inv))
		codes[i] = byte((cells[b>>16&(1<<14-1)]+b&0xffff)>>24 | u>>31<<7)
	}
}

// AddEightBit adds values[codes[i]] to dst[i]. It panics unless len(codes) ==
// len(dst).
func AddEightBit(dst []float32, codes []byte, values *[256]float32) {
	same("AddEightBit", len(codes), len(dst))
	n := addEightBitAVX2(dst, codes, values)
	addEightBitGo(dst[n:], codes[n:], values)
}

func addEightBitGo(dst []float32, codes []byte, values *[256]float32) {
	codes = codes[:len(dst)]
	for i, c := range codes {
		dst[i] += values[c]
	}
}
