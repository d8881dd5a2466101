package compress

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
)

// The first k positions are distinct and each position is equally likely: a
// sparsifier scaled by d/k is unbiased only then.
func TestSubset(t *testing.T) {
	base := rng.New(1, "test")
	for _, c := range [][2]int{{1, 1}, {2, 1}, {3, 1}, {5, 2}, {7, 1}, {8, 1}, {15, 2}, {65, 7}, {513, 6}} {
		d, k := c[0], c[1]
		set, n := newSubset(d), 200000/k
		count, all := make([]int, d), make([]bool, d)
		for s := range n {
			at := set.under(base.With(uint64(s)))
			for i := range k {
				count[at.at(i)]++
			}
		}
		at := set.under(base)
		for i := range d {
			j := at.at(i)
			if all[j] {
				t.Fatalf("d=%d: position %d twice", d, j)
			}
			all[j] = true
		}
		p := float64(k) / float64(d)
		sd := math.Sqrt(float64(n) * p * (1 - p))
		for i, x := range count {
			if z := math.Abs(float64(x) - float64(n)*p); z > 5*sd {
				t.Errorf("d=%d k=%d: position %d drawn %d times of %d, %.1f deviations off", d, k, i, x, n, z/sd)
			}
		}
	}
}

func BenchmarkSubset(b *testing.B) {
	set := newSubset(1<<20 + 1).under(rng.New(1, "test"))
	for i := 0; b.Loop(); i++ {
		set.at(i & 8191)
	}
}
