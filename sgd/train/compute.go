package train

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// slot is what one gradient computation needs: a model's scratch and a batch.
// Slots are shared by all ranks of a process, as many as there are passes at
// once, so that memory grows with cores and not with workers.
type slot struct {
	scratch sgd.Scratch
	batch   sgd.Batch
	scan    *scan
}

// computePool is the slots of a process, and what else its ranks share.
type computePool struct {
	free    chan *slot
	threads int // of a pass

	mu    sync.Mutex
	start []float32 // see Job.initial
}

// newComputePool shares cores out: with threads for each pass given there are
// as many passes at once as cores allow, otherwise each pass gets its part of
// the cores. Passes of workers that overlap all run at once.
func newComputePool(j *Job) *computePool {
	cores, workers := runtime.GOMAXPROCS(0), j.Workers
	if j.Here > 0 {
		workers = j.Here
	}
	n, threads := min(workers, cores), j.Threads
	if threads > 0 {
		n = min(workers, max(1, cores/threads))
	} else if threads = max(1, cores/n); j.Overlap {
		threads = max(1, cores/workers)
	}
	p := &computePool{free: make(chan *slot, n), threads: threads}
	for range n {
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

func newSlot(j *Job) *slot { return &slot{scratch: j.Model.NewScratch(), scan: newScan()} }

// initial is the parameters that every rank begins with, to be read only: all
// ranks of a process share them until they begin.
func (j *Job) initial() []float32 {
	p := j.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.start == nil {
		p.start = make([]float32, j.Model.Layout().Size())
		j.Model.Init(p.start, j.Seed)
	}
	return p.start
}

// begun leaves the initial parameters to those who hold them.
func (p *computePool) begun() {
	p.mu.Lock()
	p.start = nil
	p.mu.Unlock()
}

// gradient computes the gradient of a worker's step and returns the mean loss.
// NaN and Inf are caught here, before anything is encoded.
func (j *Job) gradient(ctx context.Context, s *slot, params, grad []float32, worker, step int, need, ready func(int) error) (loss float64, bad bool, err error) {
	if err := j.Data.Train.Batch(j.draw(worker, step), &s.batch); err != nil {
		return 0, false, fmt.Errorf("batch of step %d: %w", step, err)
	}
	loss, err = j.Model.Grad(ctx, sgd.Pass{Params: params, Grad: grad, Need: need, Ready: ready, Scratch: s.scratch, Threads: j.pool.threads}, s.batch)
	if err != nil {
		return 0, false, fmt.Errorf("gradient of step %d: %w", step, err)
	}
	if s.scan.allFinite(grad, j.pool.threads) {
		return loss, false, nil
	}
	if j.NonFinite == "zero" {
		f32.Fill(grad, 0)
		return 0, true, nil
	}
	return 0, true, j.nonFinite(grad, worker, step)
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
