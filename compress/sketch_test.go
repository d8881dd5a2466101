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
	const n = 4000 // elements, over several stretches
	for _, rows := range []int{1, 3, 5, 7} {
		x, err := Sketch{Keep: 1e-3, Rows: rows, Width: 10, Fetch: 4}.NewExchange(Block{Rows: 1, Cols: n, World: 1})
		if err != nil {
			t.Fatal(err)
		}
		s, got := x.(*sketchExchange), make([]float32, n)
		all := make([][]float32, n)
		for lo := 0; lo < n; lo += sketchStretch {
			hi := min(lo+sketchStretch, n)
			for j := range rows {
				for i := lo; i < hi; i++ {
					v := values[k.IntN(uint64(i*sketchRows+j), len(values))]
					s.found[j][i-lo], all[i] = v, append(all[i], v)
				}
			}
			s.medians(got[lo:hi])
		}
		for i, v := range all {
			if slices.Sort(v); got[i] != v[rows/2] {
				t.Fatalf("median of %v is %v", v, got[i])
			}
		}
	}
}
