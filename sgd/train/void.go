package train

import (
	"context"
	"errors"

	"github.com/gradlab/gradlab/comm"
)

// A policy may make a gradient void while it is computed (K-sync). The server
// then sends the parameters to start over on, unasked. On the virtual clock the
// computation ends at the instant they arrive; on real clocks the pass is
// cancelled. A void gradient was never encoded: codecs have state, so that is
// put off until the gradient is whole and beyond recall.

// voidable is a gradient that may be cancelled while it is made.
type voidable struct {
	whole
	sent bool // this step's gradient was whole before that
}

func (w *voidable) do(ctx context.Context) error {
	pass, cancel := context.WithCancel(ctx)
	defer cancel()
	w.sent = false
	work := comm.Work{
		Cost:  w.work.Cost,
		Break: onAnswer.Tag(), // no push is unanswered: what comes is a void
		Abort: cancel,
		Run: func(at func(int) error) error {
			err := error(nil)
			if !w.job.Weightless {
				d := w.seat.take()
				err = w.differentiate(pass, d, w.on, nil, nil)
				w.seat.give(d)
			}
			for i := 0; i < len(w.order) && err == nil; i++ {
				err = at(i)
			}
			return err
		},
		Then: func(mark int) error {
			if !w.sent {
				w.sent = true
				w.finish()
			}
			if err := w.encode(mark, w.grad); err != nil {
				return err
			}
			if mark == len(w.order)-1 {
				w.done()
			}
			return w.push(ctx, mark)
		},
	}
	if w.job.Replay != nil {
		if w.job.voided(w.rank, w.step) {
			return w.startOver(ctx)
		}
		work.Break = 0 // it was pushed
	}
	err := w.h.Do(ctx, work)
	if errors.Is(err, comm.ErrBroken) {
		if w.sent { // too late: the server refuses it, and says so
			return nil
		}
		return w.startOver(ctx)
	}
	return err
}

// startOver takes up the parameters that came in place of the gradient's end.
func (w *worker) startOver(ctx context.Context) error {
	f, err := onAnswer.Recv(ctx, w.Rank, comm.AnyRank)
	if err != nil {
		return err
	}
	defer f.Release()
	l := w.links[f.Word.Shard]
	w.stats.voided++
	if err := w.answer(l, f.Frame); err != nil {
		return err
	}
	return w.times.Decoding(ctx, l.in.taking(0))
}

// takeVoids takes the voids that crossed with the word that the worker is at a
// mark: a server told to send n so far.
func (w *worker) takeVoids(ctx context.Context, l *link, n uint64) error {
	for l.voids < n {
		f, err := onAnswer.Recv(ctx, w.Rank, l.rank)
		if err == nil {
			err = w.answer(l, f.Frame)
			f.Release()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
