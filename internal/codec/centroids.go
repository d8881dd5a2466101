package codec

import "math"

// Centroids is the positive levels of a symmetric quantiser, eight or fewer in
// ascending order, and behind them the seven or fewer cuts halfway between.
type Centroids [16]float32

// NewCentroids takes 1, 2, 4 or 8 positive levels.
func NewCentroids(levels []float32) *Centroids {
	c := new(Centroids)
	copy(c[:], levels)
	for i := range levels[1:] {
		c[8+i] = (levels[i] + levels[i+1]) / 2
	}
	return c
}

// Nearest codes every |y[i]|·inv, rounded to float32, by the number of the level
// nearest to it, with the sign of y[i] as the highest of so many bits, 1 to 4. It
// returns the sums of q·z and q², q the level and z the number, taken in float64
// over eight interleaved partial sums,
//
//	((s[0]+s[4])+(s[2]+s[6])) + ((s[1]+s[5])+(s[3]+s[7]))
//
// It panics unless len(codes) == len(y).
func (c *Centroids) Nearest(codes []byte, y []float32, inv float64, bits int) (dot, square float64) {
	same("Nearest", len(codes), len(y))
	var s [16]float64
	n, by := 0, (*[16]float32)(c)
	switch bits {
	case 1:
		n = nearest1AVX2(codes, y, inv, by, &s)
	case 2:
		n = nearest2AVX2(codes, y, inv, by, &s)
	case 3:
		n = nearest3AVX2(codes, y, inv, by, &s)
	case 4:
		n = nearest4AVX2(codes, y, inv, by, &s)
	}
	c.nearestGo(codes[n:], y[n:], inv, bits, &s)
	return total(s[:8]), total(s[8:])
}

func total(s []float64) float64 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// nearestGo starts at a multiple of eight.
func (c *Centroids) nearestGo(codes []byte, y []float32, inv float64, bits int, s *[16]float64) {
	cuts := c[8 : 8+1<<uint(bits-1)-1]
	for i, v := range y {
		u := math.Float32bits(v)
		z := float32(float64(math.Float32frombits(u&magnitude)) * inv)
		code := byte(0)
		for _, cut := range cuts {
			if z > cut {
				code++
			}
		}
		q := float64(c[code])
		s[i%8] += float64(q * float64(z)) // exact products
		s[8+i%8] += float64(q * q)
		codes[i] = code | byte(u>>31)<<uint(bits-1)
	}
}

// Lookup replaces codes below 16 by the values they stand for. It panics unless
// len(codes) == len(dst).
func Lookup(dst []float32, codes []byte, values *[16]float32) {
	same("Lookup", len(codes), len(dst))
	n := lookupAVX2(dst, codes, values)
	lookupGo(dst[n:], codes[n:], values)
}

func lookupGo(dst []float32, codes []byte, values *[16]float32) {
	for i, c := range codes {
		dst[i] = values[c&15]
	}
}
