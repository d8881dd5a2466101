package reproduce

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/figure"
)

// CompressedLargeBatch compares codecs at a large batch under linear scaling and
// gradual warm-up, each with a rate of its own.
//
// Source: Lin et al. 2018 (DGC), Vogels et al. 2019 (PowerSGD), Seide et al. 2014
// (1 bit), Vargaftik et al. 2022 (EDEN), as recalled.
type CompressedLargeBatch struct {
	Batch int `doc:"the batch, a multiple of 32"`
}

var _ = Studies.Add("compressed-large-batch", "DGC, top-k, 1 bit, PowerSGD, EDEN at a large batch, each tuned with the same budget", CompressedLargeBatch{Batch: 512})

// Group implements Study.
func (CompressedLargeBatch) Group() Group { return LargeBatch }

// Mechanisms implements Study.
func (CompressedLargeBatch) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "compression", Doc: "raw gradients under every name", Off: swap("codec", `^.*$`, "raw"), Slow: true},
	}
}

// Run implements Study.
func (s CompressedLargeBatch) Run(ctx context.Context, lab *Lab) (*Report, error) {
	m := lab.minibatch()
	if err := multiple(s.Batch); err != nil {
		return nil, err
	}
	r := &Report{
		Title: fmt.Sprintf("compressed gradients at a batch of %d", s.Batch),
		Source: "as recalled, so that no point is judged: Lin et al. 2018 (DGC), Vogels et al. 2019 (PowerSGD) and Seide et al. 2014 (1 bit with error feedback) " +
			"lose no accuracy to uncompressed gradients, in their trainings",
		Stated: append(m.stated(),
			fmt.Sprintf("linear scaling, gradual warm-up over %d epochs, the rate divided by ten at 30, 60 and 80 of 90 parts of the run; all-reduce where a codec can be summed, else every worker gathers all encodings", warmEpochs),
			"DGC has the momentum inside: momentum 0.9, its own warm-up of 2 epochs to 1 %, plain SGD behind it, and weight decay with a velocity of its own"),
	}
	c := &contest{lab: lab, keys: m.keys(), tries: m.tries, seeds: 5}
	var sides []*side
	for _, v := range []struct{ name, codec, rule string }{
		{"raw", "raw", nesterov("")},
		{"DGC 1 %", "dgc(keep=0.01,warmup=2)", "optimizer=chain(decay(rate=1e-4,momentum=0.9),sgd)"},
		{"top 1 %", "feedback(topk(keep=0.01))", nesterov("")},
		{"1 bit", "feedback(onebit)", nesterov("")},
		{"PowerSGD", "feedback(powersgd(rank=4))", nesterov("")},
		{"EDEN", "eden(bits=1)", nesterov("")},
	} {
		sides = append(sides, c.tune(v.name, grid(m.rates(), nil, func(x float64, _ string) []string {
			return []string{batchOf(s.Batch), v.rule, "codec=" + v.codec, "schedule=" + gradual(m.linear(x), x)}
		})))
	}
	if err := c.hold(ctx); err != nil {
		return nil, err
	}
	c.tables(r, "the base rate, for a batch of "+fmt.Sprint(m.small), sides[0])
	sent := figure.Table{Title: "what workers receive from each other", Header: []string{"codec", "of raw, %"}}
	up := func(r *experiments.Result) float64 { return float64(r.BytesUp) }
	for _, x := range sides {
		sent.Rows = append(sent.Rows, []string{x.name, fmt.Sprintf("%.2f", 100*x.of(up).Mean/sides[0].of(up).Mean)})
	}
	r.Tables = append(r.Tables, sent)
	// A ring sends each worker 2·(P−1)/P·4N bytes, a gather (P−1)·N/8 of one bit a value.
	workers := float64(s.Batch) / 32
	for _, i := range []int{3, 5} {
		r.within(Claim, sides[i].name+", gathered: bytes of a raw ring's, P/64", "%", 100*workers/64, 100*sides[i].of(up).Mean/sides[0].of(up).Mean, 0.1)
	}
	for _, i := range []int{1, 3, 4} { // those that the source speaks of
		r.noWorse(Hypothesis, sides[i], sides[0])
	}
	return r, nil
}
