package reproduce

import (
	"context"
	"fmt"
)

// GoyalWarmup compares ways to begin with a large rate: at once, after some epochs
// at the rate of the small batch, or approaching it gradually (Goyal et al. 2017,
// section 2.2).
type GoyalWarmup struct {
	Batch int `doc:"the large batch, a multiple of 32"`
}

var _ = Studies.Add("goyal-warmup", "beginning with a large rate: at once, after a constant warm-up, gradually", GoyalWarmup{Batch: 1024})

// Group implements Study.
func (GoyalWarmup) Group() Group { return LargeBatch }

// Mechanisms implements Study.
func (GoyalWarmup) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "warm-up", Doc: "the large rate at once", Off: swap("schedule", `^warmup\((.*),epochs=[^()]*\)$`, "$1"), Slow: true},
	}
}

// Run implements Study.
func (s GoyalWarmup) Run(ctx context.Context, lab *Lab) (*Report, error) {
	m := lab.minibatch()
	if err := multiple(s.Batch); err != nil {
		return nil, err
	}
	r := &Report{
		Title: fmt.Sprintf("warm-up at a batch of %d", s.Batch),
		Source: "Goyal et al. 2017: large minibatches cause difficulties early in training that warm-up overcomes (abstract); gradual is best, " +
			"constant worse than none (table 1, order as recalled)",
		Stated: append(m.stated(),
			fmt.Sprintf("linear scaling, the rate divided by ten at 30, 60 and 80 of 90 parts of the run; warm-up over %d epochs", warmEpochs),
			"twice: with the base rate that was tuned at the small batch, as in the paper; and with the rate of every way tuned at the large batch itself, with equal budgets"),
	}
	c := &contest{lab: lab, keys: m.keys(), tries: m.tries, seeds: 5}
	at := func(batch int, schedule func(float64) string) []candidate {
		return m.on(batch, nesterov(""), m.rates(), schedule)
	}
	small := c.tune(fmt.Sprintf("batch %d", m.small), at(m.small, m.step))
	ways := []struct {
		name     string
		schedule func(x float64) string
	}{
		{"no warm-up", m.linear},
		{"constant warm-up", func(x float64) string {
			return fmt.Sprintf("warmup(%s,epochs=%d,from=%g,constant=true)", m.linear(x), warmEpochs, x)
		}},
		{"gradual warm-up", func(x float64) string { return gradual(m.linear(x), x) }},
	}
	var scaled, tuned []*side
	for _, w := range ways {
		scaled = append(scaled, c.follow(small, w.name, at(s.Batch, w.schedule)))
	}
	for _, w := range ways {
		tuned = append(tuned, c.tune(w.name+", tuned at the large batch", at(s.Batch, w.schedule)))
	}
	if err := c.hold(ctx); err != nil {
		return nil, err
	}
	c.tables(r, "the base rate, for a batch of "+fmt.Sprint(m.small), small)
	r.noWorse(Claim, scaled[2], small)
	r.better(Claim, scaled[2], scaled[0])
	r.better(Hypothesis, scaled[2], scaled[1])
	r.better(Hypothesis, scaled[0], scaled[1])
	r.better(Hypothesis, tuned[2], tuned[0])
	r.better(Hypothesis, tuned[2], tuned[1])
	return r, nil
}
