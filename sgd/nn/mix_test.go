package nn

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// The loss of a mixed target, and its gradient, are the mixture of those of the two.
func TestMixedLabelsMixTheLoss(t *testing.T) {
	t.Parallel()
	z := []float32{0.3, -1.2, 2.5, 0.1, -0.4}
	for _, smoothing := range []float64{0, 0.1} {
		for _, share := range []float64{0, 0.25, 1} {
			for _, other := range []int{2, 4} {
				const y, scale = 2, 0.5
				a, b, got := make([]float32, 5), make([]float32, 5), make([]float32, 5)
				la, lb := crossEntropy(z, y, smoothing, scale, a), crossEntropy(z, other, smoothing, scale, b)
				loss := crossEntropy(z, y, smoothing, scale, got)
				loss += mixLabel(z, y, other, smoothing, share, scale, got)
				if want := (1-share)*la + share*lb; math.Abs(loss-want) > 1e-9 {
					t.Errorf("smoothing %g, share %g, other %d: loss %v, want %v", smoothing, share, other, loss, want)
				}
				for k := range got {
					if want := (1-share)*float64(a[k]) + share*float64(b[k]); math.Abs(float64(got[k])-want) > 1e-6 {
						t.Errorf("smoothing %g, share %g, other %d: gradient %d is %v, want %v", smoothing, share, other, k, got[k], want)
					}
				}
			}
		}
	}
}

// A pass over a mixed batch is the mixture of two passes, and the next pass over one
// that is not mixed knows nothing of it.
func TestPassOverMixedBatch(t *testing.T) {
	t.Parallel()
	m, err := Models.MustParse("mlp(hidden=[7])").New(sgd.Sample{Shape: sgd.Shape{C: 1, H: 2, W: 3}, Classes: 4})
	if err != nil {
		t.Fatal(err)
	}
	params := make([]float32, m.Layout().Size())
	m.Init(params, 3)
	plain := sgd.Batch{X: []float32{1, 2, 3, 4, 5, 6, -1, 0.5, 2, -2, 1, 0}, Y: []int32{1, 3}, N: 2}
	turned, mixed := plain, plain
	turned.Y = []int32{0, 3}
	mixed.Other, mixed.Share = []int32{0, 3}, []float32{0.75, 0.5}
	scratch := m.NewScratch()
	pass := func(b sgd.Batch) (float64, []float32) {
		g := make([]float32, len(params))
		loss, err := m.Grad(t.Context(), sgd.Pass{Params: params, Grad: g, Scratch: scratch}, b)
		if err != nil {
			t.Fatal(err)
		}
		return loss, g
	}
	la, a := pass(plain)
	lb, b := pass(turned)
	lm, g := pass(mixed)
	again, _ := pass(plain)
	if want := 0.75*la + 0.25*lb; math.Abs(lm-want) > 1e-6 || again != la {
		t.Errorf("loss %v, want %v; then %v, want %v", lm, want, again, la)
	}
	for k := range g {
		if want := 0.75*a[k] + 0.25*b[k]; math.Abs(float64(g[k]-want)) > 1e-5 {
			t.Fatalf("gradient %d is %v, want %v", k, g[k], want)
		}
	}
	for _, bad := range []sgd.Batch{{Other: []int32{0}, Share: []float32{1, 1}}, {Other: []int32{0, 4}, Share: []float32{1, 1}}, {Other: []int32{0, 1}, Share: []float32{2, 1}}} {
		bad.X, bad.Y, bad.N = plain.X, plain.Y, 2
		if _, err := m.Grad(t.Context(), sgd.Pass{Params: params, Grad: g, Scratch: scratch}, bad); err == nil {
			t.Errorf("%v by %v passes", bad.Other, bad.Share)
		}
	}
}
