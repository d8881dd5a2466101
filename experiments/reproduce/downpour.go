package reproduce

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/figure"
)

// Downpour compares numbers of replicas, fixed rates and Adagrad, warm starts
// and rarer fetches and pushes (Dean et al. 2012, figures 4 and 5).
type Downpour struct{}

var _ = Studies.Add("downpour", "Downpour SGD: replicas, Adagrad, warm start, n_fetch and n_push", Downpour{})

// Run implements Study.
func (s Downpour) Run(ctx context.Context, lab *Lab) (*Report, error) {
	target, seeds, grow := 0.95, 5, 3
	limit := []string{}
	if lab.Quick {
		target, seeds, grow = 0.92, 3, 1
		limit = []string{"train_limit=20000"}
	}
	r := &Report{
		Title:  "Downpour SGD on MNIST",
		Source: "Dean et al. 2012, §4.1 and figures 4 and 5: from slowest to fastest 1 replica, 20 at a fixed rate, 20 with Adagrad, 200 with Adagrad",
		Stated: []string{
			"mlp(hidden=[64]) on two shards, 16 samples a replica, n_fetch = n_push = 1 unless said; test set of 10,000",
			"rates: the best of 0.02, 0.05, 0.1 (fixed) and 0.003 … 0.02 (Adagrad) for each number of replicas up to 20, on one seed; warm start of 100 updates, 400 with 200 replicas",
			"time model: lognormal jitter of 20 %, a network that takes no time",
		},
	}
	variants := []struct {
		name   string
		epochs int
		keys   []string
	}{
		{"1 replica", 1, []string{"workers=1", "optimizer=sgd", "schedule=constant(lr=0.1)"}},
		{"20 fixed", 3, []string{"workers=20", "optimizer=sgd", "schedule=constant(lr=0.02)", "warm_start=100"}},
		{"20 Adagrad", 3, []string{"workers=20", "optimizer=adagrad", "schedule=constant(lr=0.01)", "warm_start=100"}},
		{"200 fixed", 6, []string{"workers=200", "optimizer=sgd", "schedule=constant(lr=0.02)", "warm_start=400"}},
		{"200 Adagrad", 6, []string{"workers=200", "optimizer=adagrad", "schedule=constant(lr=0.01)", "warm_start=400"}},
		{"20 Adagrad, cold", 3, []string{"workers=20", "optimizer=adagrad", "schedule=constant(lr=0.01)"}},
		{"20 Adagrad, n_push 4", 3, []string{"workers=20", "optimizer=adagrad", "schedule=constant(lr=0.01)", "warm_start=100", "n_push=4"}},
		{"20 Adagrad, n_fetch 4", 3, []string{"workers=20", "optimizer=adagrad", "schedule=constant(lr=0.01)", "warm_start=100", "n_fetch=4"}},
		{"20 Adagrad, both 4", 3, []string{"workers=20", "optimizer=adagrad", "schedule=constant(lr=0.01)", "warm_start=100", "n_fetch=4", "n_push=4"}},
	}
	table := Table{Title: fmt.Sprintf("%d seeds, 95 %% intervals", seeds), Header: []string{"", fmt.Sprintf("ms to %g %%", 100*target), "reached", "final accuracy, %", "staleness", "MB a sample"}}
	fig := figure.Figure{Title: "Downpour SGD", X: figure.Axis{Label: "virtual seconds", Log: true}, Y: figure.Axis{Label: "test accuracy, %"}}
	at, final, bytes := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, v := range variants {
		keys := slices.Concat([]string{"data=mnist", "model=mlp(hidden=[64])", "mode=downpour", "policy=asp", "servers=2", "batch=16", "nonfinite=zero", "device.jitter=0.2",
			"network.bandwidth=10Tbps", "network.latency=0s", "eval_every=100", fmt.Sprintf("epochs=%d", v.epochs*grow)}, limit, v.keys)
		x, err := lab.seeds(ctx, seeds, v.name, keys...)
		if err != nil {
			return nil, err
		}
		reach := x.reach(target)
		at[v.name], final[v.name] = reach.Median, x.accuracy().Mean
		bytes[v.name] = x.of(func(r *experiments.Result) float64 { return float64(r.BytesUp+r.BytesDown) / float64(r.Samples) }).Mean
		table.Rows = append(table.Rows, []string{v.name, fmt.Sprintf("%.1f", 1000*reach.Median), fmt.Sprintf("%d of %d", reach.Reached, reach.N), plusMinus(x.accuracy()),
			fmt.Sprintf("%.1f", x.runs[0].StalenessMean), fmt.Sprintf("%.3f", bytes[v.name]/1e6)})
		if len(fig.Series) < 5 {
			line := figure.Series{Name: v.name}
			line.X, line.Y = x.curve()
			fig.Series = append(fig.Series, line)
		}
	}
	r.Tables = append(r.Tables, table)
	r.between(Claim, "20 replicas at a fixed rate are faster than one", "×", 1, at["1 replica"]/at["20 fixed"], 1.2, math.MaxFloat64)
	r.between(Claim, "20 replicas with Adagrad are faster than one", "×", 1, at["1 replica"]/at["20 Adagrad"], 1.2, math.MaxFloat64)
	r.between(Claim, "200 replicas at the fixed rate good for 20 fail: accuracy", "%", 10, final["200 fixed"], 0, 30)
	r.between(Claim, "200 replicas with the Adagrad rate good for 20 learn: accuracy over the fixed rate's", "points", 0, final["200 Adagrad"]-final["200 fixed"], 20, 100)
	r.between(Claim, "n_push = n_fetch = 4 sends a quarter", "×", 0.25, bytes["20 Adagrad, both 4"]/bytes["20 Adagrad"], 0.2, 0.3)
	r.holds(Hypothesis, "20 with Adagrad are faster than 20 at a fixed rate", at["20 Adagrad"] < at["20 fixed"])
	r.holds(Hypothesis, "200 with Adagrad are the fastest of all", at["200 Adagrad"] < at["20 Adagrad"] && at["200 Adagrad"] < at["20 fixed"])
	r.holds(Hypothesis, "a warm start brings 20 replicas with Adagrad to a better end", final["20 Adagrad"] > final["20 Adagrad, cold"])
	r.Notes = append(r.Notes,
		"200 replicas are not the fastest here: a task of some 2,000 updates is over before a staleness of 200 has averaged out. Tried: Adagrad at 0.003, 0.005 and 0.01, warm starts of 100 and 400 updates, up to 12,500 updates. The paper's task takes millions.",
		"That the death of replicas is tolerated is tested where processes die (experiments/cli), not here. Sandblaster L-BFGS is not there.")
	files, err := figure.Save(filepath.Join(lab.Out, "downpour"), fig)
	r.Figures = append(r.Figures, files...)
	return r, err
}
