package reproduce

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
)

// DANA compares ways to have momentum under asynchrony as workers are added
// (Hakimi et al. 2019).
type DANA struct{}

var _ = Studies.Add("dana", "momentum under asynchrony, 4 … 32 workers: NAG-ASGD collapses first, look-ahead survives longest", DANA{})

// gaps is the mean gap of a run, × 1000.
var gaps = store.FieldOf("gap × 1000", store.Number, func(r *experiments.Result) float64 {
	if r.Gap == nil {
		return 0
	}
	return 1000 * r.Gap.Mean
})

// Group implements Study.
func (DANA) Group() Group { return Asynchrony }

// Mechanisms implements Study.
func (DANA) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "look-ahead", Doc: "workers are sent the parameters as they are: Multi-ASGD", Off: swap("corrector", `^dana.*`, "multi_asgd"), Slow: true},
		{Name: "staleness", Doc: "hardsync: nothing is late", Off: both(swap("policy", `^asp$`, "bsp"), swap("corrector", `^.+$`, "none")), Slow: true},
	}
}

// Run implements Study.
func (s DANA) Run(ctx context.Context, lab *Lab) (*Report, error) {
	seeds, size := 5, []string{"epochs=5"}
	if lab.Quick {
		seeds, size = 3, []string{"train_limit=7500", "epochs=4"}
	}
	r := &Report{
		Title:  "momentum 0.9 and asynchronous workers on MNIST",
		Source: "Hakimi et al. 2019 (CIFAR-10, ResNet-20), from secondary notes: NAG-ASGD fails at 16 workers, Multi-ASGD and DC-ASGD at 20, DANA at none of up to 32",
		Stated: []string{
			lab.mlp() + ", 16 samples a worker, momentum 0.9, one epoch of warm-up to 0.02 and a cosine, the same for all; test set of 10,000",
			"time model: lognormal jitter of 20 %, a network that takes no time",
			"a run has collapsed if its accuracy is more than 5 points below that of the same rule with 4 workers",
		},
	}
	rules := []struct{ name, optimizer, corrector string }{
		{"NAG-ASGD", "nesterov", "none"}, {"DC-ASGD-a", "momentum", "dcasgd_a"}, {"Multi-ASGD", "sgd", "multi_asgd"},
		{"DANA-Slim", "sgd", "dana_slim"}, {"DANA-Zero", "sgd", "dana"}, {"DANA-DC", "sgd", "dana_dc(lambda=0.1)"},
	}
	counts := []int{4, 8, 16, 32}
	table := figure.Table{Title: fmt.Sprintf("test accuracy in %% (%d seeds, 95 %% intervals)", seeds), Header: []string{"rule", "4", "8", "16", "32"}}
	byRule := figure.Table{Title: "mean gap ‖w − w_sent‖/√k × 1000", Header: []string{"rule", "4", "8", "16", "32"}}
	fig := figure.Figure{Title: "momentum under asynchrony", X: figure.Axis{Label: "workers", Log: true}, Y: figure.Axis{Label: "test accuracy, %"}}
	survives := map[string]int{} // largest number of workers before the collapse
	accuracy := map[string]map[int]float64{}
	gap := map[string]map[uint64]float64{}
	runs, got := lab.plan(seeds), map[string][]*sample{}
	for _, rule := range rules {
		for _, workers := range counts {
			got[rule.name] = append(got[rule.name], runs.add(fmt.Sprintf("%s, %d workers", rule.name, workers), append([]string{"data=mnist", "model=" + lab.mlp(), "optimizer=" + rule.optimizer, "corrector=" + rule.corrector,
				"schedule=warmup(cosine(lr=0.02),epochs=1)", fmt.Sprintf("workers=%d", workers), "batch=16", "policy=asp", "device.law=lognormal(sigma=0.2)", "nonfinite=zero", "observe=gap",
				"network.bandwidth=10Tbps", "network.latency=0s"}, size...)...))
		}
	}
	if err := runs.make(ctx); err != nil {
		return nil, err
	}
	for _, rule := range rules {
		row, wide := []string{rule.name}, []string{rule.name}
		line := figure.Series{Name: rule.name, Marks: true}
		accuracy[rule.name] = map[int]float64{}
		fallen := false
		for i, workers := range counts {
			x := got[rule.name][i]
			a := x.accuracy()
			accuracy[rule.name][workers] = a.Mean
			row = append(row, plusMinus(a))
			if workers == 8 {
				gap[rule.name] = x.BySeed(gaps)
			}
			wide = append(wide, fmt.Sprintf("%.3g", x.Summary(gaps).Mean))
			line.X, line.Y = append(line.X, float64(workers)), append(line.Y, a.Mean)
			if fallen = fallen || a.Mean < accuracy[rule.name][4]-5; !fallen {
				survives[rule.name] = workers
			}
		}
		table.Rows, byRule.Rows = append(table.Rows, row), append(byRule.Rows, wide)
		fig.Series = append(fig.Series, line)
	}
	r.Tables = append(r.Tables, table, byRule)
	first, longest := true, true
	for _, rule := range rules {
		first = first && survives["NAG-ASGD"] <= survives[rule.name]
		longest = longest && survives["DANA-Slim"] >= survives[rule.name]
	}
	r.holds(Claim, "NAG-ASGD collapses within 32 workers", survives["NAG-ASGD"] < 32)
	r.holds(Claim, "NAG-ASGD collapses no later than any other", first)
	r.holds(Claim, "DANA survives as long as any other", longest && survives["DANA-Zero"] >= survives["Multi-ASGD"])
	at := survives["DANA-Slim"]
	r.between(Claim, fmt.Sprintf("DANA-Slim over NAG-ASGD at %d workers, the most it survives", at), "points", 0, accuracy["DANA-Slim"][at]-accuracy["NAG-ASGD"][at], 0, 100)
	narrower := stats.Paired(gap["DANA-Zero"], gap["Multi-ASGD"])
	r.between(Claim, "looking ahead narrows the gap, 8 workers, beyond the interval: Multi-ASGD less DANA-Zero", "× 0.001", math.NaN(), narrower.Mean, math.Nextafter(narrower.Half, math.Inf(1)), math.MaxFloat64)
	r.holds(Hypothesis, "Multi-ASGD survives longer than NAG-ASGD", survives["Multi-ASGD"] > survives["NAG-ASGD"])
	r.holds(Hypothesis, "DANA-DC survives as long as DANA", survives["DANA-DC"] >= survives["DANA-Slim"])
	files, err := figure.Save(filepath.Join(lab.Out, "dana"), fig)
	r.Figures = append(r.Figures, files...)
	return r, err
}
