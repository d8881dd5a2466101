package train

import (
	"time"
)

// Timeline prices one step of a worker on the virtual clock: forward time and
// backward time (twice that) of every span, in forward order. The next batch is read
// beside both: passes take as long as reading where that takes longer.
//
// Of several micro-batches forward is that of one: parameters are waited for in the
// first, gradients leave in the last. What lies between the two is time between.
type Timeline struct {
	Forward, Between, total time.Duration
	Shares                  []float64 // shares of forward, the same in every step
}

// Timeline is that of a step of a worker.
func (j *Job) Timeline(worker, step int) Timeline {
	return j.timelineBeside(worker, step, j.Timing.Software(j.Workers))
}

// timelineBeside is Timeline where software takes so long beside the passes.
func (j *Job) timelineBeside(worker, step int, software time.Duration) Timeline {
	batch := j.draw(worker, step)
	at := j.sized(batch.Side)
	t := Timeline{Shares: at.shares}
	device, last := j.device(worker)
	flops := at.flops * float64(batch.N) * j.Timing.Slow.Times(last)
	t.Forward = j.Timing.Cost(flops, j.Seed, device, step) + software/3
	reads := float64(batch.N) / 3
	if batch.Side > 0 {
		reads *= at.input
	}
	t.Forward = max(t.Forward, j.Timing.Reading(reads, j.Timing.Input/float64(j.beside(worker)), j.Seed, device, step))
	t.total = 3 * t.Forward
	if n := j.micros(batch); n > 1 {
		t.Forward /= time.Duration(n)
		t.Between = t.total - 3*t.Forward
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
func (j *Job) Forward(worker, step int) time.Duration { return j.Timeline(worker, step).total / 3 }
