package train

import (
	"context"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/compute"
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
	// Alone says that nothing is exchanged in this step, so that its virtual time has
	// nothing of the software of an exchange (timing.Timing.Step).
	Alone bool
	// Draw is the samples; of none (N is 0): those of the step. The virtual time of the
	// model is in proportion to their number.
	Draw sgd.Draw
	// Void is the channel of which a message breaks the pass off, which Compute then
	// says by comm.ErrBroken; the message is still there to be received. 0: none does.
	Void comm.Tag
	// Need is called before parameters of a span are read, Ready once its gradient is there;
	// nil: all are there, and together. See sgd.Pass.
	Need, Ready func(span int) error
	// Meet is called by the rank's program where the pass stops until others have come to the
	// same place: it makes of v what all are to go on with. In the step the pass stops at times,
	// counted from 0. Such passes are made by Compute alone. nil: the pass needs nobody.
	Meet func(ctx context.Context, at int, v []float64) error
	// Spoilt is called when the gradient had NaN or Inf, which then are zero and counted
	// nowhere. nil: what becomes of them is for Job.NonFinite to say.
	Spoilt func()
}

// Compute makes the gradient of the rank's step: at the gate of cores, at its price
// on a virtual clock, with NaN and Inf caught, and counted as computing. Loss is that
// of the pass then. Make the functions of a Pass once: they would be allocated in
// every step.
func (r *Rank) Compute(ctx context.Context, p Pass) error {
	if r.gradwork.Run == nil {
		r.gradwork = comm.Work{Cost: make([]time.Duration, 1), Run: func(func(int) error) error { return r.MakePass(r.passCtx, r.pass) }}
	}
	r.pass, r.passCtx = p, ctx
	if p.Meet != nil {
		return meet(ctx, r)
	}
	work := r.gradwork
	if p.Void != 0 {
		pass, cancel := context.WithCancel(ctx)
		defer cancel()
		r.passCtx, work.Break, work.Abort = pass, p.Void, cancel
	}
	began := r.times.Read()
	software := r.job.Timing.Software(r.job.Workers)
	if p.Alone {
		software = 0
	}
	cost := r.job.timelineBeside(r.rank, r.step, software).total
	if p.Draw.N > 0 {
		cost = time.Duration(float64(cost) * float64(p.Draw.N) / float64(r.job.Batch))
	}
	work.Cost[0] = cost + p.Coding
	err := r.h.Do(ctx, work)
	r.times.Price(p.Coding)
	r.times.Computed(began)
	return err
}

// MakePass makes a gradient on this goroutine, as Compute does, for a part that prices passes
// together with other work. Nothing is made without weights.
func (r *Rank) MakePass(ctx context.Context, p Pass) error {
	r.pass = p
	if r.job.Weightless {
		return nil
	}
	d := r.seat.take()
	defer r.seat.give(d)
	if err := r.differentiate(ctx, d, p.On, p.Need, p.Ready); err != nil || p.Then == nil {
		return err
	}
	return p.Then()
}

// Away runs f, which may wait for another rank, without the core of the pass that calls it.
func (r *Rank) Away(f func() error) error { return r.job.cores.gate.Away(f) }

// differentiate makes the gradient of the rank's step on a desk; see Desk.Gradient.
func (r *Rank) differentiate(ctx context.Context, d *compute.Desk, on func() (params, grad []float32, err error), need, ready func(int) error) error {
	params, grad, err := on()
	if err != nil {
		return err
	}
	d.Measured = r.job.NoiseScale && r.rank == 0
	d.Soft = r.pass.Spoilt != nil
	want := compute.Wanted{Params: params, Grad: grad, Worker: r.rank, Step: r.step, Need: need, Ready: ready, Samples: r.pass.Draw}
	if want.Samples.N == 0 {
		want.Samples, want.Next = r.job.draw(r.rank, r.step), r.job.draw(r.rank, r.step+1)
	}
	want.Weight = r.job.weight(want.Samples.N)
	loss, bad, err := d.Gradient(ctx, &r.job.cores.task, want)
	if err != nil {
		what := fmt.Sprintf("step %d", r.step)
		if of := r.pass.Draw; of.N > 0 {
			what = fmt.Sprintf("%d samples from %d on", of.N, of.First)
		}
		err = fmt.Errorf("worker %d, gradient of %s: %w", r.rank, what, err)
	}
	r.loss, r.own = loss, d.MeanLengths()
	switch {
	case bad && d.Soft:
		r.pass.Spoilt()
	case bad:
		r.stats.zeroed++
	}
	return err
}

// Made counts a step and lets the observer know how the worker does, now and then.
func (r *Rank) Made(ctx context.Context) error {
	r.Count()
	return r.Doing(ctx)
}

// Count counts a step.
func (r *Rank) Count() { r.step++ }

// Stale notes how many updates others made between the last two answers to the
// worker, as it tells the observer.
func (r *Rank) Stale(updates int) { r.stats.stale = updates }

// Voided counts a gradient that was given up.
func (r *Rank) Voided() { r.stats.voided++ }
