package train

import (
	"context"
	"errors"
	"math/bits"
	"slices"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Workers that wait for their neighbours alone are some steps apart: as many as the news
// that a worker has begun a step takes to come to all others. Boundaries of an elastic run
// lie so many steps apart, or more. So ranks come to one only when all others have come to
// the one before, and nobody waits for it.

// spread is after how many steps at most all workers have heard of each other, by the
// graph, whichever step they begin with. What is sent is heard lag steps later.
func spread(g collective.Graph, workers, lag int) (steps int) {
	for first := range g.Period(workers) {
		steps = max(steps, spreadFrom(g, workers, lag, first))
	}
	return steps
}

// spreadFrom is spread for those who begin with a step.
func spreadFrom(g collective.Graph, workers, lag, first int) int {
	words := (workers + 63) / 64
	knows := make([][]uint64, lag+2) // of whom each worker knows that it had begun, before a step; by step
	for i := range knows {
		knows[i] = make([]uint64, workers*words)
	}
	for w := range workers {
		knows[0][w*words+w/64] |= 1 << (w % 64)
	}
	known := workers
	for n := 0; ; n++ {
		most := (workers*g.Period(workers) + 1) * (lag + 1) // on a graph over which news comes to all
		if known == workers*workers || n == most {
			return max(1, n)
		}
		next := knows[(n+1)%len(knows)]
		copy(next, knows[n%len(knows)])
		if sent := n - lag; sent >= 0 {
			told := knows[sent%len(knows)]
			for w := range workers {
				for _, e := range g.Mix(w, workers, first+sent).In {
					for i := range words {
						next[w*words+i] |= told[e.Rank*words+i]
					}
				}
			}
		}
		known = 0
		for _, word := range next {
			known += bits.OnesCount64(word)
		}
	}
}

// isBoundary says whether there is one before the present step: at every so many steps of
// the epoch, and where workers leave or join by plan; not shortly before that.
func (p *Peer) isBoundary() bool {
	e := p.job.joined.m
	if p.spaced == 0 {
		type key int
		p.spaced, _ = Shared(p.job, key(p.Lag), func() (int, error) { return spread(p.graph(), p.job.Workers, p.Lag), nil })
	}
	ends := p.job.Updates
	for _, d := range p.member.plan[e.Planned:] {
		if slices.Contains(e.Workers, d.worker) != d.joins {
			ends = min(ends, max(d.step, e.Step))
			break
		}
	}
	return p.step == e.Step || p.step >= ends || (p.step-e.Step)%p.spaced == 0 && ends-p.step >= p.spaced
}

// pass comes to the boundary before the present step, if there is one. In an open run there
// is none, and it may be the worker's turn to leave.
func (p *Peer) pass(ctx context.Context, of *gossiper) error {
	if p.visit != nil {
		return p.turn(ctx)
	}
	m := p.member
	if m == nil || !p.isBoundary() {
		return nil
	}
	if r, ok := of.mover.(Rester); ok { // what is under way is called off with the epoch
		if err := r.Rest(ctx); err != nil {
			return err
		}
	}
	err := p.Boundary(of)
	switch {
	case errors.Is(err, errLeaves) || errors.Is(err, errRests):
		if told := p.rests(ctx); told != nil {
			return told
		}
	case err == nil && p.rank == 0 && m.held[1].State != nil:
		return onBehind.Send(ctx, p.Rank, p.job.Observer(), message.Count{N: m.held[1].Step}, 0)
	}
	return err
}

// rests tells the observer that the worker makes no more steps in this epoch.
func (p *Peer) rests(ctx context.Context) error {
	if p.member == nil {
		return nil
	}
	return onRests.Send(ctx, p.Rank, p.job.Observer(), message.Count{N: p.step}, 0)
}

// Since is the step before which the present workers began with each other: 0, or when
// some of an elastic run had left or come.
func (r *Rank) Since() int {
	if r.job.joined == nil {
		return 0
	}
	return r.job.joined.m.Since
}

// Renewed says that the rank's present step is the first one with others than before. What
// it knew of others, and what was under way, is of no use.
func (r *Rank) Renewed() bool { return r.Since() > 0 && r.step == r.Since() }

// Introduce tells v, as it is, along the edges of a round, and adds to sum what comes along
// them, at their weights: workers that go on with others learn of them.
func (p *Peer) Introduce(ctx context.Context, v wire.Vector, sum []float32, mix collective.Mix) error {
	own := p.codec
	defer func() { p.codec = own }()
	var err error
	if p.codec, err = p.job.packer(p.shard, compress.Raw{}, compress.Block{Rank: p.rank, World: p.job.Workers, Peer: -1, Seed: p.job.Seed}); err != nil {
		return err
	}
	if err := p.Tell(ctx, 0, v, mix.Out); err != nil {
		return err
	}
	for _, e := range mix.In {
		if _, err := p.Hear(ctx, sum, e, p.step); err != nil {
			return err
		}
	}
	return nil
}
