package train

import (
	"context"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// Pass is how a rank makes the gradient of its step.
type Pass struct {
	// On gives the parameters and where their gradient goes, both as long as the
	// model. It is called once a core is free for the pass, and what it gives stays
	// as it is until the pass ends.
	On func() (params, grad []float32, err error)
	// Then is done on the same core when the gradient is there; nil: nothing.
	Then func() error
	// Coding is virtual time beside that of the model, in which what comes of the
	// gradient is encoded.
	Coding time.Duration
}

// Compute makes the gradient of the rank's step: at the gate of cores, at its price
// on a virtual clock, with NaN and Inf caught, and counted as computing. Loss is that
// of the pass then. Make the functions of a Pass once: they would be allocated in
// every step.
func (r *Rank) Compute(ctx context.Context, p Pass) error {
	if r.gradwork.Run == nil {
		r.gradwork = comm.Work{Cost: make([]time.Duration, 1), Run: func(func(int) error) error { return r.makePass(ctx) }}
	}
	r.pass = p
	began := r.times.read()
	r.gradwork.Cost[0] = r.job.timeline(r.rank, r.step).total + p.Coding
	err := r.h.Do(ctx, r.gradwork)
	r.times.price(p.Coding)
	r.times.computed(began)
	return err
}

// makePass is the work of a pass.
func (r *Rank) makePass(ctx context.Context) error {
	if r.job.Weightless {
		return nil
	}
	d := r.seat.take()
	defer r.seat.give(d)
	if err := r.differentiate(ctx, d, r.pass.On, nil, nil); err != nil || r.pass.Then == nil {
		return err
	}
	return r.pass.Then()
}

// differentiate makes the gradient of the rank's step on a desk; see Job.gradient.
func (r *Rank) differentiate(ctx context.Context, d *desk, on func() (params, grad []float32, err error), need, ready func(int) error) error {
	params, grad, err := on()
	if err != nil {
		return err
	}
	loss, bad, err := r.job.gradient(ctx, d, params, grad, r.rank, r.step, need, ready)
	if bad {
		r.stats.zeroed++
	}
	r.loss = loss
	return err
}

// Made counts a step and lets the observer know how the worker does, now and then.
func (r *Rank) Made(ctx context.Context) error {
	r.step++
	return r.doing(ctx)
}
