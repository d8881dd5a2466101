package mean

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// Tensor fusion in the manner of Horovod (Sergeev and Del Balso 2018). During the
// backward pass a second activity wakes up every Cycle. The ranks agree on how
// many tensors all of them have ready, and exchange these in the order in which
// they were made, as many at once as fit into Bucket bytes. A short cycle sends
// soon, a long one in few frames.
//
// What is ready when depends on the clock, and so does what travels together;
// what the sums come to does not: collective.AllReduceAll adds every tensor up as
// if it were alone.

// fusedBytes is the default of Bucket with fusion, Horovod's.
const fusedBytes = 64 << 20

// fuses says whether ranks without servers fuse tensors as they become ready.
func fuses(j *train.Job) bool { return j.Overlap && j.Cycle > 0 }

// fused is the course with fusion: every piece is a bucket, and as many are exchanged
// together as are ready.
type fused struct {
	inOrder
	ready atomic.Int32 // pieces whose gradient is there, in the order of buckets
	group bucket       // what is exchanged
}

func (*fused) limit() int { return 1 } // every piece by itself

func (r *fused) start() { r.Host().Go("exchange", r.cycles) }

func (r *fused) made(context.Context, int) error {
	r.ready.Add(1)
	return nil
}

// round begins a step of the exchange activity with the passes.
func (r *fused) round(ctx context.Context, tl train.Timeline, coding time.Duration) (message.Flags, error) {
	r.ready.Store(0)
	if err := onMade.Wake(ctx, r.Rank, bucketWord{}, r.ask); err != nil {
		return 0, err
	}
	return r.exchanging(ctx, tl, coding, 1)
}

// cycles is the second activity of a rank that fuses.
func (r *fused) cycles(ctx context.Context, h comm.Host) error {
	for {
		_, flags, err := onMade.Wait(ctx, r.Rank)
		if err != nil || flags&train.FlagDone != 0 {
			return err
		}
		if flags, err = r.cycle(ctx, h, flags); err != nil {
			return err
		}
		if err := onExchanged.Wake(ctx, r.Rank, bucketWord{}, flags); err != nil {
			return err
		}
	}
}

// cycle exchanges the tensors of a step.
func (r *fused) cycle(ctx context.Context, h comm.Host, flags message.Flags) (message.Flags, error) {
	next := h.Now() + r.Job().Cycle
	for done := 0; done < len(r.buckets); {
		if err := h.Sleep(ctx, max(0, next-h.Now())); err != nil {
			return flags, err
		}
		next = max(h.Now(), next) + r.Job().Cycle
		ready, seen, err := collective.Least(ctx, r.net, r.reducer.group, onReady.Header(r.Job(), message.Count{N: r.Step()}, flags), float64(r.ready.Load()))
		if err != nil {
			return flags, err
		}
		for flags |= seen; done < int(ready); {
			b, n := r.fuse(done, int(ready))
			seen, err := r.exchange(ctx, b, r.Step(), flags&train.AskFlags)
			if err != nil {
				return flags, err
			}
			flags |= seen
			done += n
		}
	}
	return flags, nil
}

// fuse makes one bucket of as many of buckets first … ready−1 as there is room
// for, and says how many.
func (r *fused) fuse(first, ready int) (b *bucket, n int) {
	limit, bytes := r.Job().Bucket, 0
	if limit <= 0 {
		limit = fusedBytes
	}
	for ; first+n < ready; n++ {
		if bytes += 4 * r.shard.Pieces[r.buckets[first+n].lo].Len; bytes > limit && n > 0 {
			break
		}
	}
	b = &r.group
	b.lo, b.hi, b.index = r.buckets[first+n-1].lo, r.buckets[first].hi, r.buckets[first].index
	b.ops = r.ops[b.lo:b.hi]
	return b, n
}
