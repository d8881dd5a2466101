package pool

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestKernelsAreTheirTwins compares bits, on values with ties and NaN.
func TestKernelsAreTheirTwins(t *testing.T) {
	values := rapid.SampledFrom([]float32{0, 1, -1, 2, -2, 0.5, float32(math.Copysign(0, -1)),
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())})
	rapid.Check(t, func(t *rapid.T) {
		c, w, h := rapid.IntRange(1, 37).Draw(t, "c"), rapid.IntRange(1, 4).Draw(t, "w"), rapid.IntRange(1, 4).Draw(t, "h")
		stride := w*c + rapid.IntRange(0, 9).Draw(t, "gap")
		relu := rapid.Bool().Draw(t, "relu")
		size := (h-1)*stride + w*c
		x := rapid.SliceOfN(values, size, size).Draw(t, "x")

		y, at := make([]float32, c), make([]uint8, c)
		Max(y, at, x, w, h, stride, relu)
		wantY, wantAt := make([]float32, c), make([]uint8, c)
		maxGo(0, wantY, wantAt, x, w, h, stride, relu)
		if !equal(y, wantY) || !slices.Equal(at, wantAt) {
			t.Errorf("Max: %v at %v, want %v at %v", y, at, wantY, wantAt)
		}

		dy := rapid.SliceOfN(values, c, c).Draw(t, "dy")
		dx, want := slices.Clone(x), slices.Clone(x)
		add := rapid.Bool().Draw(t, "add")
		MaxGrad(dx, dy, at, w, h, stride, add)
		maxGradGo(0, want, dy, at, w, h, stride, add)
		if !equal(dx, want) {
			t.Errorf("MaxGrad: %v, want %v", dx, want)
		}
	})
}

// equal compares bits, taking one NaN for another.
func equal(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(a, b float32) bool {
		return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
	})
}

func TestMaxTakesTheFirstOfEquals(t *testing.T) {
	nan := float32(math.NaN())
	x := []float32{ // 2×2 pixels of four channels
		1, 5, -3, 0, 2, 5, -4, nan,
		2, 1, -1, nan, 0, 5, -2, 7,
	}
	y, at := make([]float32, 4), make([]uint8, 4)
	Max(y, at, x, 2, 2, 8, true)
	if !equal(y, []float32{2, 5, 0, nan}) || !slices.Equal(at, []uint8{1, 0, 2, 1}) {
		t.Errorf("%v at %v", y, at)
	}
}

func BenchmarkMax(b *testing.B) {
	const c = 32
	x, y, at := make([]float32, 28*28*c), make([]float32, c), make([]uint8, c)
	for b.Loop() {
		Max(y, at, x, 2, 2, 28*c, true)
		MaxGrad(x, y, at, 2, 2, 28*c, false)
	}
}
