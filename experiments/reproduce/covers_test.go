package reproduce

import (
	"math"
	"strings"
	"testing"
)

// Coverage counts all predictions of all studies, and is judged on both sides: intervals
// that always cover are too wide.
func TestCovered(t *testing.T) {
	t.Parallel()
	report := func(study string, inside, outside int, half float64) *Report {
		r := &Report{Study: study}
		for range inside {
			r.predicts("in", 100, 101, 100*(1-half), 100*(1+half))
		}
		for range outside {
			r.predicts("out", 200, 100, 100*(1-half), 100*(1+half))
		}
		return r
	}
	for name, c := range map[string]struct {
		reports []*Report
		inside  float64
		ok      bool
	}{
		"as it should be": {[]*Report{report("a", 10, 0, 0.1), report("b", 8, 2, 0.1)}, 90, true},
		"too few":         {[]*Report{report("a", 10, 0, 0.1), report("b", 4, 6, 0.1)}, 70, false},
		"too many":        {[]*Report{report("a", 20, 0, 0.1)}, 100, false},
		"too wide":        {[]*Report{report("a", 18, 2, 0.2)}, 90, false},
	} {
		got, ok := Covered(c.reports)
		if ok != c.ok || math.Abs(got.Inside-c.inside) > 1e-9 || got.Studies != len(c.reports) {
			t.Errorf("%s: %+v, %v", name, *got, ok)
		}
	}
	if c, ok := Covered([]*Report{{Study: "none"}}); c != nil || !ok {
		t.Errorf("nothing predicted: %+v, %v", c, ok)
	}
	var out strings.Builder
	reports := []*Report{report("a", 10, 0, 0.1), report("b", 4, 6, 0.1), {Study: "none"}}
	if err := Summary(&out, "markdown", reports); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"coverage: of 20 published points that were not fitted 70 %", "MISSED (a 10 of 10, b 4 of 10)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// Where a rate lies is drawn once for runs that are alike when they are small, and what was
// fitted is not predicted.
func TestPredict(t *testing.T) {
	t.Parallel()
	l, r := &Lab{Quick: true, memory: &memory{}}, &Report{}
	keys := DDL{}.keys(256, []string{"overlap=none"})
	if err := l.predict(t.Context(), r, Fitted, "fitted", 85, 85, keys...); err != nil || len(r.Predicted) != 0 {
		t.Fatalf("%v, %v", r.Predicted, err)
	}
	if err := l.predict(t.Context(), r, HeldOut, "256", 85, 84, keys...); err != nil {
		t.Fatal(err)
	}
	known := len(l.memory.known)
	if err := l.predict(t.Context(), r, HeldOut, "128", 85, 84, DDL{}.keys(128, []string{"overlap=none"})...); err != nil || len(l.memory.known) != known {
		t.Errorf("%d intervals were drawn for one question: %v", len(l.memory.known)/2, err)
	}
	for _, p := range r.Predicted {
		if !(p.Low < 84 && 84 < p.High && p.High-p.Low < 30) {
			t.Errorf("%+v", p)
		}
	}
}
