package reproduce

import (
	"context"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/staleness"
)

// path is a net in training by plain SGD on digits, whose gradients are asked about.
type path struct {
	model  sgd.Model
	source sgd.Source
	layout sgd.Layout
	pass   sgd.Pass
	batch  sgd.Batch
}

// newPath begins at first weights.
func newPath() (*path, error) {
	ds, err := data.Open("digits", data.Options{Seed: 1})
	if err != nil {
		return nil, err
	}
	m, err := nn.Models.MustParse("mlp(hidden=[32])").New(ds.Train.Sample())
	if err != nil {
		return nil, err
	}
	l := m.Layout()
	p := &path{model: m, source: ds.Train, layout: l, pass: sgd.Pass{Params: make([]float32, l.Size()), Scratch: m.NewScratch()}}
	m.Init(p.pass.Params, 1)
	return p, nil
}

// grad is the gradient at parameters on the batch of a step.
func (p *path) grad(ctx context.Context, params []float32, step int) ([]float32, error) {
	const n = 16
	if err := p.source.Batch(sgd.Draw{First: uint64(step * n), N: n}, &p.batch); err != nil {
		return nil, err
	}
	q := p.pass
	q.Params, q.Grad = params, make([]float32, p.layout.Size())
	_, err := p.model.Grad(ctx, q, p.batch)
	return q.Grad, err
}

// nearer adds what delay compensation promises (Zheng et al. 2017, section 3): the
// gradient that was computed tau updates ago, compensated, is nearer to the one at
// the parameters as they are than it was. Both are of the same samples, on a path
// of plain SGD.
func (l *Lab) nearer(ctx context.Context, r *Report, name, corrector string, tau int) error {
	const steps, rate = 200, 0.05
	p, err := newPath()
	if err != nil {
		return err
	}
	c := staleness.Correctors.MustParse(l.spec("corrector", corrector))
	amend := func([]float32, []float32, []float32, staleness.Past) {}
	if a, ok := c.(staleness.Amending); ok {
		amend = a.Amender(p.layout.Size(), 1).Amend
	}
	var sent [][]float32 // parameters before each update
	logs := 0.0
	for step := range steps {
		now := p.pass.Params
		g, err := p.grad(ctx, now, step)
		if err != nil {
			return err
		}
		sent = append(sent, append([]float32(nil), now...))
		if step >= tau {
			was := sent[step-tau]
			late, err := p.grad(ctx, was, step)
			if err != nil {
				return err
			}
			before := apart(late, g)
			amend(late, now, was, staleness.Past{Delay: tau, Update: step})
			logs += math.Log(apart(late, g) / before)
		}
		for i := range now {
			now[i] -= rate * g[i]
		}
	}
	ratio := math.Exp(logs / float64(steps-tau))
	r.between(Claim, fmt.Sprintf("%s: a gradient %d updates late is nearer to that of today compensated than as it is: distances, geometric mean over %d", name, tau, steps-tau),
		"×", math.NaN(), ratio, 0, math.Nextafter(1, 0))
	return nil
}

// apart is the Euclidean distance of two vectors.
func apart(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		sum += d * d
	}
	return math.Sqrt(sum)
}
