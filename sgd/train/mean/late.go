package mean

import (
	"context"
	"time"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// lateUpdate is the update of the step before, which the main activity finishes in its next
// forward pass, from the last bucket to the first: the order of layers.
type lateUpdate struct {
	step  sgd.Step
	left  int           // buckets whose parameters are still old
	flags message.Flags // heard so far
}

// roundLate is a round in which the update of the step before is finished. The flags are
// those of that step: all ranks have all of them.
func (r *reducer) roundLate(ctx context.Context, tl train.Timeline) (message.Flags, error) {
	r.backward(tl) // the forward pass waits for parameters
	if r.Host().Virtual() {
		for k := r.mean.Buckets() - 1; k >= 0; k-- {
			if err := r.settle(ctx, k); err != nil {
				return 0, err
			}
			began := r.Times().Read()
			if err := r.Host().Sleep(ctx, time.Duration(r.share(&r.mean.buckets[k], tl)*float64(tl.Forward))); err != nil {
				return 0, err
			}
			r.Times().Computed(began)
		}
	}
	stood := r.mean.stood
	if err := r.overlap(ctx); err != nil {
		return 0, err
	}
	r.Times().Uncomputed(r.mean.stood - stood)
	r.late.step, r.late.left = r.present(), r.mean.Buckets()
	return r.late.flags, r.Made(ctx)
}

// needs is what the forward pass calls before it reads the parameters of a span; nil: all
// are there.
func (r *reducer) needs(ctx context.Context) (need func(span int) error) {
	if !r.how.late {
		return nil
	}
	n := r.mean.Buckets()
	k := n // the last one that was needed
	return func(span int) error {
		for k > 0 && (k == n || !r.holds(k, span)) {
			k--
		}
		if r.late.left <= k {
			return nil
		}
		return r.Away(func() error { return r.settle(ctx, k) })
	}
}

// holds says whether buckets from k on, those of earlier layers, hold all of a
// tensor.
func (r *reducer) holds(k, span int) bool {
	s, hi := r.mean.shard, r.mean.buckets[k].hi
	last := s.Pieces[hi-1].Span
	return last > span || last == span && s.Ends(hi-1)
}

// settle waits for the means of the buckets of the step before from the last to k,
// and updates their parameters. Once the mean of the last one is there, all ranks
// have made all of their gradients, so nobody reads the old parameters any more.
// Who comes to the first one has made the update, and reports.
func (r *reducer) settle(ctx context.Context, k int) error {
	l := &r.late
	if l.left == 0 {
		return nil
	}
	for ; l.left > k; l.left-- {
		b := l.left - 1
		flags, err := r.mean.await(ctx, b)
		if err != nil {
			return err
		}
		l.flags |= flags
		if !r.Job().Weightless {
			r.noted(&r.mean.buckets[b])
			r.common.updatePart(b, r.mean.Buckets(), r.mean.Range(b), r.grad, l.step)
		}
	}
	if l.left == 0 {
		r.notedAll()
		return r.report(ctx, r.mean.whole)
	}
	return nil
}
