package reproduce

import (
	"context"
	"fmt"
	"math"
)

// BatchNorm compares over which samples batch norm takes its statistics: those of each
// worker, a part of them, or those of several workers (Ying et al. 2018; Hoffer et al.
// 2017).
type BatchNorm struct{}

var _ = Studies.Add("batch-norm", "statistics of each worker's batch, of a part of it, and over workers", BatchNorm{})

// Group implements Study.
func (BatchNorm) Group() Group { return LargeBatch }

// Mechanisms implements Study.
func (BatchNorm) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "synchronised", Doc: "the statistics of each worker alone", Off: swap("bn_group", `^[0-9]+$`, "1"), Slow: true},
		{Name: "ghost", Doc: "the statistics of a worker's whole batch", Off: swap("model", `,ghost=\d+`, ",ghost=0"), Slow: true},
	}
}

// Run implements Study.
func (BatchNorm) Run(ctx context.Context, lab *Lab) (*Report, error) {
	m := lab.minibatch()
	m.epochs, m.tries = 8, 1
	limit, test := 4096, 2000
	if !lab.Quick {
		limit, test = 8192, 5000
	}
	rates := octaves(0.05, 6)
	m.data = []string{"data=cifar10", fmt.Sprintf("train_limit=%d", limit), fmt.Sprintf("test_limit=%d", test), "augment=true"}
	r := &Report{
		Title: "batch norm over 4 to 256 samples",
		Source: "Ying et al. 2018: with few samples a device, statistics are taken over groups of devices; " +
			"Hoffer et al. 2017: at a large batch, statistics of small parts (ghost batches) generalise better (orders as recalled)",
		Stated: []string{
			fmt.Sprintf("wrn(depth=10,width=1) on %d pictures of CIFAR-10, shifted and mirrored, tested on %d; %d epochs, mean of all gradients", limit, test, m.epochs),
			"few a worker: 16 workers of 4 samples, a batch of 64. Many: 2 workers of 128, a batch of 256",
			"Nesterov momentum 0.9, decay 1e-4; gradual warm-up over 2 epochs from a tenth of the rate, then a fall with power 2; the rate is tuned for each side, " +
				fmt.Sprintf("%d octaves from %g times the batch over 64", len(rates), rates[0]),
		},
	}
	c := &contest{lab: lab, tries: m.tries, seeds: 5, keys: append([]string{"mode=reduce", "nonfinite=zero", fmt.Sprintf("epochs=%d", m.epochs)}, m.data...)}
	side := func(name string, workers, batch int, model string, group int) *side {
		return c.tune(name, grid(rates, nil, func(rate float64, _ string) []string {
			rate *= float64(workers*batch) / 64
			return []string{fmt.Sprintf("workers=%d", workers), fmt.Sprintf("batch=%d", batch), "model=wrn(depth=10,width=1" + model + ")", fmt.Sprintf("bn_group=%d", group),
				nesterov(""), "schedule=" + gradual(fmt.Sprintf("poly(lr=%g,power=2)", rate), rate/10)}
		}))
	}
	four := side("few: each worker's 4", 16, 4, "", 1)
	groups := side("few: 16, of four workers", 16, 4, "", 4)
	all := side("few: 64, of all workers", 16, 4, "", 0)
	whole := side("many: each worker's 128", 2, 128, "", 1)
	ghost := side("many: 32, ghost batches", 2, 128, ",ghost=32", 1)
	joint := side("many: 256, of both workers", 2, 128, "", 0)
	if err := c.hold(ctx); err != nil {
		return nil, err
	}
	c.tables(r, "the rate, in the proportion of a batch of 64", all)
	if err := lab.union(ctx, r); err != nil {
		return nil, err
	}
	r.better(Hypothesis, all, four)
	r.better(Hypothesis, groups, four)
	r.better(Hypothesis, ghost, whole)
	r.better(Hypothesis, ghost, joint)
	return r, nil
}

// union adds what follows from what batch norm is: statistics over four workers are
// those of one with the samples of all, and ghost batches are those of four workers by
// themselves. Each is held to a run of one worker, and to what it would be if the
// statistics were others.
func (l *Lab) union(ctx context.Context, r *Report) error {
	loss := func(name string, workers int, model string, group int) (float64, error) {
		got, err := l.run(ctx, name, "data=cifar10", "train_limit=256", "test_limit=256", "mode=reduce", "steps=4", "optimizer=sgd", "schedule=constant(lr=0.05)",
			fmt.Sprintf("workers=%d", workers), fmt.Sprintf("batch=%d", 32/workers), "model=wrn(depth=10,width=1,bn_momentum=1"+model+")", fmt.Sprintf("bn_group=%d", group))
		if err != nil {
			return 0, err
		}
		return got.Values["loss"], nil
	}
	var losses [4]float64
	for i, c := range []struct {
		name    string
		workers int
		model   string
		group   int
	}{
		{"one worker", 1, "", 1}, {"four workers, statistics of all", 4, "", 0}, {"four workers by themselves", 4, "", 1}, {"one worker, ghost batches", 1, ",ghost=8", 1},
	} {
		var err error
		if losses[i], err = loss(c.name, c.workers, c.model, c.group); err != nil {
			return err
		}
	}
	apart := func(a, b float64) float64 { return math.Abs(a-b) / b }
	const same, other = 1e-4, 1e-3
	r.between(Claim, "four workers with the statistics of all are one worker with their samples: relative difference in loss after 4 updates", "", 0, apart(losses[1], losses[0]), 0, same)
	r.between(Claim, "ghost batches of one worker are four workers by themselves: relative difference in loss", "", 0, apart(losses[3], losses[2]), 0, same)
	r.between(Claim, "and four workers by themselves are something else than one with their samples: relative difference in loss", "", math.NaN(), apart(losses[2], losses[0]), other, math.MaxFloat64)
	return nil
}
