package parts

import (
	"fmt"

	"github.com/gradlab/gradlab/staleness"
)

// Smooth puts a mean in the place of every gradient, so that one that is late, and far
// from the others, moves little:
//
//	m ← β·m + (1−β)·g;  g ← m
//
// Tuning: optimizer=sgd, as this is a momentum.
type Smooth struct {
	Beta float64 `spec:",show" doc:"share of the mean kept from gradient to gradient, above 0 and less than 1"`
}

var _ = staleness.Correctors.Add("smooth", "the mean of gradients in the place of each", Smooth{Beta: 0.5})

// Validate checks the range of Beta.
func (o Smooth) Validate() error {
	if !(o.Beta > 0 && o.Beta < 1) {
		return fmt.Errorf("option \"beta\" is %v; want more than 0 and less than 1", o.Beta)
	}
	return nil
}

// Traits implements Corrector.
func (Smooth) Traits() staleness.CorrectorTraits {
	return staleness.CorrectorTraits{Amends: true, Momentum: true}
}

// Scale leaves rates as they are.
func (Smooth) Scale(staleness.Past) float64 { return 1 }

// Amender makes the mean of n parameters.
func (o Smooth) Amender(n, _ int) staleness.Amender {
	return &smooth{beta: float32(o.Beta), mean: make([]float32, n)}
}

type smooth struct {
	beta float32
	mean []float32
}

func (a *smooth) Amend(g, _, _ []float32, _ staleness.Past) {
	for i, v := range g {
		a.mean[i] = float32(a.beta*a.mean[i]) + float32((1-a.beta)*v)
		g[i] = a.mean[i]
	}
}

func (a *smooth) State() map[string][]float32 { return map[string][]float32{"mean": a.mean} }
