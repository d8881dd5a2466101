package mean

import (
	"context"
	"sync/atomic"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
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
// Buckets are the unit, so a large tensor holds up the others unless option
// partition cuts it. Bits are those of the run without.

// priority is the plan with priority, in buckets of so many bytes.
type priority struct {
	bytes int
	begun atomic.Int64 // buckets this rank has made since it began
}

func (p *priority) traits() planTraits { return planTraits{bytes: p.bytes, beside: true, late: true} }

func (p *priority) start(m *Mean) {
	from := m.rank.Step()
	m.rank.Host().Go("exchange", func(ctx context.Context, h comm.Host) error { return p.exchanges(ctx, h, m, from) })
}

func (p *priority) open(context.Context, *Mean) error { return nil }

func (p *priority) made(ctx context.Context, m *Mean, k int) error {
	p.begun.Add(1)
	return onMade.Wake(ctx, m.rank, bucketWord{k}, m.ask)
}

func (p *priority) wait(ctx context.Context, m *Mean) (message.Flags, error) { return hear(ctx, m, 1) }

// exchanges is the second activity of a rank with priority, from a step on.
func (p *priority) exchanges(ctx context.Context, h comm.Host, m *Mean, step int) error {
	done := make([]bool, len(m.buckets))
	for before := int64(0); ; step, before = step+1, before+int64(len(done)) {
		clear(done)
		flags := message.Flags(0)
		all, own := 0, 0 // buckets that all ranks have made; that this one has told of
		for n := range done {
			for ; own <= n && n == all; own++ { // there is none to exchange
				_, told, err := onMade.Wait(ctx, m.rank)
				if err != nil || told&train.FlagDone != 0 {
					return err
				}
				flags |= told & train.AskFlags
			}
			if all < len(done) {
				least, seen, err := collective.Least(ctx, m.net, m.group, onReady.Header(m.job(), message.Count{N: step}, flags), float64(p.begun.Load()-before))
				if err != nil {
					return err
				}
				all, flags = int(least), flags|seen
			}
			k := all - 1
			for done[k] {
				k--
			}
			seen, err := m.exchange(ctx, &m.buckets[k], m.x, step, 1, flags)
			if err != nil {
				return err
			}
			done[k] = true
			flags |= seen
			m.whole = h.Now()
			if err := onExchanged.Wake(ctx, m.rank, bucketWord{k}, flags); err != nil {
				return err
			}
		}
		for ; own < len(done); own++ { // words of what is exchanged already
			if _, _, err := onMade.Wait(ctx, m.rank); err != nil {
				return err
			}
		}
	}
}
