package reproduce

import (
	"context"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/staleness"
)

// LateRules compares rules that weigh late gradients, each at the best of its own
// rates: gap-aware (Barkai et al. 2020), FASGD (Odena 2016) and AdaDelay (Sra et
// al. 2016), beside division by staleness and nothing done.
type LateRules struct{}

var _ = Studies.Add("late-rules", "gap-aware, FASGD and AdaDelay beside α/τ and nothing done, 16 workers, each at its own best rate", LateRules{})

// Group implements Study.
func (LateRules) Group() Group { return Asynchrony }

// Mechanisms implements Study.
func (LateRules) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "gap", Doc: "gap-aware divides by staleness, as α/τ does", Off: swap("corrector", `^gap_aware.*`, "alpha_tau"), Slow: true},
		{Name: "deviation", Doc: "FASGD divides by staleness, as α/τ does", Off: swap("corrector", `^fasgd.*`, "alpha_tau"), Slow: true},
		{Name: "falling rate", Doc: "AdaDelay's rate stays as it is", Off: swap("corrector", `^adadelay.*`, "none"), Slow: true},
	}
}

// Run implements Study.
func (LateRules) Run(ctx context.Context, lab *Lab) (*Report, error) {
	const workers, batch = 16, 16
	size := []string{"epochs=5"}
	if lab.Quick {
		size = []string{"train_limit=6000", "epochs=4"}
	}
	r := &Report{
		Title: "rules for late gradients, each at its own best rate",
		Source: "as recalled: dividing each coordinate by how far it moved beats dividing by staleness (Barkai, Hakimi and Schuster 2020); " +
			"dividing by the gradient's deviation converges faster than dividing by staleness (Odena 2016, abstract); a rate that falls with time and staleness (Sra et al. 2016)",
		Stated: []string{
			fmt.Sprintf("%s on MNIST, %d asynchronous workers of %d samples, momentum 0.9 at the server; test set of 10,000; device jitter of 20 %%, a network that takes no time", lab.mlp(), workers, batch),
			"a cosine, but for AdaDelay, whose rate falls by itself and beside which stands a constant rate; six rates each, in octaves around what the rule needs: gradients over their deviation have unit size, gradients over staleness count a sixteenth",
			"momentum is where staleness hurts: without it sixteen workers lose little (dc-asgd)",
		},
	}
	c := &contest{lab: lab, tries: 2, seeds: 5, keys: append([]string{"data=mnist", "model=" + lab.mlp(), "optimizer=momentum", "mode=server", "policy=asp",
		fmt.Sprintf("workers=%d", workers), fmt.Sprintf("batch=%d", batch), "nonfinite=zero", "device.law=lognormal(sigma=0.2)", "network.bandwidth=10Tbps", "network.latency=0s"}, size...)}
	rule := func(name, corrector, schedule string, first float64) *side {
		return c.tune(name, grid(octaves(first, 6), nil, func(rate float64, _ string) []string {
			return []string{"corrector=" + corrector, fmt.Sprintf("schedule=%s(lr=%g)", schedule, rate)}
		}))
	}
	none := rule("nothing done", "none", "cosine", 0.0005)
	tau := rule("α/τ", "alpha_tau", "cosine", 0.0075)
	gap := rule("gap-aware", "gap_aware", "cosine", 0.002)
	fasgd := rule("FASGD", "fasgd", "cosine", 0.00003)
	constant := rule("a constant rate", "none", "constant", 0.00025)
	delay := rule("AdaDelay", "adadelay(c=0.1)", "constant", 0.001)
	if err := c.hold(ctx); err != nil {
		return nil, err
	}
	c.tables(r, "the rate", none)
	r.better(Claim, gap, tau)
	r.better(Claim, fasgd, tau)
	r.better(Claim, delay, tau)
	// Its law, apart from learning: α/(1 + c·√(t + τ)) (Sra et al. 2016, section 3).
	scale := func(updates, late int) float64 {
		return staleness.Correctors.MustParse(lab.spec("corrector", "adadelay(c=0.1)")).Scale(staleness.Past{Update: updates, Delay: late})
	}
	r.within(Claim, "AdaDelay: rate after 400 updates over that after 100, 16 late", "×", (1+0.1*math.Sqrt(116))/(1+0.1*math.Sqrt(416)), scale(400, 16)/scale(100, 16), 0.01)
	r.better(Hypothesis, gap, none)
	r.better(Hypothesis, fasgd, none)
	r.better(Hypothesis, delay, none)
	r.better(Hypothesis, delay, constant)
	return r, nil
}
