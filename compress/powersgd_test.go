package compress

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
)

// The warm start has the scale of the last gradient, which must not go into the
// next product: what is learned does not depend on units.
func TestPowerSGDInAnyUnits(t *testing.T) {
	b := Block{Rows: 32, Cols: 32, World: 1, Peer: -1, Seed: 1}
	var want []float32
	for _, e := range []int{0, -100, -60, 90} {
		c, err := PowerSGD{Rank: 2, Gain: 1}.New(b)
		if err != nil {
			t.Fatal(err)
		}
		var out []float32
		for step := range 4 {
			key, g := rng.New(1, "powersgd").With(uint64(step)), make([]float32, b.Len())
			for i := range g {
				g[i] = float32(math.Ldexp(float64(float32(key.Norm(uint64(i)))), e))
			}
			p, err := c.Append(nil, g, Step{N: step})
			if err != nil {
				t.Fatal(err)
			}
			out = make([]float32, len(g))
			if err := c.AddTo(out, 1, p, From{Step: step}); err != nil {
				t.Fatalf("gradients times 2^%d, step %d: %v", e, step, err)
			}
		}
		if want == nil {
			want = out
		}
		for i, v := range out {
			if w := float32(math.Ldexp(float64(want[i]), e)); v != w {
				t.Fatalf("gradients times 2^%d: element %d becomes %v, want %v", e, i, v, w)
			}
		}
	}
}
