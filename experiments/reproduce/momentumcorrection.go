package reproduce

import (
	"context"
	"fmt"
)

// MomentumCorrection compares Nesterov momentum with the rate outside the velocity,
// which is momentum correction, and inside it (Goyal et al. 2017, remark 2).
type MomentumCorrection struct {
	Batch int `doc:"the batch, a multiple of 32"`
}

var _ = Studies.Add("momentum-correction", "a velocity that absorbs the rate, with and without correction, where rates change", MomentumCorrection{Batch: 1024})

// Group implements Study.
func (MomentumCorrection) Group() Group { return LargeBatch }

// Mechanisms implements Study.
func (MomentumCorrection) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "correction", Doc: "the rate stays outside the velocity under every name", Off: swap("optimizer", `inside=true`, "inside=false"), Slow: true},
	}
}

// Run implements Study.
func (s MomentumCorrection) Run(ctx context.Context, lab *Lab) (*Report, error) {
	m := lab.minibatch()
	if err := multiple(s.Batch); err != nil {
		return nil, err
	}
	r := &Report{
		Title:  fmt.Sprintf("momentum correction at a batch of %d", s.Batch),
		Source: "Goyal et al. 2017, remark 2: with a velocity that absorbs the rate, correct it where the rate changes (as recalled: for stable training)",
		Stated: append(m.stated(),
			fmt.Sprintf("linear scaling, gradual warm-up over %d epochs, the rate divided by ten at 30, 60 and 80 of 90 parts of the run", warmEpochs),
			"corrected: v ← βv + g, w ← w − lr·(g + βv); not: v ← βv + lr·g, w ← w − (lr·g + βv). Both are tuned with the same budget; the second also runs with the rate of the first"),
	}
	c := &contest{lab: lab, keys: m.keys(), tries: m.tries, seeds: 5}
	at := func(rule string) []candidate {
		return m.on(s.Batch, rule, m.rates(), func(x float64) string { return gradual(m.linear(x), x) })
	}
	corrected := c.tune("corrected", at(nesterov("")))
	without := c.tune("not corrected", at(nesterov(",inside=true")))
	same := c.follow(corrected, "not corrected, at the rate of the corrected", at(nesterov(",inside=true")))
	if err := c.hold(ctx); err != nil {
		return nil, err
	}
	c.tables(r, "the base rate, for a batch of "+fmt.Sprint(m.small), corrected)
	if err := lab.afterFall(r); err != nil {
		return nil, err
	}
	r.better(Hypothesis, corrected, same)
	r.better(Hypothesis, corrected, without)
	return r, nil
}
