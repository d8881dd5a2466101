package compress

import (
	"slices"
	"testing"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/rng"
)

// Strip by strip the same elements are chosen as from the whole vector, with ties and
// where a sample misleads.
func TestSieve(t *testing.T) {
	var s sieve
	var sel selector
	for _, d := range []int{1, 9, 5000, shortest, 5*shortest + 3} {
		for law := range 4 {
			key, x := rng.New(uint64(law), "sieve"), make([]float32, d)
			for i := range x {
				x[i] = float32(key.Norm(uint64(i)))
				switch {
				case law == 1:
					x[i] = float32(key.IntN(uint64(i), 5) - 2)
				case law == 2 && i < d/2:
					x[i] *= 0.01
				case law == 3: // those of the sample are larger
					x[i] *= 0.1
				}
			}
			if law == 3 && d >= samples {
				for i := range samples {
					stretch := d / samples
					x[i*stretch+int(rng.Mix(uint64(i))%uint64(stretch))] *= 10
				}
			}
			for _, k := range []int{1, d/100 + 1, d/4 + 1, d} {
				for _, sampled := range []bool{false, true} {
					s.begin(d, k, sampled, func(i int) float32 { return x[i] })
					mask := make([]byte, (d+7)/8)
					for lo := 0; lo < d; lo += strip {
						hi := min(lo+strip, d)
						s.strip(mask[lo/8:(hi+7)/8], x[lo:hi], lo)
					}
					got := make([]uint32, s.end(mask, x))
					codec.Ones(got, mask)
					want, _ := sel.indices(nil, x, k)
					if sampled {
						want, _, _ = sel.about(nil, nil, x, k)
					}
					if !slices.Equal(got, want) {
						t.Fatalf("law %d, %d of %d, sampled %v: %d chosen, not the %d that are wanted", law, k, d, sampled, len(got), len(want))
					}
				}
			}
		}
	}
}
