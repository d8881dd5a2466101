package stats

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
)

// drawn are k equal samples of n seeds: what a seed does to all of them, and a spread of
// each one's own.
func drawn(k rng.Key, n int, spreads []float64) []map[uint64]float64 {
	out := make([]map[uint64]float64, len(spreads))
	for i, sd := range spreads {
		out[i] = map[uint64]float64{}
		for s := range n {
			out[i][uint64(s)] = 2*k.Norm(uint64(s)) + sd*k.With(uint64(i)+1).Norm(uint64(s))
		}
	}
	return out
}

// Of equal samples none is called worse, whichever was seen to be the best, but with
// probability Level: of equal and of unequal variances, with all seeds and with some
// missing. Tested against the one that the same seeds chose, by pairs and Holm's
// method, one of eight is called worse in 10 % of the cases, and one of sixteen in 17 %.
func TestLevelOfWithBest(t *testing.T) {
	t.Parallel()
	ones := func(k int) []float64 {
		out := make([]float64, k)
		for i := range out {
			out[i] = 1
		}
		return out
	}
	for name, c := range map[string]struct {
		spreads        []float64
		seeds, samples int
		missing        bool
		least          float64 // or the test would show nothing
	}{
		"8 of 5 seeds":       {ones(8), 5, 1000, false, 0.02},
		"16 of 10 seeds":     {ones(16), 10, 300, false, 0.02},
		"3 of 3 seeds":       {ones(3), 3, 1000, false, 0.02},
		"unequal variances":  {[]float64{0.1, 0.3, 1, 3, 10, 30}, 5, 1000, false, 0.01},
		"one varies":         {[]float64{1, 1, 1, 1, 1, 1, 1, 20}, 5, 1000, false, 0.01},
		"missing seeds":      {ones(6), 6, 1000, true, 0.01},
		"missing and uneven": {[]float64{0.1, 0.1, 1, 1, 10, 10}, 6, 1000, true, 0.005},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called, covered := 0, 0
			for i := range c.samples {
				x := drawn(rng.New(uint64(i), name), c.seeds, c.spreads)
				if c.missing { // the first has every seed, the others lack the last, or two
					for j := 1; j < len(x); j++ {
						delete(x[j], uint64(c.seeds-1))
						delete(x[j], uint64(j%2))
					}
				}
				worse, inside := false, true
				for _, s := range WithBest(x).Standings {
					worse = worse || s.Worse()
					inside = inside && s.Low <= 0 && s.High >= 0
				}
				if worse {
					called++
				}
				if inside {
					covered++
				}
			}
			share := float64(called) / float64(c.samples)
			beyond := 3 * math.Sqrt(Level*(1-Level)/float64(c.samples))
			if share > Level+beyond || share < c.least {
				t.Errorf("an equal one is called worse in %.2f %% of %d", 100*share, c.samples)
			}
			if at := float64(covered) / float64(c.samples); at < 1-Level-beyond {
				t.Errorf("the intervals hold the difference in %.2f %%", 100*at)
			}
		})
	}
}

// Differences that there are lie in the intervals, all of them at once, and those that
// are large are found.
func TestIntervalsOfWithBest(t *testing.T) {
	t.Parallel()
	means := []float64{5, 4.9, 3, 0, -20}
	const samples = 500
	covered, found := 0, 0
	for i := range samples {
		x := drawn(rng.New(uint64(i), "means"), 6, []float64{1, 0.3, 1, 2, 3})
		for j, m := range means {
			for s := range x[j] {
				x[j][s] += m
			}
		}
		inside := true
		out := WithBest(x).Standings
		for j, s := range out {
			best := math.Inf(-1)
			for o, m := range means {
				if o != j {
					best = max(best, m)
				}
			}
			inside = inside && s.Low <= means[j]-best && means[j]-best <= s.High
			if s.Worse() != (s.High == 0) {
				t.Fatalf("P is %g, the difference at most %g", s.P, s.High)
			}
		}
		if inside {
			covered++
		}
		if out[4].Worse() && !out[0].Worse() {
			found++
		}
	}
	if share := float64(covered) / samples; share < 0.95-0.02 {
		t.Errorf("the intervals hold all differences in %.1f %%", 100*share)
	}
	if share := float64(found) / samples; share < 0.9 {
		t.Errorf("the last one is found in %.1f %%", 100*share)
	}
}

// Of two samples it is the paired test, with its interval.
func TestWithBestOfTwo(t *testing.T) {
	t.Parallel()
	d := Paired(bySeed(fives), bySeed(more))
	out := WithBest([]map[uint64]float64{bySeed(fives), bySeed(more)}).Standings
	near(t, "p", out[0].P, d.P, 1e-12)
	near(t, "difference", out[0].Mean, -d.Mean, 1e-12)
	near(t, "low", out[0].Low, -d.Mean-d.Half, 1e-9)
	near(t, "high of the best", out[1].High, d.Mean+d.Half, 1e-9)
	if out[0].High != 0 || out[1].Low != 0 || out[1].P != 1 || out[1].Worse() || !out[0].Paired || out[0].N != 5 {
		t.Errorf("%+v", out)
	}
}

// Critical values at once for m tests, two-sided at 5 %: those of independent normal
// variates are in tables (2.236 of two, 2.569 of five, 2.800 of ten), and one test has
// Student's.
func TestSidak(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		freedom float64
		tests   int
		want    float64
	}{{1e9, 2, 2.236}, {1e9, 5, 2.569}, {1e9, 10, 2.800}, {4, 1, 2.776}, {2, 1, 4.303}} {
		near(t, "critical value", sidak(c.freedom, c.tests), c.want, 6e-4)
	}
}

// What too few seeds, equal samples and samples without a spread come to.
func TestWithBestOfFew(t *testing.T) {
	t.Parallel()
	best := func(x []map[uint64]float64) []Standing { return WithBest(x).Standings }
	at := func(x ...float64) map[uint64]float64 { return bySeed(x) }
	if out := best([]map[uint64]float64{at(1), at(2)}); !math.IsNaN(out[0].P) || !math.IsNaN(out[0].Low) || !math.IsNaN(out[1].High) || out[0].Mean != -1 || out[0].Worse() {
		t.Errorf("one seed each: %+v", out)
	}
	if out := best([]map[uint64]float64{at(1, 2, 3), at(1, 2, 3)}); out[0].P != 1 || out[1].P != 1 || out[0].Low != 0 || out[0].High != 0 {
		t.Errorf("equal ones: %+v", out)
	}
	if out := best([]map[uint64]float64{at(1, 1), at(2, 2)}); out[0].P != 0 || out[0].Low != -1 || out[0].High != 0 || out[1].High != 1 {
		t.Errorf("without a spread: %+v", out)
	}
	if out := best([]map[uint64]float64{at(1, 2)}); len(out) != 1 || !math.IsNaN(out[0].P) {
		t.Errorf("one alone: %+v", out)
	}
	if out := best([]map[uint64]float64{at(1, 2, 1), at(5, 6.1, 5), at(0.5)}); !out[0].Worse() || out[1].Worse() || !math.IsNaN(out[2].P) {
		t.Errorf("one with too few seeds beside others: %+v", out)
	}
	twice := []map[uint64]float64{at(1, 2, 3), at(1.5, 2.6, 3.2), at(1.5, 2.6, 3.2), at(1, 2, 3)}
	if out, once := best(twice), best(twice[:2]); out[0].P != once[0].P || out[0].Low != once[0].Low || out[3] != out[0] || out[1].P != 1 || out[1].Mean != 0 {
		t.Errorf("samples that are there twice: %+v, once: %+v", out, once)
	}
	if out := best(nil); len(out) != 0 {
		t.Errorf("none: %+v", out)
	}
	r := WithBest([]map[uint64]float64{at(1, 2, 1), at(5, 6.1, 5), at(0.5)})
	if !r.Tells(0, 1) || !r.Worse(0, 1) || r.Worse(1, 0) || r.Tells(0, 2) || r.Worse(2, 0) || r.Tells(0, 0) || r.Worse(0, 0) {
		t.Error("pairs are told otherwise than their samples")
	}
}
