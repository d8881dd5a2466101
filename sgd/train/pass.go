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
	// Meet is called by the rank's program where the pass stops until it has met others: it
	// lets a meeting take place. In the step the pass stops at times, counted from 0. Such
	// passes are made by Compute alone. nil: the pass meets nobody of the job. See Sub.Meet.
	Meet func(ctx context.Context, at int, m sgd.Meeting) error
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
	if p.Meet != nil || r.sub != nil && r.sub.Meet != nil {
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

// A pass that meets others stops, ahead and back, until they are there (sgd.Pass.Meet): at batch
// norms whose statistics workers share, and where the rest of the model is on other ranks. A
// goroutine makes it, and the rank's program exchanges what there is, so that this is billed.

// meeting makes such passes.
type meeting struct {
	desk  *compute.Desk
	asks  chan sgd.Meeting // the pass waits for it to take place
	goOn  chan error       // it has, or never will
	ended chan error       // the pass
}

// stop is what the model calls.
func (m *meeting) stop(at sgd.Meeting) error {
	m.asks <- at
	return <-m.goOn
}

// meet makes the pass of a rank. Its virtual time is in equal stretches between the meetings.
func meet(ctx context.Context, r *Rank) error {
	m, p, job := r.meeting, r.pass, r.job
	if m == nil {
		m = &meeting{asks: make(chan sgd.Meeting), goOn: make(chan error), ended: make(chan error, 1)}
		r.meeting = m
	}
	if m.desk == nil && !job.Weightless {
		m.desk = r.seat.take()
		job.cores.gate.Leave()
		m.desk.Meet = m.stop
	}
	draw := job.draw(r.rank, r.step)
	micros := job.micros(draw)
	meetings := len(meetingsOf(job.Model, 1))
	began := r.times.Read()
	pass := func() { m.ended <- r.differentiate(ctx, m.desk, p.On, nil, nil) }
	if job.Weightless {
		pass = func() { m.ended <- m.rehearse(job.Model, draw.N, micros) }
	}
	var asked sgd.Meeting
	var over, started bool
	var failed error
	total := job.Timeline(r.rank, r.step).total
	stretch := comm.Work{Cost: []time.Duration{total / time.Duration(micros*meetings+1)}, Run: func(func(int) error) error {
		job.cores.gate.Enter()
		defer job.cores.gate.Leave()
		if started {
			m.goOn <- nil
		} else {
			started = true
			go pass()
		}
		select {
		case asked = <-m.asks:
		case failed = <-m.ended:
			over = true
		}
		return failed
	}}
	for at := 0; ; at++ {
		if err := r.h.Do(ctx, stretch); err != nil {
			return m.giveUp(started && !over, err)
		}
		if over {
			break
		}
		if err := meets(ctx, r, at, asked); err != nil {
			return m.giveUp(true, fmt.Errorf("worker %d, step %d: %w", r.rank, r.step, err))
		}
	}
	err := r.h.Do(ctx, comm.Work{Cost: []time.Duration{p.Coding}, Run: func(func(int) error) error {
		if p.Then == nil || job.Weightless {
			return nil
		}
		return p.Then()
	}})
	r.times.Price(p.Coding)
	r.times.Computed(began)
	return err
}

// meets lets a meeting of the present pass take place: with others of the job, or outside it.
func meets(ctx context.Context, r *Rank, at int, m sgd.Meeting) error {
	switch {
	case m.Sums == nil && r.sub != nil && r.sub.Meet != nil:
		return r.sub.Meet(ctx, at, m)
	case r.pass.Meet != nil:
		return r.pass.Meet(ctx, at, m)
	}
	return nil // a batch norm's by itself
}

// rehearse stops where passes over so many samples in micro-batches do, with nothing to say.
func (m *meeting) rehearse(of sgd.Model, samples, micros int) error {
	for i := range micros {
		for _, at := range meetingsOf(of, (i+1)*samples/micros-i*samples/micros) {
			if err := m.stop(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveUp ends a pass that waits for a meeting.
func (m *meeting) giveUp(waits bool, err error) error {
	for waits {
		select {
		case <-m.asks:
		case m.goOn <- err:
		case <-m.ended:
			waits = false
		}
	}
	return err
}

// meetingsOf lists the meetings of a pass of a model over so many samples.
func meetingsOf(m sgd.Model, samples int) []sgd.Meeting {
	if joint, ok := m.(sgd.Joint); ok {
		return joint.Meetings(samples)
	}
	return nil
}
