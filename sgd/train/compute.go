package train

import (
	"context"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// gradient computes the gradient of a worker's step and returns the mean loss.
// NaN and Inf are caught here, before anything is encoded: in the gradient as a
// whole or, if tensors leave as they are made, in each of them.
func (j *Job) gradient(ctx context.Context, d *desk, params, grad []float32, worker, step int, need, ready func(int) error) (loss float64, bad bool, err error) {
	b, err := d.batches.batch(j.draw(worker, step))
	if err != nil {
		return 0, false, fmt.Errorf("batch of step %d: %w", step, err)
	}
	if j.cores.own {
		d.batches.ahead(j.draw(worker, step+1))
	}
	pass := sgd.Pass{Params: params, Grad: grad, Need: need, Scratch: d.scratch, Threads: j.cores.threads}
	if ready != nil { // a tensor may have left before the next one is made
		pass.Ready = func(span int) error {
			g := j.Model.Layout().View(grad, span)
			switch {
			case f32.AllFinite(g):
			case j.NonFinite == "zero":
				clear(g)
				bad = true
			default:
				return j.nonFinite(span, worker, step)
			}
			return ready(span)
		}
	}
	loss, err = j.Model.Grad(ctx, pass, *b)
	switch {
	case err != nil:
		return 0, bad, fmt.Errorf("gradient of step %d: %w", step, err)
	case ready != nil:
		return loss, bad, nil
	case d.scan.allFinite(grad, j.cores.limit()):
		return loss, false, nil
	}
	if j.NonFinite == "zero" {
		f32.Fill(grad, 0)
		return 0, true, nil
	}
	l := j.Model.Layout()
	for i := range l.Spans {
		if g := l.View(grad, i); !f32.AllFinite(g) {
			return 0, true, j.nonFinite(i, worker, step)
		}
	}
	return loss, false, nil
}

// nonFinite words which tensor went wrong.
func (j *Job) nonFinite(span, worker, step int) error {
	return fmt.Errorf("worker %d, step %d: the gradient of %s has NaN or Inf; lower the learning rate, add clip, or set nonfinite=zero",
		worker, step, j.Model.Layout().Spans[span].Name)
}

// descent follows a backward pass: left is the index of the lowest span from
// which on all are ready.
type descent struct {
	ready []bool
	left  int
}

func newDescent(spans int) *descent { return &descent{make([]bool, spans), spans} }

func (d *descent) pass(span int) {
	for d.ready[span] = true; d.left > 0 && d.ready[d.left-1]; {
		d.left--
	}
}

// timeline prices one step of a worker on the virtual clock: forward time and
// backward time (twice that) of every span, in forward order.
type timeline struct {
	forward, total time.Duration
	span           []float64 // shares of forward, the same in every step
}

func (j *Job) timeline(worker, step int) timeline {
	t := timeline{span: j.shares}
	t.forward = j.Timing.Cost(j.flops*float64(j.Batch), j.Seed, worker, step)
	t.total = 3 * t.forward
	return t
}

// weigh fills in what a sample's forward pass costs, and each span's share.
func (j *Job) weigh() {
	j.flops, j.shares = 0, j.Model.SpanFLOPs()
	for _, f := range j.shares {
		j.flops += f
	}
	for i := range j.shares {
		if j.flops > 0 {
			j.shares[i] /= j.flops
		}
	}
}
