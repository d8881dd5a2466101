package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// gradient computes the gradient of a worker's step and returns the mean loss.
// NaN and Inf are caught here, before anything is encoded: at the end, or span
// by span where spans leave as they get ready. bad says that there were some and
// that they were made zero.
func (j *Job) gradient(ctx context.Context, d *desk, params, grad []float32, worker, step int, need, ready func(int) error) (loss float64, bad bool, err error) {
	loss, bad, err = j.gradientOf(ctx, d, params, grad, worker, step, j.draw(worker, step), func() {
		if j.cores.own {
			next := j.draw(worker, step+1)
			d.batches.ahead(micro(next, 0, j.micros(next)))
		}
	}, need, ready)
	if err != nil {
		err = fmt.Errorf("worker %d, gradient of step %d: %w", worker, step, err)
	}
	return loss, bad, err
}

// gradientOf computes the gradient of given samples, for a worker's step, as gradient
// does. drawn, if
// not nil, is called once they are there.
func (j *Job) gradientOf(ctx context.Context, d *desk, params, grad []float32, worker, step int, samples sgd.Draw, drawn func(), need, ready func(int) error) (loss float64, bad bool, err error) {
	d.spoilt = false
	d.begin()
	l := j.Model.Layout()
	passes, spans, model := j.micros(samples), len(l.Spans), j.sized(samples.Side).model
	for i := range passes {
		if j.Between != nil {
			if err := j.Between(worker, step, i, passes); err != nil {
				return 0, false, err
			}
		}
		m := micro(samples, i, passes)
		b, err := d.batches.batch(m)
		if err != nil {
			return 0, false, fmt.Errorf("batch: %w", err)
		}
		last := i == passes-1
		switch {
		case !last && j.cores.own:
			d.batches.ahead(micro(samples, i+1, passes))
		case last && drawn != nil:
			drawn()
		}
		first, share, part := i == 0, float64(m.N)/float64(samples.N), grad
		weighted := share * j.weight(samples.N)
		if !first {
			part = d.another(len(grad))
		}
		p := sgd.Pass{Params: params, Grad: part, Sum: d.sum, Scratch: d.scratch, Threads: j.cores.threads}
		if first {
			p.Need = need
		}
		if last && ready != nil {
			p.Ready = func(span int) error {
				d.hear(l, part, m.N, span, span+1)
				j.gather(grad, part, weighted, first, span, span+1)
				if err := j.sift(d, grad, span, span+1); err != nil {
					return err
				}
				return ready(span)
			}
		}
		of, err := model.Grad(ctx, p, *b)
		if err != nil {
			return 0, false, err
		}
		if p.Ready == nil {
			d.hear(l, part, m.N, 0, spans)
			j.gather(grad, part, weighted, first, 0, spans)
		}
		loss += float64(share * of)
	}
	if ready == nil {
		if err := j.sift(d, grad, 0, spans); err != nil {
			return 0, false, err
		}
	}
	if d.spoilt {
		return 0, true, nil
	}
	return loss, false, nil
}

// micros is in how many micro-batches samples are computed: none is larger than those
// of a first batch, but for one sample.
func (j *Job) micros(samples sgd.Draw) int {
	n := (samples.N*max(1, j.Accumulate) + j.Batch - 1) / j.Batch
	return max(1, min(n, samples.N))
}

// micro is micro-batch i of n: consecutive samples, as many in each but for one.
func micro(d sgd.Draw, i, n int) sgd.Draw {
	from, to := i*d.N/n, (i+1)*d.N/n
	return sgd.Draw{First: d.First + uint64(from), N: to - from, Side: d.Side}
}

// gather adds spans [lo, hi) of the gradient of a micro-batch, which has that share of
// the samples, to those before it; that of the first is in grad already. It goes span
// by span, so that the bits are the same whether spans leave one by one or together.
func (j *Job) gather(grad, part []float32, share float64, first bool, lo, hi int) {
	if share == 1 {
		return
	}
	l := j.Model.Layout()
	for span := lo; span < hi; span++ {
		if first {
			f32.Scale(l.View(grad, span), float32(share))
		} else {
			f32.Axpy(l.View(grad, span), float32(share), l.View(part, span))
		}
	}
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
	return fmt.Errorf("%s %w; lower the learning rate, add clip, or set nonfinite=zero%s", l.Spans[lo].Name, ErrNotFinite, j.printed())
}

// ErrNotFinite is in the error of a run that a gradient with NaN or Inf ends.
var ErrNotFinite = errors.New("has NaN or Inf")

// printed is what an error about a gradient ends with: the last output of the program
// that computed it, if another did.
func (j *Job) printed() string {
	if p, ok := j.Model.(sgd.Printing); ok {
		if text := p.Printed(); text != "" {
			return "; the program's last output:\n" + text
		}
	}
	return ""
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
// backward time (twice that) of every span, in forward order. The next batch is read
// beside both: passes take as long as reading where that takes longer.
//
// Of several micro-batches forward is that of one: parameters are waited for in the
// first, gradients leave in the last. What lies between the two is time between.
type timeline struct {
	forward, between, total time.Duration
	span                    []float64 // shares of forward, the same in every step
}

func (j *Job) timeline(worker, step int) timeline {
	return j.timelineBeside(worker, step, j.Timing.Software(j.Workers))
}

// timelineBeside is timeline where software takes so long beside the passes.
func (j *Job) timelineBeside(worker, step int, software time.Duration) timeline {
	batch := j.draw(worker, step)
	at := j.sized(batch.Side)
	t := timeline{span: at.shares}
	device, last := j.device(worker)
	flops := at.flops * float64(batch.N) * j.Timing.Slow.Times(last)
	t.forward = j.Timing.Cost(flops, j.Seed, device, step) + software/3
	reads := float64(batch.N) / 3
	if batch.Side > 0 {
		reads *= at.input
	}
	t.forward = max(t.forward, j.Timing.Reading(reads, j.Timing.Input/float64(j.beside(worker)), j.Seed, device, step))
	t.total = 3 * t.forward
	if n := j.micros(batch); n > 1 {
		t.forward /= time.Duration(n)
		t.between = t.total - 3*t.forward
	}
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
func (j *Job) Forward(worker, step int) time.Duration { return j.timeline(worker, step).total / 3 }
