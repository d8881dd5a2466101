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
