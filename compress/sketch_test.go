package compress

import (
	"math"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
)

// The middle one of every order of values, zeros of both signs and equal ones with them.
func TestMedians(t *testing.T) {
	values := []float32{-math.MaxFloat32, -2, -1e-40, float32(math.Copysign(0, -1)), 0, 1e-40, 2, 2, math.MaxFloat32}
	k := rng.New(1, "medians")
	for n := range uint64(20000) {
		var v [sketchRows]float32
		for i := range v {
			v[i] = values[k.IntN(n*sketchRows+uint64(i), len(values))]
		}
		for rows, got := range map[int]float32{3: median3(&v), 5: median5(&v)} {
			sorted := slices.Clone(v[:rows])
			slices.Sort(sorted)
			if want := sorted[rows/2]; got != want {
				t.Fatalf("median of %v is %v, want %v", v[:rows], got, want)
			}
			if all := median(slices.Clone(v[:rows])); all != got {
				t.Fatalf("median of %v by sorting is %v, want %v", v[:rows], all, got)
			}
		}
	}
}
