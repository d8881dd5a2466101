package reproduce

import (
	"context"
	"fmt"
	"math"
	"strconv"
)

// LARSRange compares LARS with Nesterov momentum over batches, both tuned with the
// same budget (Nado et al. 2021).
type LARSRange struct{}

var _ = Studies.Add("lars-range", "LARS and Nesterov momentum over batches, both tuned with the same budget", LARSRange{})

// Group implements Study.
func (LARSRange) Group() Group { return LargeBatch }

// Mechanisms implements Study.
func (LARSRange) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "trust ratio", Doc: "momentum in place of LARS", Off: swap("optimizer", `^lars\(.*`, "momentum"), Slow: true},
	}
}

// Run implements Study.
func (LARSRange) Run(ctx context.Context, lab *Lab) (*Report, error) {
	m := lab.minibatch()
	batches, octavesEach := []int{64, 512, 2048}, 5
	if !lab.Quick { // wide grids matter more than how sure a choice is
		m.tries = 1
	}
	r := &Report{
		Title: "LARS and Nesterov momentum, each tuned at every batch",
		Source: "Nado et al. 2021: Nesterov momentum matches or exceeds LARS at large batches, where both are tuned (abstract); " +
			"You et al. 2017: LARS makes larger batches possible",
		Stated: append(m.stated(),
			fmt.Sprintf("both: a warm-up of %d epochs from a tenth of the rate, then a fall with power 2; grids of %d octaves that begin in proportion to the root of the batch", warmEpochs, octavesEach),
			"Nesterov: rate and momentum (0.9, 0.95), decay 1e-4. LARS: trust × rate and trust (0.001, 0.02), momentum 0.9, decay 1e-4 on weights; the rate itself is that of biases and norms"),
	}
	c := &contest{lab: lab, keys: m.keys(), tries: m.tries, seeds: 5}
	poly := func(rate float64) string {
		return "schedule=" + gradual(fmt.Sprintf("poly(lr=%g,power=2)", rate), rate/10)
	}
	var lars, nesterov []*side
	for _, batch := range batches {
		root := math.Sqrt(float64(batch) / float64(m.small))
		nesterov = append(nesterov, c.tune(fmt.Sprintf("Nesterov, batch %d", batch), grid(octaves(digits(0.05*root), octavesEach), []string{"β=0.9", "β=0.95"}, func(rate float64, knob string) []string {
			return []string{batchOf(batch), fmt.Sprintf("optimizer=chain(decay(rate=1e-4),nesterov(beta=%s))", knob[len("β="):]), poly(rate)}
		})))
		lars = append(lars, c.tune(fmt.Sprintf("LARS, batch %d", batch), grid(octaves(digits(0.002*root), octavesEach), []string{"trust=0.001", "trust=0.02"}, func(rate float64, knob string) []string {
			trust := map[string]float64{"trust=0.001": 0.001, "trust=0.02": 0.02}[knob]
			return []string{batchOf(batch), "optimizer=lars(" + knob + ")", poly(digits(rate / trust))}
		})))
	}
	if err := c.hold(ctx); err != nil {
		return nil, err
	}
	c.tables(r, "rate and momentum of Nesterov; trust × rate, and trust, of LARS", nesterov[0])
	if err := lab.scaleFree(r); err != nil {
		return nil, err
	}
	for i := range batches {
		r.noWorse(Claim, nesterov[i], lars[i])
		r.better(Hypothesis, lars[i], nesterov[i])
	}
	return r, nil
}

// digits rounds to two significant digits.
func digits(x float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 2, 64), 64)
	return rounded
}
