package compute

import (
	"slices"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// A step beside the parameters has the bits of one in place.
func TestRenewIsAdvance(t *testing.T) {
	t.Parallel()
	var l sgd.Layout
	l.Add("w", sgd.Weight, 300, 100)
	l.Add("b", sgd.Bias, 1, 77)
	l.Add("stat", sgd.Buffer, 1, 40)
	l.Add("v", sgd.Weight, 10, 10)
	for _, spec := range []string{"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "chain(parts=[decay,clip,momentum])", "chain(parts=[decay,adam])"} {
		rule, err := sgd.Optimizers.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		var steppers [2]*Stepper
		for i := range steppers {
			if steppers[i], err = NewStepper(rule, l, 2); err != nil {
				t.Fatal(err)
			}
		}
		key := rng.New(1, spec)
		params := make([]float32, l.Size())
		for i := range params {
			params[i] = float32(key.Norm(uint64(i)))
		}
		want := slices.Clone(params)
		for n := range 3 {
			g := make([]float32, l.Size())
			for i := range g {
				g[i] = float32(key.With(uint64(n)).Norm(uint64(i)))
			}
			s := sgd.Step{N: n, LR: 0.1}
			before := slices.Clone(params)
			steppers[0].Advance(slices.Clone(g), want, s)
			steppers[1].Renew(g, params, s)
			if !slices.Equal(params, before) {
				t.Fatalf("%s: renew changed the parameters themselves", spec)
			}
			if params = g; !slices.Equal(params, want) {
				t.Fatalf("%s: step %d differs", spec, n)
			}
		}
	}
}
