package advise

import (
	"fmt"
	"math"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"gonum.org/v1/gonum/stat/distuv"
)

// Beliefs are calibrated: where tasks differ as the prior says, the share of further tasks
// below a quantile of the belief is that quantile, for any number of tasks tried. Fewer
// tasks must not give narrower beliefs than they are worth, and more no wider ones.
func TestBeliefsAreCalibrated(t *testing.T) {
	t.Parallel()
	const worlds = 10000
	chi := distuv.ChiSquared{K: priorWeight}
	for _, tasks := range []int{1, 2, 3, 6} {
		key := rng.New(uint64(tasks), "beliefs")
		below := map[float64]int{0.05: 0, 0.25: 0, 0.5: 0, 0.75: 0, 0.95: 0}
		for w := range uint64(worlds) {
			world := key.With(w)
			sd := math.Sqrt(priorWeight * prior * prior / chi.Quantile(world.Float64(0))) // how much tasks differ
			middle := 2 * world.Norm(1)
			var trials []Trial
			for i := range tasks {
				trials = append(trials, Trial{Task: fmt.Sprint(i), Kind: "images", Workers: 8, Way: "x", Log: middle + sd*world.Norm(uint64(2+i)), Source: "s"})
			}
			b := believe(trials, "x", "images", 8)
			next := middle + sd*world.Norm(100)
			at := doubt(b, Belief{Way: "raw"}).CDF((next - b.Log) / b.Spread)
			for q := range below {
				if at < q {
					below[q]++
				}
			}
		}
		for q, n := range below {
			if share, off := float64(n)/worlds, 4*math.Sqrt(q*(1-q)/worlds); math.Abs(share-q) > off {
				t.Errorf("%d tasks: %.3f of further tasks are below the quantile %v of what was believed", tasks, share, q)
			}
		}
	}
}

// Runs that scatter, and workers beyond those tried, widen a belief by their variances.
func TestBeliefsHaveTheirVariances(t *testing.T) {
	t.Parallel()
	at := func(task string, log, spread float64) Trial {
		return Trial{Task: task, Kind: "images", Workers: 8, Way: "x", Log: log, Spread: spread, Source: "s"}
	}
	for _, c := range []struct {
		trials  []Trial
		workers int
		log     float64
		square  float64
	}{
		// one task: 2·0.25²/(0 + 2) between tasks, twice; 0.1² of its runs
		{[]Trial{at("a", 0.2, 0.1)}, 8, 0.2, 0.0625*2 + 0.01},
		// two tasks 0.4 apart: (2·0.0625 + 2·0.2²)/(1 + 2), 1.5 times; (0.1² + 0.3²)/2²
		{[]Trial{at("a", 0.2, 0.1), at("b", 0.6, 0.3)}, 8, 0.4, (0.125+0.08)/3*1.5 + 0.1/4},
		// two runs of a task: the mean of both, and half the variance
		{[]Trial{at("a", 0.1, 0.1), at("a", 0.3, 0.3)}, 8, 0.2, 0.0625*2 + 0.05/2},
		// 256 workers are three doublings beyond four times 8
		{[]Trial{at("a", 0.2, 0.1)}, 256, 0.2, 0.0625*2 + 0.01 + 0.01*9},
		{[]Trial{at("a", 0.2, 0.1)}, 32, 0.2, 0.0625*2 + 0.01},
	} {
		b := believe(c.trials, "x", "images", c.workers)
		if math.Abs(b.Log-c.log) > 1e-12 || math.Abs(b.Spread*b.Spread-c.square) > 1e-12 {
			t.Errorf("%+v for %d workers: %v and a variance of %v, want %v and %v", c.trials, c.workers, b.Log, b.Spread*b.Spread, c.log, c.square)
		}
	}
}

// The probability that a way is sooner is the share of cases in which it is.
func TestProbabilitiesAreCalibrated(t *testing.T) {
	t.Parallel()
	const worlds = 10000
	chi := distuv.ChiSquared{K: priorWeight}
	key := rng.New(1, "sooner")
	var said, came [10]float64
	var cases [10]int
	for w := range uint64(worlds) {
		world := key.With(w)
		sd := math.Sqrt(priorWeight * prior * prior / chi.Quantile(world.Float64(0)))
		middle := 0.3 * world.Norm(1)
		var trials []Trial
		for i := range 3 {
			trials = append(trials, Trial{Task: fmt.Sprint(i), Kind: "images", Workers: 8, Way: "bf16", Log: middle + sd*world.Norm(uint64(2+i)), Source: "s"})
		}
		known := map[string]Belief{"raw": {Way: "raw", Tasks: 1}, "bf16": believe(trials, "bf16", "images", 8)}
		a, b := option("bf16", 1), option("raw", math.Exp(known["bf16"].Log+0.5*world.Norm(50)))
		p, _, _ := sooner(a, b, known, 0)
		steps := math.Hypot(Band, Band) / 1.645 * world.Norm(60)
		at := min(9, int(10*p))
		cases[at]++
		said[at] += p
		if math.Log((a.Time()+a.software())/(b.Time()+b.software()))+middle+sd*world.Norm(100)+steps < 0 {
			came[at]++
		}
	}
	for i, n := range cases {
		if p, share := said[i]/float64(n), came[i]/float64(n); n < 100 || math.Abs(p-share) > 0.01+4*math.Sqrt(p*(1-p)/float64(n)) {
			t.Errorf("of %d cases in which it was said to be sooner with probability %.3f, it was in %.3f", n, p, share)
		}
	}
}
