package sgd_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// Parameters are those of published implementations after every step, but for the
// rounding of float32: testdata/published.py made them.
func TestPublished(t *testing.T) {
	b, err := os.ReadFile("testdata/published.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string][][]float64
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	for text, want := range golden {
		t.Run(text, func(t *testing.T) {
			var l sgd.Layout
			l.Add("w", sgd.Weight, 3, 5)
			l.Add("b", sgd.Bias, 1, 6)
			tr, err := sgd.Optimizers.MustParse(text).New(l)
			if err != nil {
				t.Fatal(err)
			}
			params, u := make([]float32, 21), make([]float32, 21)
			for i := range 15 {
				params[i] = float32((i*7)%11-5) / 4
			}
			for i := range 6 {
				params[15+i] = float32((i*3)%5-2) / 8
			}
			for n, row := range want {
				for i := range 15 {
					u[i] = float32((i*5+n*3)%13-6) / 16
				}
				for i := range 6 {
					u[15+i] = float32((i*5+n*3+1)%13-6) / 16
				}
				sgd.Advance(tr, u, params, sgd.Step{N: n, LR: 0.05 / float64(1+n%3)})
				for i, w := range row {
					if got := float64(params[i]); math.Abs(got-w) > 2e-6*(1+math.Abs(w)) {
						t.Fatalf("step %d, value %d: %v, published %v", n, i, got, w)
					}
				}
			}
		})
	}
}
