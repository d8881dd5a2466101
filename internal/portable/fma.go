package portable

import "math"

// Fused multiply-adds of float32. Kernels round a product and its sum once, so plain Go has
// to. There it takes two steps: the product of two float32 is exact in float64, and the sum
// is rounded to float64 and then to float32. A second rounding goes wrong only where the
// first one made a tie, or where the result is denormal, whose ties lie elsewhere: that is
// looked for, and then the sum is rounded to odd, which a second rounding cannot upset.

// sum returns p + z, rounded once to float32, for a p that is a product of two float32.
func sum(p, z float64) float32 {
	s := p + z
	if b := math.Float64bits(s); isTie(b) || isTiny(b) {
		return float32(OddSum(p, z))
	}
	return float32(s)
}

// isTie reports whether a float64 is halfway between two normal float32.
func isTie(b uint64) bool { return b<<35 == 1<<63 }

// isTiny reports whether a float64 that is not 0 rounds to a denormal float32 or less.
func isTiny(b uint64) bool { return b<<1-1 < leastNormal<<1-1 }

const leastNormal = (1023 - 126) << 52 // the bits of 2⁻¹²⁶

// OddSum returns x + y, and where that is not exact the neighbour whose last bit is set:
// rounded to float32 that is the exact sum rounded once.
func OddSum(x, y float64) float64 {
	x = float64(x) // a product of the caller's is rounded
	s := x + y
	t := s - x
	lost := (x - (s - t)) + (y - t)
	if bits := math.Float64bits(s); lost != 0 && lost == lost && bits&1 == 0 {
		if (lost > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		return math.Float64frombits(bits)
	}
	return s
}
