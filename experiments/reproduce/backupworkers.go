package reproduce

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/internal/rng"
)

// BackupWorkers is synchronous SGD with backup workers: how many of 100 to spare,
// and what asynchrony costs in accuracy (Chen et al. 2016).
type BackupWorkers struct{}

var _ = Studies.Add("backup-workers", "the best number of backup workers of 100, and sync against async accuracy", BackupWorkers{})

// arrival is how long one of Chen's workers takes for a gradient, in seconds:
// most by 2 s, and with probability slow much longer.
func arrival(k rng.Key, draw uint64, slow float64) float64 {
	if k.Float64(2*draw) < slow {
		return 2 * math.Pow(1-k.Float64(2*draw+1), -1/1.5) // Pareto from 2 s on
	}
	return 1.4 * math.Exp(0.07*k.With(1).Norm(draw))
}

// arrivals are the mean times, by N, in which N of total gradients arrive, with the
// long tail and even without it, and in how many of the steps the 98th and the 100th
// came within 2 s.
func arrivals(total, steps int, slow float64) (mean, even []float64, within map[int]int) {
	mean, even, within = make([]float64, total+1), make([]float64, total+1), map[int]int{}
	times := make([]float64, total)
	draw := func(step int, slow float64, into []float64) {
		for w := range times {
			times[w] = arrival(rng.New(1, "arrival").With(uint64(w)), uint64(step), slow)
		}
		slices.Sort(times)
		for n := 1; n <= total; n++ {
			into[n] += times[n-1] / float64(steps)
		}
	}
	for step := range steps {
		draw(step, 0, even)
		draw(step, slow, mean)
		for _, n := range []int{98, 100} {
			if n <= total && times[n-1] <= 2 {
				within[n]++
			}
		}
	}
	return mean, even, within
}

// Group implements Study.
func (BackupWorkers) Group() Group { return Asynchrony }

// Mechanisms implements Study.
func (BackupWorkers) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "stragglers", Doc: "no arrival comes from the long tail", Slow: true},
		{Name: "backup", Doc: "every update waits for all 100", Off: swap("policy", `^backup\(.*`, "bsp"), Slow: true},
	}
}

// Run implements Study.
func (s BackupWorkers) Run(ctx context.Context, lab *Lab) (*Report, error) {
	const total = 100
	r := &Report{
		Title:  "synchronous SGD on 100 workers of which b are spare",
		Source: "Chen, Pan, Monga, Bengio and Jozefowicz 2016: N = 96, b = 4; arrival quantiles as recalled",
		Stated: []string{
			"arrival law: 1.4 s × lognormal(σ = 0.07), with probability 0.0135 instead Pareto(1.5) from 2 s on",
			"learning: MNIST, " + lab.mlp() + ", 2 samples a worker, momentum 0.9, rate 0.02·N/100 for sync as the paper scales it; test set of 10,000",
			"sync against async: each the best of three rates, for about the same time; device.law=pareto(alpha=3), a network that takes no time",
		},
	}
	// E[X_N:100], and how much of the law is like what was published.
	steps := 60_000
	if lab.Quick {
		steps = 20_000
	}
	slow := 0.0135
	if lab.lacks("stragglers") {
		slow = 0
	}
	mean, even, within := arrivals(total, steps, slow)
	r.within(Fitted, "98th gradient within 2 s", "%", 80, 100*float64(within[98])/float64(steps), 0.1)
	r.within(Fitted, "100th gradient within 2 s", "%", 30, 100*float64(within[100])/float64(steps), 0.2)

	// Updates to the target with N gradients each.
	target, size := 0.95, []string{"epochs=3"}
	if lab.Quick {
		target, size = 0.92, []string{"train_limit=20000", "epochs=2"}
	}
	common := append([]string{"data=mnist", "model=" + lab.mlp(), "optimizer=momentum", "batch=2", "workers=100", "nonfinite=zero",
		"device.law=pareto(alpha=3)", "network.bandwidth=10Tbps", "network.latency=0s"}, size...)
	table := figure.Table{Title: fmt.Sprintf("updates to %g %% (3 seeds)", 100*target), Header: []string{"N", "updates", "least", "most"}}
	var inverse, updates []float64
	runs, waited := lab.plan(3), []int{50, 70, 100}
	var learned []*sample
	for _, n := range waited {
		learned = append(learned, runs.add(fmt.Sprintf("N = %d", n), append([]string{fmt.Sprintf("policy=backup(b=%d)", total-n),
			fmt.Sprintf("schedule=constant(lr=%g)", 0.02*float64(n)/total), "eval_every=10", fmt.Sprintf("target=%g", target)}, common...)...))
	}
	accuracy := s.accuracy(runs, lab, common)
	if err := runs.make(ctx); err != nil {
		return nil, err
	}
	for i, n := range waited {
		x := learned[i]
		var at []float64
		for _, run := range x.Runs {
			for _, e := range run.Result.Evals {
				if e.Values["accuracy"] >= target {
					at = append(at, float64(e.Step))
					inverse, updates = append(inverse, 1/float64(n)), append(updates, float64(e.Step))
					break
				}
			}
		}
		r.holds(Claim, fmt.Sprintf("%d gradients an update, at a rate in proportion: every seed reaches %g %%", n, 100*target), len(at) == len(x.Runs))
		if len(at) == 0 {
			table.Rows = append(table.Rows, []string{fmt.Sprint(n), "never", "", ""})
			continue
		}
		table.Rows = append(table.Rows, []string{fmt.Sprint(n), fmt.Sprintf("%.0f", stat.Mean(at, nil)), fmt.Sprint(slices.Min(at)), fmt.Sprint(slices.Max(at))})
	}
	r.Tables = append(r.Tables, table)
	if len(updates) < 2 {
		return nil, fmt.Errorf("the target %g was hardly ever reached: no line can be laid through %d times", target, len(updates))
	}
	a, c := stat.LinearRegression(inverse, updates, nil, false)
	r.Stated = append(r.Stated, fmt.Sprintf("updates(N) = %.3g + %.3g/N, fitted to N = 50, 70, 100", a, c))

	best, shortest, evenly := 0, math.Inf(1), math.Inf(1)
	costs := figure.Table{Title: "time to the target, of 100 workers", Header: []string{"b", "E[X_N:100], s", "updates", "s"}}
	line := figure.Series{Name: "time to the target", Marks: true}
	for b := 0; b <= 12; b++ {
		n := total - b
		u := a + c/float64(n)
		t := mean[n] * u
		evenly = min(evenly, even[n]*u)
		if t < shortest {
			best, shortest = b, t
		}
		line.X, line.Y = append(line.X, float64(b)), append(line.Y, t)
		costs.Rows = append(costs.Rows, []string{fmt.Sprint(b), fmt.Sprintf("%.3f", mean[n]), fmt.Sprintf("%.1f", u), fmt.Sprintf("%.1f", t)})
	}
	r.Tables = append(r.Tables, costs)
	r.between(Claim, "the best b", "", 4, float64(best), 2, 6)
	whole := a + c/total
	r.between(Claim, "no backup over the best b: time, more than the workers' jitter alone would make it", "×", math.NaN(), mean[total]*whole/shortest,
		math.Nextafter(even[total]*whole/evenly, math.Inf(1)), math.MaxFloat64)
	for i, n := range waited[:2] {
		first := learned[i].first()
		r.within(Claim, fmt.Sprintf("N = %d: gradients in an update", n), "", float64(n), float64(first.Ledger.Applied)/float64(first.Steps), 0.001)
	}

	accuracy(r)
	files, err := figure.Save(filepath.Join(lab.Out, "backup-workers"), figure.Figure{
		Title: "100 workers, b of them spare", X: figure.Axis{Label: "b"}, Y: figure.Axis{Label: "seconds to the target"}, Series: []figure.Series{line}})
	r.Figures = append(r.Figures, files...)
	return r, err
}

// accuracy plans runs that compare sync with backups to async in the same virtual
// time; what it returns reports on them.
func (s BackupWorkers) accuracy(runs *plan, lab *Lab, common []string) func(*Report) {
	updates := 1500
	if lab.Quick {
		updates = 60
	}
	keep := slices.DeleteFunc(slices.Clone(common), func(k string) bool { return k[:6] == "epochs" })
	type tried struct {
		name string
		rate float64
		*sample
	}
	var all []tried
	for _, c := range []struct {
		name, policy string
		rates        []float64
		steps        int
	}{
		{"sync, b = 4", "backup(b=4)", []float64{0.02, 0.06, 0.12}, updates},
		{"async", "asp", []float64{1e-4, 2e-4, 4e-4}, 150 * updates},
	} {
		for _, rate := range c.rates {
			all = append(all, tried{c.name, rate, runs.add(fmt.Sprintf("%s, rate %g", c.name, rate),
				append([]string{"policy=" + c.policy, fmt.Sprintf("schedule=constant(lr=%g)", rate), fmt.Sprintf("steps=%d", c.steps)}, keep...)...)})
		}
	}
	return func(r *Report) {
		table := figure.Table{Title: "test accuracy in % (3 seeds, 95 % intervals)", Header: []string{"", "rate", "accuracy", "virtual s"}}
		best := map[string]*sample{}
		for _, t := range all {
			table.Rows = append(table.Rows, []string{t.name, fmt.Sprint(t.rate), plusMinus(t.accuracy()), fmt.Sprintf("%.4f", t.first().VirtualSeconds)})
			if b := best[t.name]; b == nil || t.accuracy().Mean > b.accuracy().Mean {
				best[t.name] = t.sample
			}
		}
		r.Tables = append(r.Tables, table)
		d := stats.Paired(best["async"].bySeed(), best["sync, b = 4"].bySeed())
		r.between(Hypothesis, "sync with backups is more accurate than async, beyond the interval", "points", 0.5, d.Mean, d.Half, 100)
	}
}
