package compress

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
)

// The levels are a fixed point of Lloyd's iteration: each is the mean of N(0,1)
// over its cell.
func TestLloydMaxLevels(t *testing.T) {
	density := func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
	below := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	for bits, levels := range lloydMax {
		for i, v := range levels {
			lo, hi := 0.0, math.Inf(1)
			if i > 0 {
				lo = float64(levels[i-1]+v) / 2
			}
			if i+1 < len(levels) {
				hi = float64(v+levels[i+1]) / 2
			}
			if want := (density(lo) - density(hi)) / (below(hi) - below(lo)); math.Abs(want-float64(v)) > 2e-7 {
				t.Errorf("%d bits, level %d is %v, want %v", bits, i, v, want)
			}
		}
	}
}

// The published errors: they hold for any distribution, that is what the
// rotation is for.
func TestEdenErrors(t *testing.T) {
	const d = 1 << 16
	b := Block{Name: "w", Rows: 1, Cols: d, World: 1, Seed: 3}
	key := rng.New(1, "eden test")
	inputs := map[string]func(i uint64) float64{
		"gaussian":  key.Norm,
		"lognormal": func(i uint64) float64 { return math.Exp(key.Norm(i)) },
		"sparse":    func(i uint64) float64 { return key.Norm(i) * math.Floor(key.With(1).Float64(i)*1.1) },
	}
	for scale, want := range map[string][5]float64{
		"unbiased": {1: 0.571, 0.133, 0.0358, 0.0096},
		"mse":      {1: 0.363, 0.1175, 0.0345, 0.0095},
	} {
		for bits := 1; bits <= 4; bits++ {
			for name, draw := range inputs {
				x, out := make([]float32, d), make([]float32, d)
				for i := range x {
					x[i] = float32(draw(uint64(i)))
				}
				c, err := Eden{Bits: bits, Scale: scale, Chunk: 4096}.New(b)
				if err != nil {
					t.Fatal(err)
				}
				p, err := c.Append(nil, x, Step{})
				if err != nil {
					t.Fatal(err)
				}
				if err := c.AddTo(out, 1, p, From{}); err != nil {
					t.Fatal(err)
				}
				var e, n float64
				for i, v := range x {
					e += (float64(v) - float64(out[i])) * (float64(v) - float64(out[i]))
					n += float64(v) * float64(v)
				}
				if got := e / n; math.Abs(got-want[bits]) > 0.05*want[bits] {
					t.Errorf("%s, %d bits, %s: error %.4f, want %.4f", scale, bits, name, got, want[bits])
				}
			}
		}
	}
}
