package codec

import (
	"encoding/binary"
	"math"

	"github.com/gradlab/gradlab/internal/rng"
)

// Hadamard multiplies x by the Walsh–Hadamard matrix H of its length, a power of
// two, in place: n·log₂n additions. H·H = n·I; no scaling is done.
//
//	for h = 1, 2, 4 …: x[i], x[i+h] = x[i]+x[i+h], x[i]−x[i+h] for all i without bit h
func Hadamard(x []float32) {
	h := 1
	if hadamard64AVX2(x) > 0 {
		h = 64
	}
	for vectors := h > 1; vectors && h < len(x); {
		switch {
		case 8*h <= len(x) && butterflies8AVX2(x, h):
			h *= 8
		case 4*h <= len(x) && butterflies4AVX2(x, h):
			h *= 4
		case butterflies2AVX2(x, h):
			h *= 2
		default:
			vectors = false
		}
	}
	hadamardGo(x, h)
}

// hadamardGo does the levels at the distances from h on.
func hadamardGo(x []float32, h int) {
	for ; 4*h <= len(x); h *= 4 { // two levels a pass
		for i := 0; i < len(x); i += 4 * h {
			p, q, r, s := x[i:i+h:i+h], x[i+h:i+2*h], x[i+2*h:i+3*h], x[i+3*h:i+4*h]
			q, r, s = q[:len(p)], r[:len(p)], s[:len(p)]
			for j, a := range p {
				b, c, d := q[j], r[j], s[j]
				a, b = a+b, a-b
				c, d = c+d, c-d
				p[j], q[j], r[j], s[j] = a+c, b+d, a-c, b-d
			}
		}
	}
	if 2*h == len(x) {
		p, q := x[:h:h], x[h:]
		q = q[:len(p)]
		for j, a := range p {
			b := q[j]
			p[j], q[j] = a+b, a-b
		}
	}
}

// Flip changes the signs of elements at random: bit i%64 of draw i/64 of key says
// whether it does element i of a block. first is the place of x[0] in it, a
// multiple of 64.
func Flip(x []float32, key rng.Key, first int) {
	var bits [512]byte
	draw := uint64(first) / 64
	for len(x) > 0 {
		part := x[:min(len(x), 8*len(bits))]
		for i := 0; 8*i < len(part); i += 8 {
			binary.LittleEndian.PutUint64(bits[i:], key.Uint64(draw))
			draw++
		}
		n := flipAVX2(part, bits[:])
		flipGo(part[n:], bits[n/8:])
		x = x[len(part):]
	}
}

func flipGo(x []float32, bits []byte) {
	for i, v := range x {
		x[i] = math.Float32frombits(math.Float32bits(v) ^ uint32(bits[i>>3]>>(i&7))<<31)
	}
}

// ScaleTo sets y to a multiple of x, in float64 rounded to float32, as far as x
// goes.
func ScaleTo(y, x []float32, a float64) {
	n := scaleToAVX2(y, x, a)
	scaleToGo(y[n:], x[n:], a)
}

func scaleToGo(y, x []float32, a float64) {
	for i, v := range x {
		y[i] = float32(float64(v) * a)
	}
}
