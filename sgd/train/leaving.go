package train

import (
	"context"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/compute"
)

// leaving is how a worker's gradient is made and leaves for the servers.
type leaving interface {
	// plan makes the work of a round.
	plan(ctx context.Context)
	// price says what a round costs on a virtual clock, and lets pass what comes
	// before it.
	price(ctx context.Context, tl Timeline, coding time.Duration) error
	// do performs the work of a round.
	do(ctx context.Context) error
}

// whole is a gradient that is made before any of it leaves.
type whole struct{ *worker }

func (w whole) plan(ctx context.Context) {
	w.work = comm.Work{
		Cost: make([]time.Duration, len(w.order)),
		Run:  func(at func(int) error) error { return w.pass(ctx, at) },
		Then: func(mark int) error { return w.push(ctx, mark) },
	}
}

func (w whole) price(_ context.Context, tl Timeline, coding time.Duration) error {
	w.work.Cost[0] = tl.total + coding
	return nil
}

func (w whole) do(ctx context.Context) error { return w.h.Do(ctx, w.work) }

// pass makes the gradient, then all pushes.
func (w whole) pass(ctx context.Context, at func(int) error) error {
	if err := w.makeAll(ctx); err != nil {
		return err
	}
	w.done()
	for i := range w.order {
		if err := at(i); err != nil {
			return err
		}
	}
	return nil
}

func (w whole) makeAll(ctx context.Context) error {
	if w.job.Weightless {
		return w.sizeAll()
	}
	d := w.seat.take()
	defer w.seat.give(d)
	if err := w.differentiate(ctx, d, w.on, nil, nil); err != nil {
		return err
	}
	w.finish()
	for i := range w.order {
		if err := w.encode(i, w.grad); err != nil {
			return err
		}
	}
	return nil
}

// inParts is a gradient of which parts leave as the backward pass makes them.
type inParts struct{ *worker }

func (w inParts) plan(ctx context.Context) {
	w.work = comm.Work{
		Cost: make([]time.Duration, len(w.order)),
		Run:  func(at func(int) error) error { return w.overlapped(ctx, at) },
		Then: func(mark int) error { return w.push(ctx, mark) },
	}
}

func (w inParts) price(ctx context.Context, tl Timeline, _ time.Duration) error {
	if w.h.Virtual() { // parameters arrive while the forward pass goes on
		for span, share := range tl.Shares {
			if err := w.need(ctx, span); err != nil {
				return err
			}
			if err := w.h.Sleep(ctx, time.Duration(share*float64(tl.Forward))); err != nil {
				return err
			}
		}
	}
	w.backward(tl)
	return nil
}

func (w inParts) do(ctx context.Context) error { return w.h.Do(ctx, w.work) }

// overlapped makes every push as soon as the backward pass has completed its
// shard. On a real clock the forward pass waits for parameters where it needs
// them; on the virtual clock they are there.
func (w inParts) overlapped(ctx context.Context, at func(int) error) error {
	if w.job.Weightless {
		if err := w.sizeAll(); err != nil {
			return err
		}
		for i := range w.order {
			if err := at(i); err != nil {
				return err
			}
		}
		return nil
	}
	d := w.seat.take()
	defer w.seat.give(d)
	need := func(span int) error {
		if !w.lacks(span) {
			return nil
		}
		return w.job.cores.gate.Away(func() error { return w.need(ctx, span) })
	}
	defer w.done()
	back, mark := compute.NewDescent(len(w.spans)), 0
	return w.differentiate(ctx, d, w.on, need, func(span int) error {
		back.Pass(span)
		for ; mark < len(w.order) && w.order[mark].firstSpan() >= back.Left; mark++ {
			if err := w.encode(mark, w.grad); err != nil {
				return err
			}
			if err := at(mark); err != nil {
				return err
			}
		}
		return nil
	})
}

// backward fills in the virtual time of the backward pass up to each mark.
func (w inParts) backward(tl Timeline) {
	cost := w.work.Cost
	done := time.Duration(0)
	sum, span := 0.0, len(tl.Shares)-1
	for i, p := range w.order {
		for ; span >= 0 && span >= p.firstSpan(); span-- {
			sum += tl.Shares[span]
		}
		if i == len(w.order)-1 { // whatever is left of the pass
			sum = 1
		}
		at := time.Duration(2 * sum * float64(tl.Forward))
		cost[i] = max(at-done, 0) + p.encoding()
		done = max(at, done)
	}
	cost[0] += tl.Between
}
