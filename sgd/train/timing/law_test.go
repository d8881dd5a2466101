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
	for _, text := range []string{"", "10", "x", "0x3", "1x0", "1x-2", "1xInf", "ax2"} {
		if _, err := ParseSlow(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
