package lrschedule_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/lrschedule"
)

func times(t *testing.T, text string) lrschedule.Times {
	t.Helper()
	s, err := lrschedule.Batches.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Times(imagenet(256))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Every batch schedule is finite and above 0 wherever a run is, says the same when
// asked again, begins at the first batch by default, and reads back as its text.
func TestBatches(t *testing.T) {
	r := imagenet(256)
	for _, name := range lrschedule.Batches.Names() {
		proto, _ := lrschedule.Batches.Proto(name)
		text := lrschedule.Batches.Spec(proto)
		if back := lrschedule.Batches.Spec(lrschedule.Batches.MustParse(text)); back != text {
			t.Errorf("%s reads back as %s", text, back)
		}
		f := times(t, text)
		if x := f(lrschedule.Progress{}); x != 1 {
			t.Errorf("%s begins with %v times the first batch", text, x)
		}
		for n := 0; n <= r.Steps; n += 997 {
			a, b := f(at(r, n)), f(at(r, n))
			if a != b || !(a > 0) || math.IsInf(a, 0) {
				t.Fatalf("%s: %v and %v at update %d", text, a, b, n)
			}
		}
		if lrschedule.IsFixed(proto) != (name == "fixed") {
			t.Errorf("%s is taken for another kind", name)
		}
	}
}

// Smith et al. 2017, figure 1: where one curve divides the rate the other multiplies
// the batch, so lr/B is that of decay throughout.
func TestGrowthTakesOverFalls(t *testing.T) {
	r := imagenet(128)
	falls := parse(t, "step(lr=0.1,factor=0.2,at=[60,120,160])", r)
	hybrid, grown := parse(t, "step(lr=0.1,factor=0.2,at=[120,160])", r), times(t, "growth(factor=5,at=[60])")
	all := times(t, "growth")
	for e := 0.0; e < 200; e += 0.5 {
		p := epoch(r, e)
		if a, b := falls(p), hybrid(p)/grown(p); math.Abs(a-b) > 1e-15 {
			t.Errorf("epoch %v: lr/B is %v with falls and %v with both", e, a, b)
		}
		if a, b := falls(p), 0.1/all(p); math.Abs(a-b) > 1e-15 {
			t.Errorf("epoch %v: lr/B is %v with falls and %v with growth", e, a, b)
		}
	}
	for text, want := range map[string]float64{
		"growth(factor=5,at=[10,20,30],max=60)": 60, "growth(factor=2,at=[10,20,91])": 4,
		"stages(times=[1,2,1.25],at=[30,60])": 1.25, "fixed": 1,
	} {
		if got := times(t, text)(epoch(r, 90)); got != want {
			t.Errorf("%s ends with %v times, want %v", text, got, want)
		}
	}
}

func TestBatchRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"growth(factor=0.5)":              `"factor"`,
		"growth(factor=100,at=[1,2,3,4])": "a million times",
		"growth(max=0.5)":                 `"max"`,
		"growth(at=[3,2])":                "ascending",
		"stages(times=[1],at=[1])":        "one batch more than epochs",
		"stages(times=[1,0],at=[1])":      `"times"`,
		"stages(times=[1,2],at=[-1])":     "ascending",
	} {
		if _, err := lrschedule.Batches.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
