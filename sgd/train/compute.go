package train

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// gradient computes the gradient of a worker's step and returns the mean loss.
// NaN and Inf are caught here, before anything is encoded: at the end, or span
// by span where spans leave as they get ready. bad says that there were some and
// that they were made zero.
func (j *Job) gradient(ctx context.Context, d *desk, params, grad []float32, worker, step int, need, ready func(int) error) (loss float64, bad bool, err error) {
	loss, bad, err = j.gradientOf(ctx, d, params, grad, j.draw(worker, step), func() {
		if j.cores.own {
			d.batches.ahead(j.draw(worker, step+1))
		}
	}, need, ready)
	if err != nil {
		err = fmt.Errorf("worker %d, gradient of step %d: %w", worker, step, err)
	}
	return loss, bad, err
}

// gradientOf computes the gradient of given samples, as gradient does. drawn, if
// not nil, is called once they are there.
func (j *Job) gradientOf(ctx context.Context, d *desk, params, grad []float32, samples sgd.Draw, drawn func(), need, ready func(int) error) (loss float64, bad bool, err error) {
	b, err := d.batches.batch(samples)
	if err != nil {
		return 0, false, fmt.Errorf("batch: %w", err)
	}
	if drawn != nil {
		drawn()
	}
	d.spoilt = false
	p := sgd.Pass{Params: params, Grad: grad, Need: need, Scratch: d.scratch, Threads: j.cores.threads}
	if ready != nil {
		p.Ready = func(span int) error {
			if err := j.sift(d, grad, span, span+1); err != nil {
				return err
			}
			return ready(span)
		}
	}
	loss, err = j.Model.Grad(ctx, p, *b)
	if err == nil && ready == nil {
		err = j.sift(d, grad, 0, len(j.shares))
	}
	switch {
	case err != nil:
		return 0, false, err
	case d.spoilt:
		return 0, true, nil
	}
	return loss, false, nil
}

// sift looks for NaN and Inf in spans [lo, hi) of a gradient. They are an error,
// or make all these spans zero.
func (j *Job) sift(d *desk, grad []float32, lo, hi int) error {
	l := j.Model.Layout()
	part := grad[l.Spans[lo].Off:l.Spans[hi-1].End()]
	if d.scan.allFinite(part, j.cores.limit()) {
		return nil
	}
	if d.soft || j.NonFinite == "zero" {
		d.spoilt = true
		clear(part)
		return nil
	}
	for f32.AllFinite(l.View(grad, lo)) {
		lo++
	}
	return fmt.Errorf("%s has NaN or Inf; lower the learning rate, add clip, or set nonfinite=zero", l.Spans[lo].Name)
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
// backward time (twice that) of every span, in forward order. Reading goes on
// beside both and takes its time from both.
type timeline struct {
	forward, total time.Duration
	span           []float64 // shares of forward, the same in every step
}

func (j *Job) timeline(worker, step int) timeline {
	t := timeline{span: j.shares}
	flops := j.flops * float64(j.Batch) * j.Timing.Slow.Times(j.Workers-1-worker)
	t.forward = j.Timing.Cost(flops, j.Seed, worker, step)
	t.forward += timing.At(float64(j.Batch)/3, j.Timing.Input/float64(j.beside(worker)))
	t.total = 3 * t.forward
	return t
}

// beside counts the workers of a worker's node, itself included: the last node may
// have fewer than others.
func (j *Job) beside(worker int) int {
	node := max(j.Node, 1)
	return min(node, j.Workers-worker/node*node)
}

// Forward is the virtual time of a worker's forward pass in a step; the backward
// pass takes twice that.
func (j *Job) Forward(worker, step int) time.Duration { return j.timeline(worker, step).forward }

// weigh fills in what a sample's forward pass costs, and each span's share.
func (j *Job) weigh() {
	j.flops, j.shares = 0, slices.Clone(j.Model.SpanFLOPs())
	for _, f := range j.shares {
		j.flops += f
	}
	for i := range j.shares {
		if j.flops > 0 {
			j.shares[i] /= j.flops
		}
	}
}
