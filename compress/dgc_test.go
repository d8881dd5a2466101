package compress

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
)

// The paper's fractions in the warm-up, and what follows.
func TestDGCWarmup(t *testing.T) {
	f := DGC{Keep: 0.001, Warmup: 4}
	for epoch, want := range map[float64]float64{0: 0.25, 1.5: 0.0625, 2: 0.0156, 3.9: 0.004, 4: 0.001, 50: 0.001} {
		if got := f.keep(epoch); math.Abs(got-want) > 0.02*want {
			t.Errorf("epoch %v keeps %v, want %v", epoch, got, want)
		}
	}
}

// Against the algorithm in its plainest form, float64 and a full sort.
func TestDGCIsThePaper(t *testing.T) {
	const d, m = 50, 0.9
	c, err := DGC{Keep: 0.1, Momentum: m, Clip: 6}.New(Block{Name: "w", Rows: 1, Cols: d, World: 4, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var u, v [d]float64
	key := rng.New(5, "dgc test")
	for step := range 40 {
		g, got := make([]float32, d), make([]float32, d)
		var square float64
		for i := range g {
			g[i] = float32(key.With(uint64(step)).Norm(uint64(i)))
			square += float64(g[i]) * float64(g[i])
		}
		p, err := c.Append(nil, g, Step{N: step})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddTo(got, 1, p, From{Step: step}); err != nil {
			t.Fatal(err)
		}
		scale := min(1, 6/math.Sqrt(4)/math.Sqrt(square))
		for i := range g {
			u[i] = m*u[i] + scale*float64(g[i])
			v[i] += u[i]
		}
		sent := 0
		for i := range v {
			larger := 0
			for _, w := range v {
				if math.Abs(w) > math.Abs(v[i]) {
					larger++
				}
			}
			want := 0.0
			if larger < 5 {
				want = v[i]
			}
			if math.Abs(want-float64(got[i])) > 1e-4 {
				t.Fatalf("step %d, element %d: sent %v, want %v", step, i, got[i], want)
			}
			if want != 0 {
				sent++
			}
		}
		for i := range v {
			if got[i] != 0 {
				u[i], v[i] = 0, 0
			}
		}
		if sent != 5 {
			t.Fatalf("step %d: %d sent", step, sent)
		}
	}
}
