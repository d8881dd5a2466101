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

// Batches are the positions one by one, whether rounds are drawn or looked up.
func TestOrder(t *testing.T) {
	for _, d := range []int{1, 2, 7, 300, 4096, 70001} {
		set, key := newSubset(d), rng.New(uint64(d), "order")
		for _, k := range []int{1, d/100 + 1, d/2 + 1, d} {
			o, plain := set.order(key, k), set.under(key)
			for first := 0; first < k; first += batch {
				at := o.from(first)
				if len(at) != min(batch, k-first) {
					t.Fatalf("%d of %d from %d on: %d positions", k, d, first, len(at))
				}
				for j, i := range at {
					if want := plain.at(first + j); i != want {
						t.Fatalf("%d of %d: position %d is %d, want %d", k, d, first+j, i, want)
					}
				}
			}
			o.release()
		}
	}
}

func BenchmarkSubset(b *testing.B) {
	set := newSubset(1<<20 + 1).under(rng.New(1, "test"))
	for i := 0; b.Loop(); i++ {
		set.at(i & 8191)
	}
}

func BenchmarkOrder(b *testing.B) {
	const k = 1 << 19
	o := newSubset(1<<20+1).order(rng.New(1, "test"), k)
	for i := 0; b.Loop(); i = (i + batch) % k {
		o.from(i)
	}
}
