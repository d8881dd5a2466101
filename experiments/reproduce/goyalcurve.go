package reproduce

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/gradlab/gradlab/experiments/figure"
)

// GoyalCurve is the error over the batch under linear scaling and gradual warm-up:
// flat, then rising (Goyal et al. 2017, figure 1).
type GoyalCurve struct{}

var _ = Studies.Add("goyal-curve", "error over the batch under linear scaling and warm-up: flat, then rising", GoyalCurve{})

// Group implements Study.
func (GoyalCurve) Group() Group { return LargeBatch }

// Mechanisms implements Study.
func (GoyalCurve) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "linear scaling", Doc: "the rate of the small batch at every batch", Off: swap("schedule", `linear\((step\([^()]*\)),reference=\d+\)`, "$1"), Slow: true},
	}
}

// Run implements Study.
func (s GoyalCurve) Run(ctx context.Context, lab *Lab) (*Report, error) {
	m := lab.minibatch()
	batches := []int{64, 128, 256, 512, 1024, 2048, 4096}
	if lab.Quick {
		batches = []int{64, 128, 256, 1024, 4096}
	}
	r := &Report{
		Title: "error over the batch",
		Source: "Goyal et al. 2017: no loss of accuracy up to a batch of 8192 (abstract), " +
			"which is 32 times the reference of 256; beyond, the error rises (figure 1, as recalled)",
		Stated: append(m.stated(),
			fmt.Sprintf("linear scaling, gradual warm-up over %d epochs, the rate divided by ten at 30, 60 and 80 of 90 parts of the run", warmEpochs),
			fmt.Sprintf("the base rate is tuned at a batch of %d; where the curve turns depends on the task, and is not compared with ImageNet's", m.small)),
	}
	c := &contest{lab: lab, keys: m.keys(), tries: m.tries, seeds: 5}
	var sides []*side
	for _, batch := range batches {
		name := fmt.Sprintf("batch %d", batch)
		if batch == m.small {
			sides = append(sides, c.tune(name, m.on(batch, nesterov(""), m.rates(), m.step)))
			continue
		}
		sides = append(sides, c.follow(sides[0], name, m.on(batch, nesterov(""), m.rates(), func(x float64) string { return gradual(m.linear(x), x) })))
	}
	if err := c.hold(ctx); err != nil {
		return nil, err
	}
	c.tables(r, "the base rate", sides[0])
	last := sides[len(sides)-1]
	r.noWorse(Claim, sides[1], sides[0])
	r.noWorse(Claim, sides[2], sides[0])
	r.better(Claim, sides[0], last)
	r.better(Claim, sides[len(sides)-2], last)
	curve := figure.Series{Name: "linear scaling, gradual warm-up", Marks: true}
	for i, x := range sides {
		a := x.accuracy()
		curve.X, curve.Y = append(curve.X, float64(batches[i])), append(curve.Y, 100-a.Mean)
		curve.Lo, curve.Hi = append(curve.Lo, 100-a.Mean-a.Half), append(curve.Hi, 100-a.Mean+a.Half)
	}
	files, err := figure.Save(filepath.Join(lab.Out, "goyal-curve"), figure.Figure{Title: r.Title, X: figure.Axis{Label: "batch", Log: true}, Y: figure.Axis{Label: "test error, %"}, Series: []figure.Series{curve}})
	r.Figures = files
	return r, err
}
