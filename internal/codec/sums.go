package codec

import "math"

// SumOver adds to sum, one after the other, how far the magnitudes of x are beyond from.
func SumOver(x []float32, from, sum float64) float64 {
	n, s := sumOverAVX2(x, from, sum)
	if n > 0 {
		sum = s
	}
	return sumOverGo(x[n:], from, sum)
}

func sumOverGo(x []float32, from, sum float64) float64 {
	for _, v := range x {
		sum += math.Abs(float64(v)) - from
	}
	return sum
}
