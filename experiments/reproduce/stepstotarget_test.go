package reproduce

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
)

// The law is found again from its own values, and from values a little beside them
// nearly.
func TestFitLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := law{least: rapid.Float64Range(10, 1e4).Draw(t, "least"), critical: rapid.Float64Range(8, 8192).Draw(t, "critical")}
		var batches, updates []float64
		for b := 4.0; b <= 16384; b *= 2 {
			batches, updates = append(batches, b), append(updates, want.at(b))
		}
		got := fitLaw(batches, updates)
		if math.Abs(math.Log(got.least/want.least)) > 1e-3 || math.Abs(math.Log(got.critical/want.critical)) > 1e-3 {
			t.Fatalf("%+v, want %+v", got, want)
		}
		for i := range updates {
			updates[i] *= 1 + 0.02*math.Pow(-1, float64(i))
		}
		if near := fitLaw(batches, updates); math.Abs(math.Log(near.critical/want.critical)) > 0.1 {
			t.Fatalf("%+v, want about %+v", near, want)
		}
	})
}

func TestPower(t *testing.T) {
	t.Parallel()
	a := &atBatch{batch: 8, updates: stats.Summary{Mean: 1200}}
	b := &atBatch{batch: 32, updates: stats.Summary{Mean: 300}}
	if got := power(a, b); math.Abs(got+1) > 1e-12 {
		t.Errorf("a quarter of the updates at four times the batch is a power of %v", got)
	}
}

// What is better is for a contest to say; of equal ones it takes the first.
func TestContestChooses(t *testing.T) {
	t.Parallel()
	c := digitsContest(t)
	c.tries, c.seeds = 1, 2
	c.score = func(a *sample) float64 { return -a.mean() } // the worst
	s := c.tune("plain", ratesOf(1, 0.0001, 0.0001))
	if err := c.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.chosen != 1 {
		t.Errorf("chosen %d of %v", s.chosen, s.tried)
	}
}

// A setting with which a seed never reached the target is not chosen over one that all
// reached it with, wherever in the grid it stands.
func TestNeverIsNotSoon(t *testing.T) {
	t.Parallel()
	took := func(steps ...int) *sample { // 0: never
		g := &store.Group{}
		for i, n := range steps {
			r := &store.Run{State: store.Done, Result: &experiments.Result{Status: "done", Steps: max(n, 7), TargetReached: n > 0}}
			r.Config.Seed = uint64(i + 1)
			g.Runs = append(g.Runs, r)
		}
		return &sample{Group: g}
	}
	c := &contest{score: func(a *sample) float64 { return -a.updatesToTarget().Mean }}
	for want, tried := range [][]*sample{
		{took(100, 120), took(0, 0), took(50, 0)},
		{took(0, 0), took(100, 120), took(50, 0)},
		{took(0, 5), took(0, 0), took(100, 120)},
	} {
		if got := c.best(tried); got != want {
			t.Errorf("chosen is %d, want %d", got, want)
		}
	}
	c.score = func(a *sample) float64 {
		if !a.Runs[0].Result.TargetReached {
			return math.NaN()
		}
		return 1
	}
	if got := c.best([]*sample{took(0), took(9), took(8)}); got != 1 {
		t.Errorf("NaN is chosen over 1: %d", got)
	}
}
