package compresstest_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
)

// shared keeps the largest values of each row and rounds them on one scale for the whole
// matrix, seven levels to each side. What it claims is for the test to say.
type shared struct {
	keep  float64
	round func(float64) float64
	delta func(d int) float64
}

func (f shared) Claims(b block) claims { return claims{Delta: f.delta(b.Len()), Size: 4 * b.Len()} }

func (f shared) New(b block) (codec, error) {
	in, err := compress.Raw{}.New(b)
	return plantedCodec{in, b, planted{append: func(in codec, b block, dst []byte, g []float32, s step) ([]byte, error) {
		q, most := make([]float32, len(g)), 0.0
		for _, v := range g {
			most = max(most, math.Abs(float64(v)))
		}
		for row := range b.Rows {
			at := row * b.Cols
			order := make([]int, b.Cols)
			for i := range order {
				order[i] = at + i
			}
			slices.SortStableFunc(order, func(i, j int) int { return int(math.Copysign(1, math.Abs(float64(g[j]))-math.Abs(float64(g[i])))) })
			for _, i := range order[:int(math.Ceil(f.keep*float64(b.Cols)))] {
				if most > 0 {
					q[i] = float32(f.round(float64(g[i])/most*7) / 7 * most)
				}
			}
		}
		return in.Append(dst, q, s)
	}}}, err
}

// A contraction that holds for the values a codec keeps, and not for the scale that they
// share, is caught by spikes over a floor; one that only the worst floor refutes, by the
// search. What holds on every input passes.
func TestWorst(t *testing.T) {
	share := func(int) float64 { return 0.05 }
	// Rounded to nearest, values of just below half a level come out 0: δ is what is left of
	// one spike over d−1 of them.
	least := func(d int) float64 { return 1 / (1 + float64(d-1)/(14*14)) }
	check := compresstest.Checks[slices.IndexFunc(compresstest.Checks, func(c compresstest.Check) bool { return c.Name == "worst" })]
	for _, c := range []struct {
		name   string
		f      compress.Family
		honest bool
	}{
		{"the share kept, rounded", shared{0.05, math.Round, share}, false},
		{"the share kept, rounded down", shared{0.05, math.Floor, share}, false},
		{"all kept, on a shared scale", shared{1, math.Round, least}, true},
		{"a little more than that, of small blocks", shared{1, math.Round, func(d int) float64 {
			if d < 1000 {
				return 1.1 * least(d)
			}
			return least(d)
		}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := check.Run(c.f); (err == nil) != c.honest {
				t.Errorf("the check says %v", err)
			} else if err != nil {
				t.Log(err)
			}
		})
	}
}
