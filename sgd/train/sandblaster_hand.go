package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd"
)

// hand is a worker of mode sandblaster.
type hand struct {
	*worker
	mode  Sandblaster
	boss  int    // rank of the coordinator
	holds uint64 // evaluation whose point it has; 0: none
}

func newHand(r *Rank, m Sandblaster, sh []*shard) (*hand, error) {
	// A gradient with NaN or Inf says that the line search went too far.
	soft := *r.job
	soft.NonFinite = "zero"
	r.job = &soft
	w, err := newWorker(r, sh)
	if err != nil {
		return nil, err
	}
	return &hand{worker: w, mode: m, boss: r.job.coordinator()}, nil
}

// Run implements Part.
func (w *hand) Run(ctx context.Context) error {
	if !w.resumes() {
		if err := w.ask(ctx, idleNew, errand{}, 0); err != nil {
			return err
		}
	}
	for {
		f, err := w.h.Recv(ctx, w.boss, comm.AnyTag)
		if err != nil {
			return fmt.Errorf("worker %d, waiting for work: %w", w.rank, err)
		}
		hd := f.Header
		f.Release()
		switch hd.Tag {
		case onRecall.Tag(): // of what it has pushed meanwhile
		case onPortion.Tag():
			if err = w.portion(ctx, readErrand(hd)); err == nil {
				w.stats.stale = 0 // versions are evaluations
				err = w.Doing(ctx)
			}
		case onSave.Tag():
			var st *State
			if st, err = w.state(w); err == nil {
				err = w.sendState(ctx, st)
			}
		case onFree.Tag():
			if hd.Flags&FlagStop != 0 {
				return nil
			}
			w.holds = 0 // like one that was resumed
			err = w.ask(ctx, idleNew, errand{}, 0)
		case OnBye.Tag():
			w.flags |= FlagDone
			return w.bye(ctx)
		default:
			err = fmt.Errorf("worker %d: the coordinator sent a frame with tag %d", w.rank, hd.Tag)
		}
		if err != nil {
			return err
		}
	}
}

// ask asks for work, and tells what became of the last one.
func (w *hand) ask(ctx context.Context, code uint8, was errand, loss float64) error {
	return onIdle.Send(ctx, w.Rank, w.boss, idleWord{code, was, loss}, 0)
}

// portion computes the gradient of a portion and pushes it.
func (w *hand) portion(ctx context.Context, at errand) error {
	if w.holds != at.eval {
		if there, err := w.fetch(ctx, at.eval); err != nil {
			return err
		} else if !there {
			return w.ask(ctx, idleGaveUp, at, 0)
		}
	}
	whole, err := w.compute(ctx, at)
	defer w.grad.Release()
	switch {
	case err != nil:
		return err
	case !whole:
		w.stats.voided++
		return w.ask(ctx, idleGaveUp, at, 0)
	case math.IsInf(w.loss, 1): // there is nothing to add up
		return w.ask(ctx, idleDone, at, w.loss)
	}
	for i := range w.order {
		if err := w.times.encoding(ctx, w.order[i].encoding()); err != nil {
			return err
		}
		if err := w.encode(i, w.grad); err != nil {
			return err
		}
		w.order[i].of(at.portion)
	}
	w.grad.Release()
	for i := range w.order {
		if err := w.push(ctx, i); err != nil {
			return err
		}
	}
	if err := w.awaitAll(ctx); err != nil {
		return err
	}
	return w.ask(ctx, idleDone, at, w.loss)
}

// fetch brings the point of an evaluation, if it is still there.
func (w *hand) fetch(ctx context.Context, eval uint64) (there bool, err error) {
	for _, l := range w.links {
		if err := OnPull.Send(ctx, w.Rank, l.rank, Pulled{l.id, uint64(w.step), eval}, 0); err != nil {
			return false, err
		}
	}
	w.holds, there = 0, true
	for _, l := range w.links {
		f, err := onFetched.Recv(ctx, w.Rank, l.rank)
		if err != nil {
			return false, fmt.Errorf("worker %d, fetch from server %d: %w", w.rank, l.id, err)
		}
		there = there && f.Word.Version == eval
		if err = w.take(l, 0, f.Frame); err == nil {
			err = w.times.decoding(ctx, l.in.taking(0))
		}
		f.Release()
		if err != nil {
			return false, err
		}
	}
	if there {
		w.holds = eval
	}
	return there, nil
}

// compute makes the gradient of a portion, unless that is called off meanwhile. A
// loss or gradient that is not finite makes the loss +Inf.
func (w *hand) compute(ctx context.Context, at errand) (whole bool, err error) {
	draw, _ := w.mode.draw(w.job, at.portion)
	cost := w.job.timeline(w.rank, w.step).total
	began := w.times.read()
	defer func() {
		w.times.computed(began)
		w.step++
	}()
	for {
		pass, cancel := context.WithCancel(ctx)
		err := w.h.Do(ctx, comm.Work{
			Cost:  []time.Duration{time.Duration(float64(cost) * float64(draw.N) / float64(w.job.Batch))},
			Run:   func(func(int) error) error { return w.descend(pass, draw) },
			Break: onRecall.Tag(), Abort: cancel,
		})
		cancel()
		if !errors.Is(err, comm.ErrBroken) {
			return err == nil, err
		}
		recalled, _, err := onRecall.Hear(ctx, w.Rank, w.boss)
		if err != nil || recalled.id == at.id {
			return false, err
		}
	}
}

// descend makes the gradient.
func (w *hand) descend(ctx context.Context, draw sgd.Draw) error {
	d := w.seat.take()
	defer w.seat.give(d)
	if err := w.up(); err != nil {
		return err
	}
	w.grad.Release()
	w.grad = NewVector(len(w.params.f))
	loss, bad, err := w.job.gradientOf(ctx, d, w.params.f, w.grad.f, draw, nil, nil, nil)
	if err != nil {
		return fmt.Errorf("worker %d, gradient of its portion %d: %w", w.rank, w.step, err)
	}
	if w.loss = loss; bad || math.IsNaN(loss) || math.IsInf(loss, 0) {
		w.loss = math.Inf(1)
	}
	return nil
}
