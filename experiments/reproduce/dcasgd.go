package reproduce

import (
	"context"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
)

// DCASGD is delay compensation against plain asynchronous SGD (Zheng et al.
// 2017, table 1).
type DCASGD struct{}

var _ = Studies.Add("dc-asgd", "delay compensation against asynchronous and synchronous SGD, 4 … 16 workers", DCASGD{})

// Group implements Study.
func (DCASGD) Group() Group { return Asynchrony }

// Mechanisms implements Study.
func (DCASGD) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "compensation", Doc: "late gradients are applied as they are", Off: swap("corrector", `^dcasgd.*`, "none"), Slow: true},
	}
}

// Run implements Study.
func (s DCASGD) Run(ctx context.Context, lab *Lab) (*Report, error) {
	seeds, size := 5, []string{"epochs=6"}
	if lab.Quick {
		seeds, size = 3, []string{"train_limit=8000", "epochs=5"}
	}
	r := &Report{
		Title:  "DC-ASGD on MNIST",
		Source: "Zheng et al. 2017, table 1: on CIFAR-10 with ResNet-20 the errors are ordered DC-ASGD-a < DC-ASGD-c < SSGD ≤ ASGD at 4 and 8 workers",
		Stated: []string{
			"mlp(hidden=[64]), 16 samples a worker, plain SGD as in the paper; rate 0.05 falling along a cosine, the same for all",
			"λ = 0.04 for -c, 2 for -a with μ = 0.95, as in the paper",
			"time model: lognormal jitter of 20 %, a network that takes no time; test set of 10,000",
			"what the compensation is for is judged by itself: on a path of plain SGD (mlp(hidden=[32]) on digits, rate 0.05), is a compensated gradient nearer to that of today? What it is worth in accuracy is judged where staleness does harm, at 16 workers",
		},
	}
	rules := []struct{ name, policy, corrector string }{
		{"SSGD", "bsp", "none"}, {"ASGD", "asp", "none"}, {"DC-ASGD-c", "asp", "dcasgd(lambda=0.04)"}, {"DC-ASGD-a", "asp", "dcasgd_a(lambda=2,mu=0.95)"},
	}
	table := figure.Table{Title: fmt.Sprintf("test error in %% (%d seeds, 95 %% intervals)", seeds), Header: []string{"M", "SSGD", "ASGD", "DC-ASGD-c", "DC-ASGD-a"}}
	counts := []int{4, 8, 16}
	runs, of := lab.plan(seeds), map[string]*sample{}
	name := func(rule string, workers int) string { return fmt.Sprintf("%s M = %d", rule, workers) }
	for _, workers := range counts {
		for _, rule := range rules {
			n := name(rule.name, workers)
			of[n] = runs.add(n, append([]string{"data=mnist", "model=mlp(hidden=[64])", "optimizer=sgd", "schedule=cosine(lr=0.05)",
				fmt.Sprintf("workers=%d", workers), "batch=16", "policy=" + rule.policy, "corrector=" + rule.corrector, "device.law=lognormal(sigma=0.2)", "nonfinite=zero",
				"network.bandwidth=10Tbps", "network.latency=0s"}, size...)...)
		}
	}
	if err := runs.make(ctx); err != nil {
		return nil, err
	}
	for _, workers := range counts {
		row := []string{fmt.Sprint(workers)}
		got := map[string]*sample{}
		for _, rule := range rules {
			x := of[name(rule.name, workers)]
			got[rule.name] = x
			a := x.accuracy()
			row = append(row, fmt.Sprintf("%.2f ± %.2f", 100-a.Mean, a.Half))
		}
		table.Rows = append(table.Rows, row)
		at := fmt.Sprintf(", M = %d", workers)
		for _, dc := range []string{"DC-ASGD-c", "DC-ASGD-a"} {
			d := stats.Paired(got["ASGD"].bySeed(), got[dc].bySeed())
			r.between(Claim, dc+" is no worse than ASGD to its interval or half a point: gain in accuracy"+at, "points", 0, d.Mean, -min(max(d.Half, 0.05), 0.5), 100)
			if workers == 16 && dc == "DC-ASGD-a" {
				r.between(Claim, dc+" is better than ASGD, beyond the interval: gain in accuracy"+at, "points", math.NaN(), d.Mean, math.Nextafter(d.Half, math.Inf(1)), math.MaxFloat64)
				continue
			}
			r.between(Hypothesis, dc+" is better than ASGD: gain in accuracy"+at, "points", 0.6, d.Mean, d.Half, 100)
		}
		r.between(Hypothesis, "DC-ASGD-a is no worse than DC-ASGD-c: gain in accuracy"+at, "points", 0.5, got["DC-ASGD-a"].accuracy().Mean-got["DC-ASGD-c"].accuracy().Mean, 0, 100)
	}
	r.Tables = append(r.Tables, table)
	for _, tau := range []int{3, 7, 15} {
		if err := lab.nearer(ctx, r, "DC-ASGD-c", "dcasgd(lambda=0.04)", tau); err != nil {
			return nil, err
		}
		if err := lab.nearer(ctx, r, "DC-ASGD-a", "dcasgd_a(lambda=2,mu=0.95)", tau); err != nil {
			return nil, err
		}
	}
	r.Notes = append(r.Notes, "λ = 1 for -c was tried as well: with 16 workers and 6 epochs of all of MNIST three of five seeds end at 4.5 % error, better than with 0.04 or 0.2 (5.1 and 5.0 %). Two end at no number at all. The compensation grows with the square of a gradient.")
	return r, nil
}
