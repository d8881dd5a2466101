package codec

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/internal/cpu"
	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/internal/rng"
)

// The step by step transform gives the bits of the recursion that defines it, whatever
// the length and the number of columns.
func TestCosines(t *testing.T) {
	cpu.Each(func(kind string) { t.Run(kind, rapid.MakeCheck(cosinesAreTheRecursion)) })
}

func cosinesAreTheRecursion(t *rapid.T) {
	n := rapid.OneOf(rapid.IntRange(1, 40), rapid.SampledFrom([]int{48, 64, 96, 128, 256})).Draw(t, "n")
	w := rapid.IntRange(1, 20).Draw(t, "w")
	key := rng.New(rapid.Uint64().Draw(t, "seed"), "cosines")
	x := make([]float64, n*w)
	for i := range x {
		if x[i] = key.Norm(uint64(i)); i%7 == 0 {
			x[i] = math.Copysign(0, x[i])
		}
	}
	c := NewCosines(n)
	space := make([]float64, c.Space())
	for name, way := range map[string]struct{ fast, slow func(x []float64) }{
		"forward": {func(x []float64) { c.Forward(x, w, space) }, func(x []float64) { columns(x, w, lee) }},
		"back":    {func(x []float64) { c.Back(x, w, space) }, func(x []float64) { columns(x, w, leeBack) }},
	} {
		got, want := slices.Clone(x), slices.Clone(x)
		way.fast(got)
		way.slow(want)
		for i := range got {
			if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
				t.Fatalf("%s, %d rows of %d: element %d is %v, want %v", name, n, w, i, got[i], want[i])
			}
		}
	}
}

// lee is Lee's recursion on one column, made orthonormal.
func lee(x []float64) {
	halve(x)
	orthonormal(x)
}

func halve(x []float64) {
	n := len(x)
	if n%2 == 1 {
		out := make([]float64, n)
		for k := range out {
			for i, v := range x {
				out[k] += float64(portable.CosPi(float64(k*(2*i+1)%(4*n))/float64(2*n)) * v)
			}
		}
		copy(x, out)
		return
	}
	a, b := make([]float64, n/2), make([]float64, n/2+1)
	for i := range a {
		a[i], b[i] = x[i]+x[n-1-i], (x[i]-x[n-1-i])*(0.5/portable.CosPi(float64(2*i+1)/float64(2*n)))
	}
	halve(a)
	halve(b[:n/2])
	for i, v := range a {
		if x[2*i], x[2*i+1] = v, b[i]; i+1 < n/2 {
			x[2*i+1] += b[i+1]
		}
	}
}

// leeBack is its transpose.
func leeBack(x []float64) {
	orthonormal(x)
	halveBack(x)
}

func halveBack(x []float64) {
	n := len(x)
	if n%2 == 1 {
		out := make([]float64, n)
		for k := range out {
			for i, v := range x {
				out[k] += float64(portable.CosPi(float64(i*(2*k+1)%(4*n))/float64(2*n)) * v)
			}
		}
		copy(x, out)
		return
	}
	a, b := make([]float64, n/2), make([]float64, n/2)
	for i := range a {
		if a[i], b[i] = x[2*i], x[2*i+1]; i > 0 {
			b[i] += x[2*i-1]
		}
	}
	halveBack(a)
	halveBack(b)
	for i, v := range a {
		d := float64(b[i] * (0.5 / portable.CosPi(float64(2*i+1)/float64(2*n))))
		x[i], x[n-1-i] = v+d, v-d
	}
}

// columns runs fn on each column.
func columns(x []float64, w int, fn func(col []float64)) {
	col := make([]float64, len(x)/w)
	for j := range w {
		for i := range col {
			col[i] = x[i*w+j]
		}
		fn(col)
		for i, v := range col {
			x[i*w+j] = v
		}
	}
}

// orthonormal scales a column of plain cosines.
func orthonormal(col []float64) {
	for i := range col {
		col[i] *= math.Sqrt(2 / float64(len(col)))
	}
	col[0] *= math.Sqrt2 / 2
}

func BenchmarkCosines(b *testing.B) {
	for _, n := range []int{8, 12, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c, x := NewCosines(n), make([]float64, n*n)
			space := make([]float64, c.Space())
			b.SetBytes(int64(8 * len(x)))
			for b.Loop() {
				c.Forward(x, n, space)
			}
		})
	}
}
