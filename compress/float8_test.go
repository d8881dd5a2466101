package compress

import (
	"math"
	"sort"
	"testing"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/rng"
)

// The code found in cells is the one a search finds among the cuts, on both sides
// of each cut and anywhere.
func TestFloat8Codes(t *testing.T) {
	for name, table := range tables8 {
		x := []float32{0, math.SmallestNonzeroFloat32, 1}
		for _, cut := range table.cuts {
			x = append(x, cut, math.Nextafter32(cut, 0), math.Nextafter32(cut, 1))
		}
		key := rng.New(4, "float8")
		for i := range uint64(100000) {
			x = append(x, float32(math.Exp(-20*key.Float64(i))))
		}
		codes := make([]byte, len(x))
		codec.EightBit(codes, x, 1, table.find())
		for i, v := range x {
			want := sort.Search(len(table.cuts), func(j int) bool { return table.cuts[j] > v })
			if int(codes[i]) != want {
				t.Fatalf("%s: %v has code %d, want %d", name, v, codes[i], want)
			}
		}
	}
}

func TestFloat8Allowed(t *testing.T) {
	for _, n := range []int{124, 127, 128} {
		for at := range 19 {
			for code := range 256 {
				codes := make([]byte, 19)
				codes[at] = byte(code)
				if allowed(codes, n) != (code&127 < n) {
					t.Fatalf("code %d of %d at %d", code, n, at)
				}
			}
		}
	}
}

// All formats are contractions, so feedback takes them: the bound holds where every
// element but the largest lies beside a cut.
func TestFloat8InFeedback(t *testing.T) {
	for name, table := range tables8 {
		f := Float8{Format: name, Bucket: 4096}
		b := Block{Rows: 1, Cols: 4096, World: 1, Seed: 1}
		if _, err := (Feedback{In: f, Decay: 1}).New(b); err != nil {
			t.Error(err)
		}
		c, err := f.New(b)
		if err != nil {
			t.Fatal(err)
		}
		delta, worst := f.Claims(b).Delta, 0.0
		for _, cut := range table.cuts {
			g := constant(b.Len(), math.Nextafter32(cut, 0))
			g[0] = 1
			p, err := c.Append(nil, g, Step{})
			if err != nil {
				t.Fatal(err)
			}
			all := norm(g)
			if err := c.AddTo(g, -1, p, From{}); err != nil {
				t.Fatal(err)
			}
			share := norm(g) / all
			worst = max(worst, share*share)
		}
		if worst > 1-delta {
			t.Errorf("%s: error of %.4g of the squared norm, claims at most %.4g", name, worst, 1-delta)
		}
	}
}
