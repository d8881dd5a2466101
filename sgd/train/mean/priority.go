package mean

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// First layers first, in the manner of P3 (Jayarajan et al. 2019) and
// ByteScheduler (Peng et al. 2019). The backward pass makes the gradients of the
// last layers first, but the next forward pass wants the first layers' parameters
// first. So of the buckets that all ranks have made, the one with the earliest
// layers is exchanged next; and a bucket's parameters are updated as soon as its
// sum is there and the next forward pass, which has begun meanwhile, comes to it.
//
// All ranks must choose alike, so before an exchange they agree on how many
// buckets all of them have made (collective.Least), until that is all. It costs
// latency where a rank waits for its gradients anyway, and little where exchanges
// take longer than passes: then all are soon made.
//
// Buckets are the unit, so a large tensor holds up the others unless Partition
// cuts it. Bits are those of the run without.

// first is the course with priority.
type first struct {
	*reducer
	begun atomic.Int64 // buckets this rank has made since it began

	// Of the step before, which the main activity finishes in its forward pass,
	// from the last bucket to the first: the order of layers.
	update sgd.Step
	left   int           // buckets whose parameters are still old
	there  []bool        // by bucket: its sum is
	flags  message.Flags // heard so far
	stood  time.Duration

	whole time.Duration // when the last sum of a step was there; read behind its token
}

func (r *first) limit() int { return r.Job().BucketBytes() }

func (r *first) start() {
	from := r.Step()
	r.Host().Go("exchange", func(ctx context.Context, h comm.Host) error { return r.exchanges(ctx, h, from) })
}

func (r *first) made(ctx context.Context, k int) error {
	r.begun.Add(1)
	return onMade.Wake(ctx, r.Rank, bucketWord{k}, r.ask)
}

// report does nothing: who comes to the first bucket has made the update, and
// reports.
func (r *first) report(context.Context) error { return nil }

// exchanges is the second activity of a rank with priority, from a step on.
func (r *first) exchanges(ctx context.Context, h comm.Host, step int) error {
	done := make([]bool, len(r.buckets))
	for before := int64(0); ; step, before = step+1, before+int64(len(done)) {
		clear(done)
		flags := message.Flags(0)
		all, own := 0, 0 // buckets that all ranks have made; that this one has told of
		for n := range done {
			for ; own <= n && n == all; own++ { // there is none to exchange
				_, told, err := onMade.Wait(ctx, r.Rank)
				if err != nil || told&train.FlagDone != 0 {
					return err
				}
				flags |= told & train.AskFlags
			}
			if all < len(done) {
				least, seen, err := collective.Least(ctx, r.net, r.group, onReady.Header(r.Job(), message.Count{N: step}, flags), float64(r.begun.Load()-before))
				if err != nil {
					return err
				}
				all, flags = int(least), flags|seen
			}
			k := all - 1
			for done[k] {
				k--
			}
			seen, err := r.exchange(ctx, &r.buckets[k], step, flags)
			if err != nil {
				return err
			}
			done[k] = true
			flags |= seen
			r.whole = h.Now()
			if err := onExchanged.Wake(ctx, r.Rank, bucketWord{k}, flags); err != nil {
				return err
			}
		}
		for ; own < len(done); own++ { // words of what is exchanged already
			if _, _, err := onMade.Wait(ctx, r.Rank); err != nil {
				return err
			}
		}
	}
}

// round is one in which the update of the step before is finished. The
// flags are those of that step: all ranks have all of them.
func (r *first) round(ctx context.Context, tl train.Timeline, coding time.Duration) (flags message.Flags, err error) {
	r.backward(tl) // the forward pass waits for parameters
	if r.Host().Virtual() {
		for k := len(r.buckets) - 1; k >= 0; k-- {
			if err := r.need(ctx, k); err != nil {
				return 0, err
			}
			began := r.Times().Read()
			if err := r.Host().Sleep(ctx, time.Duration(r.share(&r.buckets[k], tl)*float64(tl.Forward))); err != nil {
				return 0, err
			}
			r.Times().Computed(began)
		}
	}
	f, stood := r, r.stood
	if err := r.overlap(ctx, coding); err != nil {
		return 0, err
	}
	r.Times().Uncomputed(f.stood - stood)
	f.update, f.left = r.present(), len(r.buckets)
	f.there = append(f.there[:0], make([]bool, len(r.buckets))...)
	return f.flags, r.Made(ctx)
}

// needs is what the forward pass calls before it reads the parameters of a span.
func (r *first) needs(ctx context.Context) (need func(span int) error) {
	k := len(r.buckets) // the last one that was needed
	need = func(span int) error {
		for k > 0 && (k == len(r.buckets) || !r.holds(k, span)) {
			k--
		}
		if r.left <= k {
			return nil
		}
		return r.Away(func() error { return r.need(ctx, k) })
	}
	return need
}

// holds says whether buckets from k on, those of earlier layers, hold all of a
// tensor.
func (r *first) holds(k, span int) bool {
	hi := r.buckets[k].hi
	last := r.shard.Pieces[hi-1].Span
	return last > span || last == span && r.shard.Ends(hi-1)
}

// need waits for the sums of the buckets of the step before from the last to k,
// and updates their parameters. Once the sum of the last one is there, all ranks
// have made all of their gradients, so nobody reads the old parameters any more.
// Who comes to the first one has made the update, and reports.
func (r *first) need(ctx context.Context, k int) error {
	f := r
	if f.left == 0 {
		return nil
	}
	for ; f.left > k; f.left-- {
		for b := f.left - 1; !f.there[b]; {
			began := r.Times().Read()
			there, flags, err := onExchanged.Wait(ctx, r.Rank)
			if err != nil {
				return err
			}
			f.stood += r.Times().Stood(began)
			f.there[there.k] = true
			f.flags |= flags
		}
		if !r.Job().Weightless {
			r.noted(&r.buckets[f.left-1])
			r.common.updatePart(f.left-1, len(r.buckets), r.stretch(&r.buckets[f.left-1]), r.grad, f.update)
		}
	}
	if f.left == 0 {
		r.notedAll()
		return r.reducer.report(ctx)
	}
	return nil
}

// settle finishes the update of the last step.
func (r *first) settle(ctx context.Context) error { return r.need(ctx, 0) }
