package reproduce

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/figure"
)

// DuttaError draws error against time for K-sync and K-async (Dutta et al. 2018,
// figures 1 and 6). Few workers an update are fast and end high, many are slow
// and end low, so the curves cross.
type DuttaError struct{}

var _ = Studies.Add("dutta-error-runtime", "error against time for K = 1 … 8 of 8 workers: the curves cross", DuttaError{})

// duttaCurve is a rule with one K over seeds.
type duttaCurve struct {
	*sample
	steps  int
	update float64 // mean compute times between two, by theory; under K-async only about
}

// pace is how long an update took, in virtual seconds.
func (c duttaCurve) pace() float64 {
	return c.of(func(r *experiments.Result) float64 { return r.VirtualSeconds / float64(r.Steps) }).Mean
}

// Group implements Study.
func (DuttaError) Group() Group { return Asynchrony }

// Mechanisms implements Study.
func (DuttaError) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "waiting", Doc: "K = 1 under every name", Off: swap("policy", `k=\d+`, "k=1"), Slow: true},
		{Name: "random times", Doc: "every gradient takes the same time", Off: swap("device.law", `^.+$`, "constant"), Slow: true},
	}
}

// Run implements Study.
func (s DuttaError) Run(ctx context.Context, lab *Lab) (*Report, error) {
	const workers = 8
	seeds, span := 5, 8000.0 // mean compute times
	if lab.Quick {
		seeds, span = 3, 2500
	}
	r := &Report{
		Title:  "test loss against time, 8 workers of which K are waited for",
		Source: "Dutta et al. 2018, theorems 3 to 5 and figures 1 and 6: the floor of K-sync falls as 1/K, the time of an update rises with K",
		Stated: []string{
			"logistic regression on MNIST, 1 sample a worker, rate 0.005, plain SGD; test set of 10,000",
			fmt.Sprintf("time model: exponential and shifted exponential (0.5 + Exp(0.5)) compute times of mean 1, a network that takes no time; %g mean compute times a run", span),
		},
	}
	ks := []int{1, 2, 4, 8}
	var panels []figure.Figure
	table := figure.Table{Title: fmt.Sprintf("test loss (%d seeds)", seeds), Header: []string{"rule", "law", "K", "after 1/50 of the time", "at the end", "updates"}}
	runs, got := lab.plan(seeds), map[string]duttaCurve{}
	name := func(rule, law string, k int) string { return fmt.Sprintf("%s %s k = %d", rule, law, k) }
	laws, rules := []string{"exponential", "shifted_exponential(shift=0.5)"}, []string{"ksync", "kasync"}
	for _, law := range laws {
		scale := 1.0
		if law != "exponential" {
			scale = 0.5
		}
		for _, rule := range rules {
			for _, k := range ks {
				update := (1 - scale) + scale*(harmonic(workers)-harmonic(workers-k))
				if rule == "kasync" && scale < 1 {
					update = min(update, (1-scale)*float64(k)/workers+update/2) // between renewal and barrier: only a run's length
				}
				steps := int(span / update)
				s := runs.add(name(rule, law, k), "data=mnist", "model=logistic", "optimizer=sgd", "schedule=constant(lr=0.005)",
					fmt.Sprintf("workers=%d", workers), "batch=1", fmt.Sprintf("policy=%s(k=%d)", rule, k), fmt.Sprintf("steps=%d", steps), fmt.Sprintf("eval_every=%d", max(1, steps/50)),
					"device.law="+law, "device.flops=1e8", "network.bandwidth=10Tbps", "network.latency=0s")
				got[name(rule, law, k)] = duttaCurve{s, steps, update}
			}
		}
	}
	if err := runs.make(ctx); err != nil {
		return nil, err
	}
	for _, law := range laws {
		one := got[name("ksync", law, 1)]
		unit := one.pace() / one.update // seconds of a mean compute time
		for _, k := range ks[1:] {
			x := got[name("ksync", law, k)]
			r.within(Claim, fmt.Sprintf("ksync, %s: time of an update, K = %d over K = 1: E[X_K:P]/E[X_1:P]", law, k), "×", x.update/one.update, x.pace()/one.pace(), 0.05)
		}
		for _, rule := range rules {
			fig := figure.Figure{Title: rule + ", " + law, X: figure.Axis{Label: "mean compute times", Log: true}, Y: figure.Axis{Label: "test loss", Log: true}}
			early, late := map[int]float64{}, map[int]float64{}
			for _, k := range ks {
				x := got[name(rule, law, k)]
				line := figure.Series{Name: fmt.Sprintf("K = %d", k)}
				n := len(x.first().Evals)
				for i := range n {
					sum := 0.0
					for _, run := range x.Runs {
						sum += run.Result.Evals[i].Values["loss"]
					}
					line.X, line.Y = append(line.X, x.first().Evals[i].Seconds/unit), append(line.Y, sum/float64(seeds))
				}
				for i, t := range line.X {
					if i == 0 || t <= span/50*1.1 { // K = 8 may be evaluated later for the first time, which favours it
						early[k] = line.Y[i]
					}
				}
				for _, y := range line.Y[n-n/4:] {
					late[k] += y / float64(n/4)
				}
				fig.Series = append(fig.Series, line)
				table.Rows = append(table.Rows, []string{rule, law, fmt.Sprint(k), fmt.Sprintf("%.4f", early[k]), fmt.Sprintf("%.4f", late[k]), fmt.Sprint(x.steps)})
			}
			at := ", " + rule + ", " + law
			r.between(Claim, "early K = 1 is ahead: its loss over that of K = 8"+at, "×", 1, early[1]/early[8], 0, 0.98)
			r.between(Claim, "in the end K = 8 is: its loss over that of K = 1"+at, "×", 1, late[8]/late[1], 0, 0.98)
			r.holds(Claim, "the floor falls from K = 1 over 2 to 4"+at, late[1] > late[2] && late[2] > late[4])
			panels = append(panels, fig)
		}
	}
	r.Tables = append(r.Tables, table)
	files, err := figure.Save(filepath.Join(lab.Out, "dutta-error-runtime"), panels...)
	r.Figures = append(r.Figures, files...)
	return r, err
}
