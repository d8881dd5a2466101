package compress

import (
	"math"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"pgregory.net/rapid"
)

// The fast transform is the matrix of the definition, and orthonormal.
func TestTilesAreCosineTransforms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 40).Draw(t, "rows"), rapid.IntRange(1, 40).Draw(t, "cols")
		if rapid.Bool().Draw(t, "vector") {
			rows, cols = 1, rows*cols
		}
		side := rapid.IntRange(1, 24).Draw(t, "side") // bands of one tile and of eight
		key := rng.New(rapid.Uint64().Draw(t, "seed"), "dct")
		g, y, back := make([]float32, rows*cols), make([]float32, rows*cols), make([]float32, rows*cols)
		for i := range g {
			g[i] = float32(key.Norm(uint64(i)))
		}
		c := newTiles(rows, cols, side)
		if !c.forward(y, g, c.space()) {
			t.Fatal("coefficients are not finite")
		}
		c.inverse(slices.Clone(y), c.space(), make([]float32, abreast*side), func(at int, x []float32) { copy(back[at:], x) })
		for i := range g {
			if math.Abs(float64(g[i]-back[i])) > 1e-5 {
				t.Fatalf("%d×%d, side %d: element %d comes back as %v, was %v", rows, cols, side, i, back[i], g[i])
			}
		}
		entry := func(k, i, n int) float64 {
			v := math.Sqrt(2/float64(n)) * math.Cos(math.Pi*float64(k)*float64(2*i+1)/float64(2*n))
			if k == 0 {
				v /= math.Sqrt2
			}
			return v
		}
		seen := 0
		c.each(func(p band) {
			tile := rapid.IntRange(0, p.n-1).Draw(t, "tile")
			p.from, p.at = p.from+tile*p.w, p.at+tile*p.w*p.h
			k, l := rapid.IntRange(0, p.h-1).Draw(t, "k"), rapid.IntRange(0, p.w-1).Draw(t, "l")
			want := 0.0
			for i := range p.h {
				m := entry(k, i, p.h)
				if rows == 1 { // stretches are not mixed
					m = map[bool]float64{i == k: 1}[true]
				}
				for j := range p.w {
					want += m * float64(g[p.from+i*p.stride+j]) * entry(l, j, p.w)
				}
			}
			at := l*p.h + k
			if rows == 1 {
				at = k*p.w + l
			}
			if got := float64(y[p.at+at]); math.Abs(got-want) > 1e-5 {
				t.Fatalf("tile of %d×%d: coefficient %d, %d is %v, want %v", p.h, p.w, k, l, got, want)
			}
			seen += p.n * p.h * p.w
		})
		if seen != rows*cols {
			t.Fatalf("%d×%d, side %d: tiles hold %d elements", rows, cols, side, seen)
		}
	})
}
