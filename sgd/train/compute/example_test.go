package compute_test

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/compute"
)

// line is a model of one parameter, whose loss on a sample is half the square of the distance
// to it.
type line struct{ sgd.Model }

func (line) Layout() (l sgd.Layout) { l.Add("w", sgd.Weight, 1, 1); return l }

func (line) NewScratch() sgd.Scratch { return nil }

func (line) Grad(_ context.Context, p sgd.Pass, b sgd.Batch) (loss float64, _ error) {
	p.Grad[0] = 0
	for _, x := range b.X {
		d := p.Params[0] - x
		p.Grad[0] += d / float32(b.N)
		loss += float64(d*d) / 2 / float64(b.N)
	}
	return loss, nil
}

// counting are the samples 0, 1, 2, ….
type counting struct{ sgd.Source }

func (counting) Batch(d sgd.Draw, b *sgd.Batch) error {
	b.N, b.X = d.N, b.X[:0]
	for i := range d.N {
		b.X = append(b.X, float32(d.First)+float32(i))
	}
	return nil
}

// A worker computes the gradient of four samples in two micro-batches, and takes a step.
func Example() {
	task := &compute.Task{
		Gate: compute.NewGate(1, 1, false), Model: func(int) sgd.Model { return line{} }, Batch: 4, Accumulate: 2,
	}
	step, _ := compute.NewStepper(sgd.Plain{}, line{}.Layout(), 1)
	params, grad := []float32{0}, []float32{0}

	var seat compute.Seat
	desk := seat.Take(task.Gate, line{}, counting{})
	loss, _, _ := desk.Gradient(context.Background(), task, compute.Wanted{Params: params, Grad: grad, Samples: sgd.Draw{N: 4}, Weight: 1})
	seat.Give(task.Gate, desk)
	fmt.Println("loss", loss, "gradient", grad[0])

	step.Advance(grad, params, sgd.Step{LR: 0.5})
	fmt.Println("parameter", params[0])
	// Output:
	// loss 1.75 gradient -1.5
	// parameter 0.75
}
