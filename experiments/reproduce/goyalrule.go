package reproduce

import (
	"context"
	"fmt"
)

// GoyalRule compares rules that take the rate from a small batch to a large one:
// none, the square root, linear (Goyal et al. 2017, section 2.1).
type GoyalRule struct {
	Batch int `doc:"the large batch, a multiple of 32"`
}

var _ = Studies.Add("goyal-rule", "taking the rate to a large batch: as it is, by the square root, linearly", GoyalRule{Batch: 1024})

// Group implements Study.
func (GoyalRule) Group() Group { return LargeBatch }

// Mechanisms implements Study.
func (GoyalRule) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "linear scaling", Doc: "the rate of the small batch at the large one", Off: swap("schedule", `linear\((step\([^()]*\)),reference=\d+\)`, "$1"), Slow: true},
	}
}

// Run implements Study.
func (s GoyalRule) Run(ctx context.Context, lab *Lab) (*Report, error) {
	m := lab.minibatch()
	if err := multiple(s.Batch); err != nil {
		return nil, err
	}
	r := &Report{
		Title: fmt.Sprintf("the rate that is good for a batch of %d, taken to %d", m.small, s.Batch),
		Source: "Goyal et al. 2017: linear scaling with gradual warm-up loses no accuracy up to a batch of 8192 of ImageNet (abstract); " +
			"the rate as it is, and the square root, do worse (section 5, order as recalled)",
		Stated: append(m.stated(),
			fmt.Sprintf("the rate is divided by ten at 30, 60 and 80 of 90 parts of the run; gradual warm-up over %d epochs from the rate of the small batch", warmEpochs),
			"the base rate is tuned at the small batch alone, as in the paper: a rule is what makes tuning at the large one needless"),
	}
	c := &contest{lab: lab, keys: m.keys(), tries: m.tries, seeds: 5}
	at := func(batch int, schedule func(float64) string) []candidate {
		return m.on(batch, nesterov(""), m.rates(), schedule)
	}
	small := c.tune(fmt.Sprintf("batch %d", m.small), at(m.small, m.step))
	linear := c.follow(small, fmt.Sprintf("batch %d, linear", s.Batch), at(s.Batch, func(x float64) string { return gradual(m.linear(x), x) }))
	root := c.follow(small, fmt.Sprintf("batch %d, √", s.Batch), at(s.Batch, func(x float64) string {
		return gradual(fmt.Sprintf("sqrt(%s,reference=%d)", m.step(x), m.small), x)
	}))
	none := c.follow(small, fmt.Sprintf("batch %d, the same rate", s.Batch), at(s.Batch, m.step))
	if err := c.hold(ctx); err != nil {
		return nil, err
	}
	c.tables(r, "the base rate", small)
	if err := lab.oneForMany(ctx, r); err != nil {
		return nil, err
	}
	r.noWorse(Claim, linear, small)
	r.better(Claim, linear, none)
	r.better(Hypothesis, linear, root)
	r.better(Hypothesis, root, none)
	return r, nil
}

// multiple says whether a batch can be shared out in 32 samples a worker.
func multiple(batch int) error {
	if batch < 64 || batch > 8192 || batch%32 != 0 {
		return fmt.Errorf("option %q is %d; want a multiple of 32 from 64 to 8192", "batch", batch)
	}
	return nil
}
