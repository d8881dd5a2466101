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
// backward pass a second activity wakes up every cycle. The ranks agree on how
// many tensors all of them have ready, and exchange these in the order in which
// they were made, as many at once as fit into so many bytes. A short cycle sends
// soon, a long one in few frames.
//
// What is ready when depends on the clock, and so does what travels together;
// what the sums come to does not: collective.AllReduceAll adds every tensor up as
// if it were alone.

// fusion is the plan with fusion: every piece is a bucket, and as many are exchanged
// together as are ready.
type fusion struct {
	cycle time.Duration
	most  int          // bytes at once
	ready atomic.Int32 // pieces whose gradient is there, in the order of buckets
	group bucket       // what is exchanged
}

func (*fusion) traits() planTraits { return planTraits{bytes: 1, beside: true, fuses: true} }

func (p *fusion) start(m *Mean) {
	m.rank.Host().Go("exchange", func(ctx context.Context, h comm.Host) error { return p.cycles(ctx, h, m) })
}

// open begins a step of the exchange activity with the passes.
func (p *fusion) open(ctx context.Context, m *Mean) error {
	p.ready.Store(0)
	return onMade.Wake(ctx, m.rank, bucketWord{}, m.ask)
}

func (p *fusion) made(context.Context, *Mean, int) error {
	p.ready.Add(1)
	return nil
}

// wait waits for all: the activity tells that it is done with a step.
func (p *fusion) wait(ctx context.Context, m *Mean) (message.Flags, error) {
	flags, err := hear(ctx, m, 1)
	for k := range m.there {
		m.there[k] = true
	}
	return flags, err
}

// cycles is the second activity of a rank that fuses.
func (p *fusion) cycles(ctx context.Context, h comm.Host, m *Mean) error {
	for {
		_, flags, err := onMade.Wait(ctx, m.rank)
		if err != nil || flags&train.FlagDone != 0 {
			return err
		}
		if flags, err = p.step(ctx, h, m, flags); err != nil {
			return err
		}
		if err := onExchanged.Wake(ctx, m.rank, bucketWord{}, flags); err != nil {
			return err
		}
	}
}

// step exchanges the tensors of a step.
func (p *fusion) step(ctx context.Context, h comm.Host, m *Mean, flags message.Flags) (message.Flags, error) {
	next := h.Now() + p.cycle
	for done := 0; done < len(m.buckets); {
		if err := h.Sleep(ctx, max(0, next-h.Now())); err != nil {
			return flags, err
		}
		next = max(h.Now(), next) + p.cycle
		ready, seen, err := collective.Least(ctx, m.net, m.group, onReady.Header(m.job(), message.Count{N: m.rank.Step()}, flags), float64(p.ready.Load()))
		if err != nil {
			return flags, err
		}
		for flags |= seen; done < int(ready); {
			b, n := p.fuse(m, done, int(ready))
			seen, err := m.exchange(ctx, b, m.x, m.rank.Step(), 1, flags&train.AskFlags)
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
func (p *fusion) fuse(m *Mean, first, ready int) (b *bucket, n int) {
	bytes := 0
	for ; first+n < ready; n++ {
		if bytes += 4 * m.shard.Pieces[m.buckets[first+n].lo].Len; bytes > p.most && n > 0 {
			break
		}
	}
	b = &p.group
	b.lo, b.hi, b.index = m.buckets[first+n-1].lo, m.buckets[first].hi, m.buckets[first].index
	b.ops = m.ops[b.lo:b.hi]
	return b, n
}
