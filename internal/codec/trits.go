package codec

import "encoding/binary"

// Three levels, as the codes 0, 1 and 2; five to a byte, the first in the lowest
// digit.

// Ternary cuts at ±half ≥ 0:
//
//	codes[i] = 1 + [x[i] ≥ half] − [x[i] ≤ −half]
//
// It panics unless len(codes) == len(x).
func Ternary(codes []byte, x []float32, half float32) {
	same("Ternary", len(codes), len(x))
	n := ternaryAVX2(codes, x, half)
	ternaryGo(codes[n:], x[n:], half)
}

func ternaryGo(codes []byte, x []float32, half float32) {
	for i, v := range x {
		code := byte(1)
		if v >= half {
			code++
		}
		if v <= -half {
			code--
		}
		codes[i] = code
	}
}

// TritLen is the length in bytes of n codes of three levels.
func TritLen(n int) int { return (n + 4) / 5 }

// PackTrits writes codes below 3. It panics unless len(dst) == TritLen(len(codes)).
func PackTrits(dst, codes []byte) {
	same("PackTrits", len(dst), TritLen(len(codes)))
	// Byte 4 of the product is the sum of the codes times the powers of three;
	// the bytes below it do not carry.
	const powers = 1<<32 | 3<<24 | 9<<16 | 27<<8 | 81
	for len(codes) >= 8 {
		dst[0] = byte(binary.LittleEndian.Uint64(codes) * powers >> 32)
		dst, codes = dst[1:], codes[5:]
	}
	for i := range dst {
		weight := byte(1)
		dst[i] = 0
		for _, c := range codes[:min(5, len(codes))] {
			dst[i] += c * weight
			weight *= 3
		}
		codes = codes[min(5, len(codes)):]
	}
}

// UnpackTrits reads codes below 3 from bytes below 243. It panics unless
// len(p) == TritLen(len(codes)).
func UnpackTrits(codes, p []byte) {
	same("UnpackTrits", len(p), TritLen(len(codes)))
	for len(codes) >= 8 {
		binary.LittleEndian.PutUint64(codes, trits[p[0]])
		codes, p = codes[5:], p[1:]
	}
	for i := range codes {
		codes[i] = byte(trits[p[i/5]] >> (8 * uint(i%5)))
	}
}

// trits is the five digits of a byte, a byte each.
var trits = func() (t [256]uint64) {
	for code := range t {
		for i, c := 0, code; i < 5; i, c = i+1, c/3 {
			t[code] |= uint64(c%3) << (8 * i)
		}
	}
	return
}()
