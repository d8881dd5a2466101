package parts

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
)

// Deviation is the mean distance of predictions from labels. Runs of [Line] are compared by
// it, and `target=deviation<=0.5` works as a target of any other metric does.
var Deviation = sgd.Metric{Name: "deviation", Unit: "classes", LessIsBetter: true}

var _ = nn.Models.Add("line", "linear regression of the label, which has no accuracy", Line{})

// Line predicts the number of a sample's class, as a number: z = w·x + b, with the loss
// ½(z − y)². It shows a model with a metric of its own.
type Line struct{}

// New makes the model.
func (Line) New(in sgd.Sample) (sgd.Model, error) {
	var l line
	l.layout.Add("w", sgd.Weight, 1, in.Len())
	l.layout.Add("b", sgd.Bias, 1, 1)
	return l, nil
}

type line struct{ layout sgd.Layout }

// Metrics implements sgd.Model; the first is what runs are compared by.
func (line) Metrics() []sgd.Metric { return []sgd.Metric{Deviation, sgd.Loss} }

// Layout implements sgd.Model.
func (l line) Layout() sgd.Layout { return l.layout }

// Init implements sgd.Model: it begins at 0.
func (line) Init(params []float32, _ uint64) { clear(params) }

// NewScratch implements sgd.Model.
func (line) NewScratch() sgd.Scratch { return nil }

// SpanFLOPs implements sgd.Model.
func (l line) SpanFLOPs() []float64 { return []float64{2 * float64(l.layout.Spans[0].Len()), 1} }

// each calls f with the inputs and the error of each sample.
func (l line) each(params []float32, b sgd.Batch, f func(x []float32, off float64)) error {
	w, dim := l.layout.View(params, 0), l.layout.Spans[0].Len()
	if len(params) != l.layout.Size() || len(b.X) < b.N*dim || b.N < 1 {
		return fmt.Errorf("line: %d samples of %d values with %d parameters; the layout has %d", b.N, dim, len(params), l.layout.Size())
	}
	for i := range b.N {
		x, z := b.X[i*dim:(i+1)*dim], float64(params[dim])
		for k, v := range x {
			z += float64(w[k]) * float64(v)
		}
		f(x, z-float64(b.Y[i]))
	}
	return nil
}

// Grad implements sgd.Model.
func (l line) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (loss float64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	for i := range l.layout.Spans {
		if p.Need != nil && err == nil {
			err = p.Need(i)
		}
	}
	if err != nil {
		return 0, err
	}
	clear(p.Grad)
	w, dim := l.layout.View(p.Grad, 0), l.layout.Spans[0].Len()
	err = l.each(p.Params, b, func(x []float32, off float64) {
		loss += off * off / 2 / float64(b.N)
		step := float32(off / float64(b.N))
		for k, v := range x {
			w[k] += step * v
		}
		p.Grad[dim] += step
	})
	for i := range slices.Backward(l.layout.Spans) { // the last gradient is ready first
		if p.Ready != nil && err == nil {
			err = p.Ready(i)
		}
	}
	return loss, err
}

// Eval implements sgd.Model: a sum over the samples for each metric.
func (l line) Eval(params []float32, _ sgd.Scratch, b sgd.Batch) (sgd.Score, error) {
	s := sgd.Score{N: b.N, Sums: make([]float64, 2)}
	err := l.each(params, b, func(_ []float32, off float64) {
		s.Sums[0] += math.Abs(off)
		s.Sums[1] += off * off / 2
	})
	return s, err
}
