package sandblaster

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train"
)

// hand is a worker.
type hand struct {
	*train.Links
	mode  Sandblaster
	boss  int    // rank of the coordinator
	holds uint64 // evaluation whose point it has; 0: none

	pass train.Pass
	loss float64 // of the portion; +Inf: there is none
}

func newHand(r *train.Rank, m Sandblaster) (*hand, error) {
	l, err := train.NewLinks(r)
	if err != nil {
		return nil, err
	}
	w := &hand{Links: l, mode: m, boss: r.Job().Coordinator(), pass: l.Pass()}
	w.pass.Void = onRecall.Tag()
	w.pass.Spoilt = func() { w.loss = math.Inf(1) } // the line search went too far
	return w, nil
}

// Run implements train.Part.
func (w *hand) Run(ctx context.Context) error {
	if over, err := w.Enter(ctx); over || err != nil {
		return err
	}
	if !w.Resumes() {
		if err := w.ask(ctx, idleNew, errand{}, 0); err != nil {
			return err
		}
	}
	for {
		f, err := w.Host().Recv(ctx, w.boss, comm.AnyTag)
		if err != nil && w.Job().Elastic && hasEnded(err) { // it came when the run was over
			return nil
		}
		if err != nil {
			return fmt.Errorf("worker %d, waiting for work: %w", w.ID(), err)
		}
		hd := f.Header
		f.Release()
		switch hd.Tag {
		case onRecall.Tag(): // of what it has pushed meanwhile
		case onPortion.Tag():
			if err = w.portion(ctx, readErrand(hd)); err == nil {
				w.Stale(0) // versions are evaluations
				err = w.Doing(ctx)
			}
		case onKeep.Tag():
			err = w.Save(ctx, w)
		case onFree.Tag():
			if hd.Flags&train.FlagStop != 0 {
				return nil
			}
			w.holds = 0 // like one that was resumed
			err = w.ask(ctx, idleNew, errand{}, 0)
		case onEnd.Tag():
			if err := w.Bye(ctx); !w.Job().Elastic || !hasEnded(err) { // else they know it from the coordinator
				return err
			}
			return nil
		default:
			err = fmt.Errorf("worker %d: the coordinator sent a frame with tag %d", w.ID(), hd.Tag)
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
	switch {
	case err != nil:
		return err
	case !whole:
		w.Voided()
		return w.ask(ctx, idleGaveUp, at, 0)
	case math.IsInf(w.loss, 1): // there is nothing to add up
		return w.ask(ctx, idleDone, at, w.loss)
	}
	if err := w.Push(ctx, at.portion); err != nil {
		return err
	}
	if err := w.Await(ctx); err != nil {
		return err
	}
	return w.ask(ctx, idleDone, at, w.loss)
}

// fetch brings the point of an evaluation, if it is still there.
func (w *hand) fetch(ctx context.Context, eval uint64) (there bool, err error) {
	w.holds = 0
	if err := w.Fetch(ctx, eval); err != nil {
		return false, err
	}
	for i := range w.Shards() {
		if w.Version(i) != eval {
			return false, nil
		}
	}
	w.holds = eval
	return true, nil
}

// compute makes the gradient of a portion, unless that is called off meanwhile. A
// loss or gradient that is not finite makes the loss +Inf.
func (w *hand) compute(ctx context.Context, at errand) (whole bool, err error) {
	w.pass.Draw, _ = w.mode.draw(w.Job(), at.portion)
	defer w.Count()
	for {
		w.loss = 0
		err := w.Compute(ctx, w.pass)
		if err == nil && !math.IsInf(w.loss, 1) {
			if w.loss = w.Loss(); math.IsNaN(w.loss) || math.IsInf(w.loss, 0) {
				w.loss = math.Inf(1)
			}
		}
		if !errors.Is(err, comm.ErrBroken) {
			return err == nil, err
		}
		recalled, _, err := onRecall.Hear(ctx, w.Rank, w.boss)
		if err != nil || recalled.id == at.id {
			return false, err
		}
	}
}
