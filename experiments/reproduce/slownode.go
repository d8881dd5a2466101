package reproduce

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
)

// SlowNode makes one of the workers slow and sees who waits for it.
//
// Source: Lian et al. 2018, as recalled.
type SlowNode struct{}

var _ = Studies.Add("slow-node", "one worker 10 and 100 times slower: who stalls, and what it costs in accuracy", SlowNode{})

// Group implements Study.
func (SlowNode) Group() Group { return Asynchrony }

// Mechanisms implements Study.
func (SlowNode) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "a slow worker", Doc: "all workers are equal", Off: swap("device.slow", `^1x.*$`, "none"), Slow: true},
		{Name: "not waiting", Doc: "asynchronous methods wait: D-PSGD, SGP, synchronous EASGD", Off: notWaiting, Slow: true},
	}
}

// notWaiting puts methods that wait for their peers, or for all, in the place of
// those that do not.
func notWaiting(c config.Config) []string {
	wait := both(swap("mode", `^adpsgd.*`, "dpsgd"), swap("mode", `^agp.*`, "sgp"))
	if strings.HasPrefix(c.Mode, "easgd") {
		wait = swap("policy", `^asp$`, "bsp")
	}
	return wait(c)
}

// Run implements Study.
func (SlowNode) Run(ctx context.Context, lab *Lab) (*Report, error) {
	r := &Report{
		Title: "time to accuracy with one slow worker",
		Source: "Lian et al. 2018 (as recalled): slowing one of 16 workers 10 or 100 times hardly hurts AD-PSGD and stalls all-reduce and D-PSGD. " +
			"Assran and Rabbat 2020: gradient push need not wait either",
		Stated: []string{
			"task: " + lab.mlp() + " on the first samples of MNIST, tested on all 10,000; batch 16 a worker, plain SGD at 0.1, the same number of gradients in every run",
			"virtual devices of 1 GFLOP/s, lognormal jitter of 0.1, 10 Gb/s: about 5 ms a gradient, beside which a message takes 0.2 ms. The last worker takes 10 or 100 times as long a gradient",
			"time is that to a test accuracy of 0.88, looked at after every 32 gradients a worker; a method stalls if it takes at least half as many times as long as the slow worker does",
			"accuracy is that of the mean of all workers' models, the slow one's included, or of the server's",
		},
	}
	workers, limit, seeds := 16, "24000", 5
	if lab.Quick {
		workers, limit, seeds = 8, "9000", 3
	}
	methods := []struct {
		name   string
		stalls bool
		each   int     // gradients in an update
		loses  float64 // of accuracy, at most
		keys   []string
	}{
		{"all-reduce", true, workers, 0, []string{"mode=reduce"}},
		{"server, bsp", true, workers, 0, []string{"mode=server"}},
		{"EASGD, sync", true, 4 * workers, 0, []string{"mode=easgd(tau=4)"}},
		{"D-PSGD, ring", true, workers, 0, []string{"mode=dpsgd"}},
		{"SGP, one-peer", true, workers, 0, []string{"mode=sgp", "graph=one_peer"}},
		{"overlap-SGP, 2 late", true, workers, 0, []string{"mode=sgp(late=2)", "graph=one_peer"}},
		{"AD-PSGD, ring", false, 1, 0.02, []string{"mode=adpsgd"}},
		{"AGP, one-peer", false, 1, 0.05, []string{"mode=agp", "graph=one_peer"}},
		{"EASGD, async", false, 4, 0.02, []string{"mode=easgd(tau=4)", "policy=asp"}},
	}
	table := figure.Table{Title: "mean and 95 % interval over seeds", Header: []string{"method", "slow", "accuracy", "time of all gradients", "time to 0.88"}}
	runs, got, slows := lab.plan(seeds), map[string][]*sample{}, []int{1, 10, 100}
	for _, m := range methods {
		for _, slow := range slows {
			law := "none"
			if slow > 1 {
				law = fmt.Sprintf("1x%d", slow)
			}
			got[m.name] = append(got[m.name], runs.add(fmt.Sprintf("%s,slow=%d", m.name, slow), append([]string{
				"data=mnist", "model=" + lab.mlp(), "train_limit=" + limit, fmt.Sprintf("workers=%d", workers), "batch=16", "epochs=3", "target=0.88",
				fmt.Sprintf("eval_every=%d", 32*workers/m.each), "schedule=constant(lr=0.1)", "device.flops=1e9", "network.bandwidth=10Gbps", "device.law=lognormal(sigma=0.1)", "device.slow=" + law,
			}, m.keys...)...))
		}
	}
	if err := runs.make(ctx); err != nil {
		return nil, err
	}
	for _, m := range methods {
		var even *sample
		base := 0.0
		for i, slow := range slows {
			t := got[m.name][i]
			took := t.of(func(r *experiments.Result) float64 { return r.TargetSeconds })
			for _, run := range t.Runs {
				if !run.Result.TargetReached {
					took.Mean = math.Inf(1)
				}
			}
			all := t.of(func(r *experiments.Result) float64 { return r.VirtualSeconds })
			word := "not by all"
			if !math.IsInf(took.Mean, 1) {
				word = progress.Seconds(took.Mean)
			}
			table.Rows = append(table.Rows, []string{m.name, fmt.Sprintf("%d×", slow), t.String(), progress.Seconds(all.Mean), word})
			if slow == 1 {
				even, base = t, took.Mean
				continue
			}
			name, factor := fmt.Sprintf("%s, one worker %d× slower: ", m.name, slow), float64(slow)
			if m.stalls {
				r.between(Claim, name+"time, against none", "×", factor, took.Mean/base, factor/2, 1.2*factor)
				continue
			}
			r.between(Claim, name+"time, against none, at most 2", "×", 1, took.Mean/base, 0, 2)
			r.between(Claim, fmt.Sprintf("%saccuracy lost, at most %g", name, m.loses), "", 0, even.mean()-t.mean(), -1, m.loses)
		}
	}
	r.Tables = append(r.Tables, table)
	r.Notes = append(r.Notes, "SGP as published waits for what was sent to it and stalls with its slowest worker, late messages or not; gradient push without waiting does not, "+
		"but weight gathers at the slow worker and comes back stale, which costs accuracy; AD-PSGD and asynchronous EASGD lose none")
	return r, nil
}
