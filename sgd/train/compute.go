package train

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// slot is what one gradient computation needs: a model's scratch, a batch and
// a gradient vector. Slots are shared by all ranks of a process, a few per
// core, so that memory grows with cores and not with workers.
type slot struct {
	scratch sgd.Scratch
	batch   sgd.Batch
	grad    []float32
}

type computePool struct{ free chan *slot }

func newComputePool(j *Job) *computePool {
	n := min(j.Workers, runtime.GOMAXPROCS(0))
	p := &computePool{free: make(chan *slot, n)}
	for i := 0; i < n; i++ {
		p.free <- nil // made on first use
	}
	return p
}

// get waits for a slot. Nobody may wait for another rank while holding one.
func (p *computePool) get(j *Job) *slot {
	if s := <-p.free; s != nil {
		return s
	}
	return newSlot(j)
}

func (p *computePool) put(s *slot) { p.free <- s }

func newSlot(j *Job) *slot {
	return &slot{scratch: j.Model.NewScratch(), grad: make([]float32, j.Model.Layout().Size())}
}

// gradient computes the gradient of a worker's step into s.grad and returns the
// mean loss. NaN and Inf are caught here, before anything is encoded.
func (j *Job) gradient(ctx context.Context, s *slot, params []float32, worker, step int, need, ready func(int) error) (loss float64, bad bool, err error) {
	if err := j.Data.Train.Batch(j.draw(worker, step), &s.batch); err != nil {
		return 0, false, fmt.Errorf("batch of step %d: %w", step, err)
	}
	loss, err = j.Model.Grad(ctx, sgd.Pass{Params: params, Grad: s.grad, Need: need, Ready: ready, Scratch: s.scratch}, s.batch)
	if err != nil {
		return 0, false, fmt.Errorf("gradient of step %d: %w", step, err)
	}
	if f32.AllFinite(s.grad) {
		return loss, false, nil
	}
	if j.NonFinite == "zero" {
		f32.Fill(s.grad, 0)
		return 0, true, nil
	}
	return 0, true, j.nonFinite(s.grad, worker, step)
}

// nonFinite words which tensor went wrong first.
func (j *Job) nonFinite(grad []float32, worker, step int) error {
	l := j.Model.Layout()
	for i, sp := range l.Spans {
		if !f32.AllFinite(l.View(grad, i)) {
			return fmt.Errorf("worker %d, step %d: the gradient of %s has NaN or Inf; lower the learning rate, add clip, or set nonfinite=zero", worker, step, sp.Name)
		}
	}
	return nil
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
	span           []float64
}

func (j *Job) timeline(worker, step int) timeline {
	var t timeline
	sum := 0.0
	t.span = j.Model.SpanFLOPs()
	for _, f := range t.span {
		sum += f
	}
	t.forward = j.Timing.Cost(sum*float64(j.Batch), j.Seed, worker, step)
	t.total = 3 * t.forward
	for i := range t.span { // share of the forward pass
		if sum > 0 {
			t.span[i] /= sum
		}
	}
	return t
}
