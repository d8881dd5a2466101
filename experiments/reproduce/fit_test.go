package reproduce

import (
	"context"
	"errors"
	"math"
	"testing"
)

// A value is found where the ratio is 1, whichever way it goes, and what cannot be
// computed ends the search.
func TestSolve(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ratio func(x float64) float64
		want  float64
	}{
		"rises":  {func(x float64) float64 { return x / 5 }, 5},
		"falls":  {func(x float64) float64 { return math.Sqrt(0.3 / x) }, 0.3},
		"bends":  {func(x float64) float64 { return (1 + x*x) / 10 }, 3},
		"is met": {func(float64) float64 { return 1 }, 2},
	} {
		got, err := solve(t.Context(), 2, func(x float64) (float64, error) { return c.ratio(x), nil })
		if err != nil || math.Abs(c.ratio(got)-1) > 0.005 {
			t.Errorf("%s: %g, %v; want %g", name, got, err, c.want)
		}
	}
	broken := errors.New("broken")
	if _, err := solve(t.Context(), 2, func(float64) (float64, error) { return 0, broken }); err != broken {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := solve(ended, 2, func(x float64) (float64, error) { return x, nil }); err == nil {
		t.Error("a search goes on after its end")
	}
}

// What may be fitted are points that there are.
func TestFitOptions(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"ddl": true, "ddl(fit=[64,256])": true, "ddl(fit=[8,16])": true, "ddl(fit=[64])": false, "ddl(fit=[256,8])": false, "ddl(fit=[64,100])": false,
		"goyal-time": true, "goyal-time(fit=352)": true, "goyal-time(fit=8)": false,
		"horovod": true, "horovod(fit=resnet101)": true, "horovod(fit=vgg16)": false,
		"diloco-measured(fit=[200])": true, "diloco-measured(fit=[100])": false,
	} {
		if _, err := Studies.Parse(text); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, m := range horovodModels {
		if k := (Horovod{Fit: "resnet101"}).kind(m); (k == Fitted) == (m.profile == "inception3") {
			t.Errorf("%s is %s where resnet101 is fitted", m.name, k)
		}
	}
}
