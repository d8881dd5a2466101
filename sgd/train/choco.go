package train

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
)

// Choco is CHOCO-SGD (Koloskova, Stich and Jaggi 2019): gossip through any
// codec. Workers send differences to what their neighbours know of them, and
// average what is known, at a rate γ that says how far to trust it:
//
//	xᵢ ← xᵢ − rate·direction(g at xᵢ)
//	send qᵢ = codec(xᵢ − x̂ᵢ);   x̂ⱼ ← x̂ⱼ + qⱼ for neighbours and itself
//	xᵢ ← xᵢ + γ·Σⱼ Wᵢⱼ·(x̂ⱼ − x̂ᵢ)
//
// Of its neighbours a worker keeps the sum sᵢ = Σⱼ Wᵢⱼ·x̂ⱼ alone, so the graph must
// be the same in every step. Departure: x̂ begins at the parameters that all begin
// with, not at 0.
//
// Tuning: codec raw with γ = 1 is D-PSGD that adapts first. The more a codec leaves
// out, the smaller γ must be: about 0.3 for topk at 1 %. A codec should be a
// contraction; wrap an unbiased one in contraction.
//
// Cost: one encoding a step, sent to each neighbour; twelve bytes an element a
// worker: parameters, x̂ and s.
type Choco struct {
	Gamma float64 `doc:"share of the way to the neighbours' mean, more than 0 and at most 1"`
}

var _ = Modes.Add("choco", "gossip of differences through any codec: CHOCO-SGD", Choco{Gamma: 0.3})

// Validate checks the options.
func (m Choco) Validate() error {
	if !(m.Gamma > 0 && m.Gamma <= 1) {
		return fmt.Errorf("option \"gamma\" is %v; want more than 0 and at most 1", m.Gamma)
	}
	return nil
}

// Traits implements Mode.
func (Choco) Traits(j *Job) Traits {
	return Traits{PerUpdate: j.Workers, Conduct: InStep, Models: j.Workers, Timeless: true, Steady: true, Codec: TakesForgetful, Heeds: gossipHeeds, Refuses: chocoRefuses}
}

var chocoRefuses = map[string]string{
	"overlap": gossipRefuses["overlap"],
	"codec":   "it sends differences to what others know, which are their own feedback, and a codec that keeps what it leaves out, at either end, would add it a second time; use the codec inside by itself, or one without memory",
}

// Check implements Mode.
func (m Choco) Check(j *Job) error {
	if err := symmetric(j, "choco"); err != nil {
		return err
	}
	if j.Graph.Period(j.Workers) != 1 {
		return fmt.Errorf("mode choco keeps what it knows of all neighbours in one sum and wants a graph that is the same in every step, such as ring or complete; %s changes", collective.Graphs.Spec(j.Graph))
	}
	_, err := newPeer(newRank(j, 0), j.Codec)
	return err
}

// Part implements Mode.
func (m Choco) Part(r *Rank) (Part, error) {
	p, err := newPeer(r, r.job.Codec)
	if err != nil {
		return nil, err
	}
	n := &gossip{peer: p, gamma: float32(m.Gamma), mix: r.job.Graph.Mix(r.rank, r.job.Workers, 0)}
	size := len(p.x.f)
	n.known, n.sum, n.diff = make([]float32, size), make([]float32, size), make([]float32, size)
	copy(n.known, p.x.f)
	copy(n.sum, p.x.f) // weights sum to 1
	return &gossiper{peer: p, mover: n}, nil
}

// gossip is a CHOCO worker.
type gossip struct {
	*peer
	gamma float32
	mix   collective.Mix
	known []float32 // x̂ᵢ: what others know of x
	sum   []float32 // Σ Wᵢⱼ·x̂ⱼ
	diff  []float32
}

func (n *gossip) move(ctx context.Context) error {
	if err := n.gradient(ctx, n.x.f); err != nil {
		return err
	}
	n.x.own()
	n.descend(n.x.f)
	f32.AxpyTo(n.diff, n.x.f, -1, n.known)
	if err := n.times.encoding(ctx, n.codec.encoding(n.shard.whole, true)); err != nil {
		return err
	}
	began := n.times.start()
	q, err := n.codec.encode(n.shard.whole, n.diff, true, compress.Step{N: n.step, Seed: n.job.Seed})
	n.times.encoded(began)
	if err != nil {
		return fmt.Errorf("worker %d, step %d: %w", n.rank, n.step, err)
	}
	hd := onPeer.Header(n.job, n.said(0), 0)
	hd.From = int32(n.rank)
	f := comm.NewFrame(hd, q.Retain())
	defer f.Release()
	clear(n.diff)
	if err := n.times.decoding(ctx, n.codec.decoding(n.shard.whole)); err != nil {
		return err
	}
	if err := n.add(n.diff, 1, f); err != nil {
		return err
	}
	f32.Add(n.known, n.diff)
	f32.Axpy(n.sum, float32(n.mix.Self), n.diff)
	if len(n.mix.Out) == 0 {
		q.Release()
	} else if err := n.spread(ctx, comm.NewFrame(hd, q), n.mix.Out); err != nil {
		return err
	}
	for _, e := range n.mix.In {
		if _, err := n.hear(ctx, n.sum, e, n.step); err != nil {
			return err
		}
	}
	f32.AxpyTo(n.diff, n.sum, -1, n.known)
	f32.Axpy(n.x.f, n.gamma, n.diff)
	return nil
}

func (n *gossip) model() vector { return n.x.share() }

// Keep implements mover.
func (n *gossip) Keep(k *Keeper) {
	k.Vector(key(keyKnown, n.rank), n.known)
	k.Vector(key(keyHeard, n.rank), n.sum)
}
