package compress

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"pgregory.net/rapid"
)

// The fast transform is the matrix of the definition, and orthonormal.
func TestTilesAreCosineTransforms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 40).Draw(t, "rows"), rapid.IntRange(1, 40).Draw(t, "cols")
		side := rapid.IntRange(1, 24).Draw(t, "side")
		key := rng.New(rapid.Uint64().Draw(t, "seed"), "dct")
		g, y, back := make([]float32, rows*cols), make([]float32, rows*cols), make([]float32, rows*cols)
		for i := range g {
			g[i] = float32(key.Norm(uint64(i)))
		}
		c := newTiles(rows, cols, side)
		c.forward(y, g, c.space())
		c.inverse(back, y, c.space())
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
		c.each(func(r, col, h, w, at int) {
			k, l := rapid.IntRange(0, h-1).Draw(t, "k"), rapid.IntRange(0, w-1).Draw(t, "l")
			want := 0.0
			for i := range h {
				for j := range w {
					want += entry(k, i, h) * float64(g[(r+i)*cols+col+j]) * entry(l, j, w)
				}
			}
			if got := float64(y[at+l*h+k]); math.Abs(got-want) > 1e-5 {
				t.Fatalf("tile of %d×%d: coefficient %d, %d is %v, want %v", h, w, k, l, got, want)
			}
		})
	})
}
