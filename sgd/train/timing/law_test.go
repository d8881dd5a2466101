package timing

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
)

// Every law has mean 1 and the variance its formula says, and its factors
// depend on the address alone.
func TestLaws(t *testing.T) {
	file := filepath.Join(t.TempDir(), "times.txt")
	if err := os.WriteFile(file, []byte("# seconds\n1\n2\n\n3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for spec, variance := range map[string]float64{
		"constant": 0, "lognormal(sigma=0.3)": math.Exp(0.09) - 1, "exponential": 1, "shifted_exponential(shift=0.25)": 0.75 * 0.75,
		"gamma(cv=0.1)": 0.01, "gamma(cv=2)": 4, "pareto(alpha=5)": 1.0 / 15, "uniform(spread=0.5)": 0.25 / 3,
		"trace(file=" + file + ")": 1.0 / 6,
	} {
		law, err := Laws.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		if tr, ok := law.(Trace); ok {
			if law, err = tr.Load(); err != nil {
				t.Fatal(err)
			}
		}
		const n = 200000
		k := rng.New(1, "test")
		sum, squares := 0.0, 0.0
		for i := range uint64(n) {
			x := law.Factor(k.With(i))
			if i < 100 && x != law.Factor(k.With(i)) || x < 0 {
				t.Fatalf("%s: %v at one address", spec, x)
			}
			sum += x
			squares += (x - 1) * (x - 1)
		}
		if m, v := sum/n, squares/n; math.Abs(m-1) > 5*math.Sqrt(variance/n)+1e-12 || math.Abs(v-variance) > 0.06*variance+1e-12 {
			t.Errorf("%s: mean %.4f and variance %.4f, want 1 and %.4f", spec, m, v, variance)
		}
	}
}

func TestTraceSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{"1\nfast\n": "line 2", "# nothing\n": "no times", "-1\n": "line 1"} {
		file := filepath.Join(t.TempDir(), "times.txt")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (Trace{File: file}).Load(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSlow(t *testing.T) {
	s, err := ParseSlow("1x100+2x2.5")
	if err != nil {
		t.Fatal(err)
	}
	if s.String() != "1x100+2x2.5" {
		t.Errorf("%q", s)
	}
	for fromLast, want := range []float64{100, 2.5, 2.5, 1, 1} {
		if got := s.Times(fromLast); got != want {
			t.Errorf("worker %d from the last: %v, want %v", fromLast, got, want)
		}
	}
	for _, text := range []string{"", "10", "x", "0x3", "1x0", "1x-2", "1xInf", "ax2", "pareto", "lognormal(sigma=-1)", "lognormal(sigma=9)",
		"lognormal(sigma=0.1)+lognormal(sigma=0.2)", "lognormalx2", "lognormal(sigma=0.3"} {
		if _, err := ParseSlow(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// A lognormal factor of every worker's own stands beside workers that are slow, and is
// the same in all steps.
func TestSlowDrawn(t *testing.T) {
	s, err := ParseSlow("1x10 + lognormal(sigma=0.3)")
	if err != nil {
		t.Fatal(err)
	}
	if s.String() != "1x10+lognormal(sigma=0.3)" || s.Sigma() != 0.3 || s.Workers() != 1 || s.Times(0) != 10 || s.Times(1) != 1 {
		t.Errorf("%q: sigma %v, %d slow workers, %v times and %v times as long", s, s.Sigma(), s.Workers(), s.Times(0), s.Times(1))
	}
	if none, err := ParseSlow("lognormal(sigma=0)"); err != nil || none != nil {
		t.Errorf("a sigma of 0: %v, %v; want none", none, err)
	}
	drawn, even := Timing{FLOPS: 1e9, Slow: s}, Timing{FLOPS: 1e9}
	for w := range 4 {
		first := drawn.Cost(1e9, 7, w, 0)
		if first == even.Cost(1e9, 7, w, 0) || first == drawn.Cost(1e9, 7, w+1, 0) {
			t.Errorf("worker %d takes %v as others do", w, first)
		}
		if later := drawn.Cost(1e9, 7, w, 9); later != first {
			t.Errorf("worker %d takes %v, later %v", w, first, later)
		}
	}
}

// The law is on what a host reads as on passes: a step that takes longer reads longer.
func TestLawOnReading(t *testing.T) {
	for _, law := range []Law{Lognormal{Sigma: 0.5}, Exponential{}} {
		at := Timing{FLOPS: 1e9, Law: law}
		for step := range 5 {
			if pass, read := at.Cost(1e9, 3, 1, step), at.Reading(100, 100, 3, 1, step); pass != read {
				t.Errorf("%T, step %d: a pass of a second takes %v, reading of a second %v", law, step, pass, read)
			}
		}
	}
}
