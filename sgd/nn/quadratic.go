package nn

import (
	"context"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Quadratic is a noisy quadratic bowl, for tests and for theory one can check:
// the sample at stream position p has the loss
//
//	ℓ_p(w) = ½ Σ λ_i (w_i − w*_i)² + σ Σ ξ_{p,i} (w_i − w*_i),  ξ ~ N(0, 1)
//
// with λ spaced evenly in the logarithm from 1 down to 1/Condition. Noise is
// addressed by (batch seed, p, i), so batches average it and every placement of
// a sample sees the same. Inputs and labels are ignored; Eval reports the loss
// without noise, and no correct predictions.
type Quadratic struct {
	Dim       int     `doc:"number of parameters"`
	Condition float64 `doc:"largest over smallest curvature"`
	Noise     float64 `doc:"σ, standard deviation of one sample's gradient"`
}

var _ = Models.Add("quadratic", "noisy quadratic bowl, for tests", Quadratic{Dim: 100, Condition: 10, Noise: 0.1})

// Validate checks the options.
func (m Quadratic) Validate() error {
	switch {
	case m.Dim < 1:
		return fmt.Errorf("dim must be at least 1, not %d", m.Dim)
	case !(m.Condition >= 1) || math.IsInf(m.Condition, 0):
		return fmt.Errorf("condition must be at least 1, not %g", m.Condition)
	case !(m.Noise >= 0) || math.IsInf(m.Noise, 0):
		return fmt.Errorf("noise must be at least 0, not %g", m.Noise)
	}
	return nil
}

// New builds the model; the form of samples does not matter.
func (m Quadratic) New(sgd.Sample) (sgd.Model, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("nn: quadratic: %w", err)
	}
	q := &quadratic{noise: m.Noise, lambda: make([]float64, m.Dim), best: make([]float64, m.Dim)}
	q.layout.Add("w", sgd.Weight, 1, m.Dim)
	key := rng.New(0, "quadratic optimum")
	for i := range m.Dim {
		q.lambda[i] = portable.Pow(m.Condition, -float64(i)/float64(max(m.Dim-1, 1)))
		q.best[i] = key.Norm(uint64(i))
	}
	return q, nil
}

type quadratic struct {
	layout       sgd.Layout
	noise        float64
	lambda, best []float64
}

func (q *quadratic) Layout() sgd.Layout { return q.layout }

// Init draws from the standard normal law.
func (q *quadratic) Init(params []float32, seed uint64) {
	key := rng.New(seed, "init").With(0)
	for i := range params {
		params[i] = float32(key.Norm(uint64(i)))
	}
}

func (q *quadratic) NewScratch() sgd.Scratch { return nil }

func (q *quadratic) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(p.Params) != len(q.lambda) || len(p.Grad) != len(q.lambda) || b.N < 1 {
		return 0, fmt.Errorf("nn: quadratic of %d with %d parameters, %d gradients, %d samples",
			len(q.lambda), len(p.Params), len(p.Grad), b.N)
	}
	if p.Need != nil {
		if err := p.Need(0); err != nil {
			return 0, err
		}
	}
	key := rng.New(b.Seed, "quadratic")
	loss := 0.0
	for i, l := range q.lambda {
		noise := 0.0
		if q.noise > 0 {
			for s := range b.N {
				noise += key.With(b.First + uint64(s)).Norm(uint64(i))
			}
			noise *= q.noise / float64(b.N)
		}
		d := float64(p.Params[i]) - q.best[i]
		loss += float64(d * (float64(0.5*l*d) + noise))
		p.Grad[i] = float32(float64(l*d) + noise)
	}
	if p.Ready != nil {
		if err := p.Ready(0); err != nil {
			return 0, err
		}
	}
	return loss, nil
}

func (q *quadratic) Eval(params []float32, _ sgd.Scratch, b sgd.Batch) (sgd.Score, error) {
	if len(params) != len(q.lambda) {
		return sgd.Score{}, fmt.Errorf("nn: quadratic of %d with %d parameters", len(q.lambda), len(params))
	}
	loss := 0.0
	for i, l := range q.lambda {
		d := float64(params[i]) - q.best[i]
		loss += float64(0.5 * l * d * d)
	}
	return sgd.Score{N: b.N, Sums: []float64{loss * float64(b.N)}}, nil
}

func (q *quadratic) Metrics() []sgd.Metric { return []sgd.Metric{sgd.Loss} }

func (q *quadratic) SpanFLOPs() []float64 { return []float64{4 * float64(len(q.lambda))} }
