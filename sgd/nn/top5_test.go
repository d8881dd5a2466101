package nn

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// within agrees with sorting the classes, and with correct where n is 1.
func TestWithin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		z := rapid.SliceOfN(rapid.Map(rapid.IntRange(-3, 3), func(i int) float32 { return float32(i) }), 1, 20).Draw(t, "z")
		y := rapid.IntRange(0, len(z)-1).Draw(t, "y")
		order := make([]int, len(z))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(z[b], z[a]) })
		for n := 1; n <= len(z); n++ {
			if got, want := within(z, y, n), slices.Contains(order[:n], y); got != want {
				t.Fatalf("class %d of %v among the best %d: %v, want %v", y, z, n, got, want)
			}
		}
		if within(z, y, 1) != correct(z, y) {
			t.Fatal("top-1 is not accuracy")
		}
	})
	if nan := float32(math.NaN()); within([]float32{nan, nan}, 0, 2) {
		t.Error("NaN is right")
	}
}
