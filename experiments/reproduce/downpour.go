package reproduce

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Downpour compares numbers of replicas, fixed rates, Adagrad and Sandblaster
// L-BFGS, warm starts, rarer fetches and pushes, and lets replicas die (Dean et
// al. 2012, figures 4 and 5).
type Downpour struct{}

var _ = Studies.Add("downpour", "Downpour SGD and Sandblaster L-BFGS: replicas, Adagrad, warm start, n_fetch and n_push, deaths, backup copies", Downpour{})

// Group implements Study.
func (Downpour) Group() Group { return Asynchrony }

// Mechanisms implements Study.
func (Downpour) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "Adagrad", Doc: "plain SGD at the rate of Adagrad", Off: swap("optimizer", `^adagrad.*`, "sgd"), Slow: true},
		{Name: "rare exchanges", Doc: "a fetch and a push every step", Off: swap("mode", `(n_fetch|n_push)=\d+`, "$1=1"), Slow: true},
		{Name: "backup copies", Doc: "no copies of portions", Off: swap("mode", `^sandblaster(\(.*\))?$`, "sandblaster(backup=0)"), Slow: true},
		{Name: "deaths", Doc: "nobody dies", Off: swap("faults", `^kill.*$`, "none"), Slow: true},
	}
}

// Run implements Study.
func (s Downpour) Run(ctx context.Context, lab *Lab) (*Report, error) {
	size := downpourSize{samples: 60_000, target: 0.95, seeds: 5, grow: 3, hidden: 64, many: 6, every: 100, iterations: 60}
	if lab.Quick {
		size = downpourSize{samples: 9000, target: 0.88, seeds: 3, grow: 1, hidden: 32, many: 10, every: 150, iterations: 14, limit: []string{"train_limit=9000"}}
	}
	r := &Report{
		Title:  "Downpour SGD and Sandblaster L-BFGS on MNIST",
		Source: "Dean et al. 2012, §4 and figures 4 and 5: from slowest to fastest 1 replica, 20 at a fixed rate, 20 with Adagrad, Sandblaster L-BFGS on 2000, 200 with Adagrad",
		Stated: []string{
			fmt.Sprintf("mlp(hidden=[%d]) on two shards, 16 samples a replica, n_fetch = n_push = 1 unless said; test set of 10,000", size.hidden),
			"rates: the best of 0.02, 0.05, 0.1 (fixed) and 0.003 … 0.02 (Adagrad) for each number of replicas up to 20, on one seed. Warm start of 100 gradients, 400 with 200 replicas",
			"Sandblaster: the training set is the batch, in portions of 50 samples with 20 workers and 16 with 200 (backup copies: as said). Ten pairs, one copy of a portion, evaluated every iteration",
			"time model: devices of 1 GFLOP/s with lognormal jitter of 20 %, a network that takes no time",
		},
	}
	adagrad := func(fetch, push int) []string {
		return []string{"workers=20", "optimizer=adagrad", "schedule=constant(lr=0.01)", fmt.Sprintf("mode=downpour(n_fetch=%d,n_push=%d,warm_start=%d)", fetch, push, 100/push)}
	}
	arms := []*arm{
		{name: "1 replica", epochs: 1, keys: []string{"workers=1", "optimizer=sgd", "schedule=constant(lr=0.1)"}},
		{name: "20 fixed", epochs: 3, keys: []string{"workers=20", "optimizer=sgd", "schedule=constant(lr=0.02)", "mode=downpour(warm_start=100)"}},
		{name: "20 Adagrad", epochs: 3, keys: adagrad(1, 1)},
		{name: "200 fixed", epochs: size.many, keys: []string{"workers=200", "optimizer=sgd", "schedule=constant(lr=0.02)", "mode=downpour(warm_start=400)"}},
		{name: "200 Adagrad", epochs: size.many, keys: []string{"workers=200", "optimizer=adagrad", "schedule=constant(lr=0.01)", "mode=downpour(warm_start=400)"}},
		{name: "Sandblaster, 20", keys: []string{"workers=20", "batch=50"}},
		{name: "Sandblaster, 200", keys: []string{"workers=200", "batch=16"}},
		{name: "20 Adagrad, cold", epochs: 3, keys: adagrad(1, 1)[:3]},
		{name: "20 Adagrad, n_push 4", epochs: 3, keys: adagrad(1, 4)},
		{name: "20 Adagrad, n_fetch 4", epochs: 3, keys: adagrad(4, 1)},
		{name: "20 Adagrad, both 4", epochs: 3, keys: adagrad(4, 4)},
		{name: "20 Adagrad, both 16", epochs: 3, keys: adagrad(16, 16)},
	}
	of := map[string]*arm{}
	for _, a := range arms {
		if err := a.run(ctx, lab, size); err != nil {
			return nil, err
		}
		of[a.name] = a
	}
	// Half of the replicas die on the way to the target.
	for _, name := range []string{"20 Adagrad", "Sandblaster, 20"} {
		whole := of[name]
		part := func(share float64) time.Duration { return time.Duration(share * whole.reach * 1e9) }
		a := &arm{name: name + ", 10 die", epochs: whole.epochs, keys: append(slices.Clip(whole.keys), "faults="+dying(20, 5, part(0.3), part(0.6)).String())}
		if math.IsInf(whole.reach, 1) { // the claim fails as it is
			return nil, fmt.Errorf("%s does not reach %g %%, so there is no time for deaths", name, 100*size.target)
		}
		if err := a.run(ctx, lab, size); err != nil {
			return nil, err
		}
		arms = append(arms, a)
		of[a.name] = a
	}
	table := figure.Table{Title: fmt.Sprintf("%d seeds, 95 %% intervals", size.seeds), Header: []string{"", fmt.Sprintf("s to %g %%", 100*size.target), "reached", "final accuracy, %", "staleness", "MB a sample"}}
	fig := figure.Figure{Title: "Downpour SGD and Sandblaster L-BFGS", X: figure.Axis{Label: "virtual seconds", Log: true}, Y: figure.Axis{Label: "test accuracy, %"}}
	for i, a := range arms {
		table.Rows = append(table.Rows, []string{a.name, fmt.Sprintf("%.3g", a.reach), fmt.Sprintf("%d of %d", a.reached, size.seeds), plusMinus(a.runs.accuracy()),
			fmt.Sprintf("%.1f", a.runs.first().StalenessMean), fmt.Sprintf("%.3f", a.bytes()/1e6)})
		if i < 7 {
			line := figure.Series{Name: a.name}
			var err error
			if line.X, line.Y, err = a.runs.curve(); err != nil {
				return nil, err
			}
			fig.Series = append(fig.Series, line)
		}
	}
	r.Tables = append(r.Tables, table)

	s.claims(r, of, size.seeds)
	if err := s.backup(ctx, lab, size, r); err != nil {
		return nil, err
	}
	r.Notes = append(r.Notes,
		"200 replicas are not the fastest here: a task of some 2,000 updates is over before a staleness of 200 has averaged out. Tried: Adagrad at 0.003, 0.005 and 0.01, warm starts of 100 and 400 updates, up to 12,500 updates. The paper's task takes millions.",
		"The time of 20 replicas holds that of the warm start, in which one works alone.",
		"Deaths come at 30 % and 60 % of the time to the target, five each, as of killed processes; processes that are killed for real are in the tests of experiments/cli.")
	files, err := figure.Save(filepath.Join(lab.Out, "downpour"), fig)
	r.Figures = append(r.Figures, files...)
	return r, err
}

// claims holds the arms to what was published.
func (Downpour) claims(r *Report, of map[string]*arm, seeds int) {
	at := func(name string) float64 { return of[name].reach }
	final := func(name string) float64 { return of[name].runs.accuracy().Mean }
	r.between(Claim, "20 replicas at a fixed rate are faster than one", "×", 1, at("1 replica")/at("20 fixed"), 1.2, math.MaxFloat64)
	r.between(Claim, "20 replicas with Adagrad are faster than one", "×", 1, at("1 replica")/at("20 Adagrad"), 1.2, math.MaxFloat64)
	r.between(Claim, "200 replicas at the fixed rate good for 20 fail: accuracy", "%", 10, final("200 fixed"), 0, 30)
	r.between(Claim, "200 replicas with the Adagrad rate good for 20 learn: accuracy over the fixed rate's", "points", 0, final("200 Adagrad")-final("200 fixed"), 20, 100)
	r.between(Claim, "n_push = n_fetch = 4 sends a quarter", "×", 0.25, of["20 Adagrad, both 4"].bytes()/of["20 Adagrad"].bytes(), 0.2, 0.3)
	r.between(Claim, "n_push = n_fetch = 16 sends a sixteenth, and the first fetches", "×", 1.0/16, of["20 Adagrad, both 16"].bytes()/of["20 Adagrad"].bytes(), 0.05, 0.1)
	for _, name := range []string{"Sandblaster, 20", "Sandblaster, 200"} {
		r.exactly(Claim, name+": seeds that reach the target", "", float64(seeds), float64(of[name].reached))
	}
	r.between(Claim, "Sandblaster: ten times the workers, time to the target", "×", 0.1, at("Sandblaster, 200")/at("Sandblaster, 20"), 0.08, 0.2)
	for _, name := range []string{"20 Adagrad, 10 die", "Sandblaster, 20, 10 die"} {
		a := of[name]
		r.exactly(Claim, name+" of 20: seeds that reach the target all the same", "", float64(seeds), float64(a.reached))
		r.holds(Claim, name+" of 20: every run is marked degraded, and its ledger balances", a.mourned(10))
	}
	r.holds(Hypothesis, "20 with Adagrad are faster than 20 at a fixed rate", at("20 Adagrad") < at("20 fixed"))
	r.holds(Hypothesis, "Sandblaster on 200 is faster than Downpour with Adagrad on 20", at("Sandblaster, 200") < at("20 Adagrad"))
	r.holds(Hypothesis, "200 with Adagrad are faster than Sandblaster on 200", at("200 Adagrad") < at("Sandblaster, 200"))
	r.holds(Hypothesis, "200 with Adagrad are the fastest of all", at("200 Adagrad") < at("20 Adagrad") && at("200 Adagrad") < at("20 fixed") && at("200 Adagrad") < at("Sandblaster, 200"))
	r.holds(Hypothesis, "a warm start brings 20 replicas with Adagrad to a better end", final("20 Adagrad") > final("20 Adagrad, cold"))
	r.holds(Hypothesis, "n_push = n_fetch = 16 reaches the target as well", of["20 Adagrad, both 16"].reached == seeds)
}

// dying kills so many of the workers that are left at each instant, the last ones first.
func dying(workers, each int, at ...time.Duration) (s nemesis.Schedule) {
	for i, when := range at {
		for n := range each {
			s = append(s, nemesis.Kill{Rank: fmt.Sprint("w", workers-1-i*each-n), At: when})
		}
	}
	return s
}

// backup lets one of 20 workers of Sandblaster be ten times slower than the
// others, with copies of what it is at and without, for portions of two sizes.
func (Downpour) backup(ctx context.Context, lab *Lab, size downpourSize, r *Report) error {
	table := figure.Table{Title: "Sandblaster, 20 workers, seconds for five iterations", Header: []string{"portions a worker", "", "none slow", "one 10× as slow"}}
	const coarse, fine = 9, 60
	took := map[string]float64{}
	for _, portions := range []int{coarse, fine} {
		for _, backup := range []int{0, 1} {
			row := []string{fmt.Sprint(portions), fmt.Sprintf("backup=%d", backup)}
			for _, slow := range []string{"none", "1x10"} {
				name := fmt.Sprintf("Sandblaster, 20, %d portions a worker, backup %d, slow %s", portions, backup, slow)
				a := &arm{name: name, mode: fmt.Sprintf("sandblaster(backup=%d)", backup), steps: 5,
					keys: []string{"workers=20", fmt.Sprintf("batch=%d", size.samples/(20*portions)), "device.slow=" + slow}}
				if err := a.run(ctx, lab, size); err != nil {
					return err
				}
				sum := a.runs.of(func(r *experiments.Result) float64 { return r.VirtualSeconds })
				took[fmt.Sprint(portions, backup, slow)] = sum.Mean
				row = append(row, fmt.Sprintf("%.3f ± %.3f", sum.Mean, sum.Half))
			}
			table.Rows = append(table.Rows, row)
		}
	}
	r.Tables = append(r.Tables, table)
	of := func(portions, backup int, slow string) float64 { return took[fmt.Sprint(portions, backup, slow)] }
	r.between(Claim, "one of 20 is 10× as slow, with backup copies: time over that without", "×", 1, of(coarse, 1, "1x10")/of(coarse, 1, "none"), 0.9, 1.2)
	r.between(Claim, "one of 20 is 10× as slow, no copies: time over that with them", "×", 1, of(coarse, 0, "1x10")/of(coarse, 1, "1x10"), 1.1, 100)
	r.Notes = append(r.Notes, fmt.Sprintf("What a slow worker costs is the portion it is at when the others have done theirs. That is %.0f %% of an iteration without copies where a worker does %d portions, %.0f %% where it does %d. Small portions are most of the cure.",
		100*(of(coarse, 0, "1x10")/of(coarse, 0, "none")-1), coarse, 100*(of(fine, 0, "1x10")/of(fine, 0, "none")-1), fine))
	return nil
}

// downpourSize is how large the study is.
type downpourSize struct {
	samples                         int // of the training set
	target                          float64
	seeds, grow, hidden, iterations int
	many                            int // epochs of 200 replicas
	every                           int // updates between evaluations
	limit                           []string
}

// arm is one configuration of the study: of Downpour if it has epochs, else of
// Sandblaster.
type arm struct {
	name   string
	epochs int
	mode   string // of Sandblaster, if not the default
	steps  int    // iterations, likewise
	keys   []string

	runs    *sample
	reach   float64 // median time to the target
	reached int     // seeds
}

func (a *arm) run(ctx context.Context, lab *Lab, size downpourSize) (err error) {
	evals := size.every
	switch {
	case a.epochs > 3: // of runs that do not get far there are many updates
		evals *= 4
	case a.steps > 0: // only their time matters
		evals = 0
	case a.epochs == 0:
		evals = 1
	}
	keys := []string{"data=mnist", fmt.Sprintf("model=mlp(hidden=[%d])", size.hidden), "servers=2", "device.flops=1e9", "device.law=lognormal(sigma=0.2)", "network.bandwidth=10Tbps", "network.latency=0s",
		fmt.Sprintf("eval_every=%d", evals)}
	if a.epochs > 0 {
		keys = append(keys, "mode=downpour", "policy=asp", "batch=16", "nonfinite=zero", fmt.Sprintf("epochs=%d", a.epochs*size.grow))
	} else {
		mode, steps := "sandblaster", size.iterations
		if a.mode != "" {
			mode, steps = a.mode, a.steps
		}
		keys = append(keys, "mode="+mode, "optimizer=sgd", "epochs=0", fmt.Sprintf("steps=%d", steps))
	}
	if a.runs, err = lab.seeds(ctx, size.seeds, a.name, slices.Concat(keys, size.limit, a.keys)...); err != nil {
		return err
	}
	way, err := a.runs.Reach(record.Goal{Metric: sgd.Accuracy, Value: size.target})
	a.reach, a.reached = way.Seconds.Median, way.Seconds.Reached
	return err
}

// bytes is what crosses the network a sample.
func (a *arm) bytes() float64 {
	return a.runs.of(func(r *experiments.Result) float64 { return float64(r.BytesUp+r.BytesDown) / float64(r.Samples) }).Mean
}

// mourned says whether all runs have lost so many workers, say so, and account
// for every gradient.
func (a *arm) mourned(dead int) bool {
	for _, run := range a.runs.Runs {
		r := run.Result
		l := r.Ledger
		if !r.Degraded || len(r.Lost) != dead || l.Sent != l.Applied+l.Rejected+l.Lost || l.Applied == 0 {
			return false
		}
	}
	return true
}
