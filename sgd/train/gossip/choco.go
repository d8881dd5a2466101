package gossip

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/wire"
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

var _ = train.Modes.Add("choco", "gossip of differences through any codec: CHOCO-SGD", Choco{Gamma: 0.3})

// Validate checks the options.
func (m Choco) Validate() error {
	if !(m.Gamma > 0 && m.Gamma <= 1) {
		return fmt.Errorf("option \"gamma\" is %v; want more than 0 and at most 1", m.Gamma)
	}
	return nil
}

// Traits implements Mode.
func (Choco) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: j.Workers, Conduct: train.InStep, Models: j.Workers, Timeless: true, Elastic: true, Weightless: true, Steady: true, Codec: train.TakesForgetful, Heeds: gossipHeeds, Refuses: chocoRefuses}
}

var chocoRefuses = map[string]string{
	"overlap": gossipRefuses["overlap"],
	"codec":   "it sends differences to what others know, which are their own feedback, and a codec that keeps what it leaves out, at either end, would add it a second time; use the codec inside by itself, or one without memory",
}

// Check implements Mode.
func (m Choco) Check(j *train.Job) error {
	if err := symmetric(j, "choco"); err != nil {
		return err
	}
	if j.Graph.Period(j.Workers) != 1 {
		return fmt.Errorf("mode choco keeps what it knows of all neighbours in one sum and wants a graph that is the same in every step, such as ring or complete; %s changes", collective.Graphs.Spec(j.Graph))
	}
	_, err := train.NewPeer(train.NewRank(j, 0), j.Codec)
	return err
}

// Part implements Mode.
func (m Choco) Part(r *train.Rank) (train.Part, error) {
	p, err := train.NewPeer(r, r.Job().Codec)
	if err != nil {
		return nil, err
	}
	n := &gossip{Peer: p, gamma: float32(m.Gamma), mix: r.Job().Graph.Mix(r.ID(), r.Job().Workers, 0)}
	size := len(p.X.F())
	n.known, n.sum, n.diff = make([]float32, size), make([]float32, size), make([]float32, size)
	copy(n.known, p.X.F())
	copy(n.sum, p.X.F()) // weights sum to 1
	return p.Part(n), nil
}

// gossip is a CHOCO worker.
type gossip struct {
	*train.Peer
	gamma float32
	mix   collective.Mix
	known []float32 // x̂ᵢ: what others know of x
	sum   []float32 // Σ Wᵢⱼ·x̂ⱼ
	diff  []float32
}

func (n *gossip) Move(ctx context.Context) error {
	if err := n.Gradient(ctx, n.X.F()); err != nil {
		return err
	}
	if n.Renewed() {
		if err := n.meet(ctx); err != nil {
			return err
		}
	}
	n.X.Own()
	n.Descend(n.X.F())
	f32.AxpyTo(n.diff, n.X.F(), -1, n.known)
	if err := n.Billed(ctx); err != nil {
		return err
	}
	f, err := n.Encode(train.OnPeer, train.Said{Step: n.Step()}, wire.Floats(n.diff))
	if err != nil {
		return err
	}
	f.Header.From = int32(n.ID())
	defer f.Release()
	clear(n.diff)
	if err := n.Decoded(ctx, 1); err != nil {
		return err
	}
	if err := n.AddAside(n.diff, 1, f); err != nil {
		return err
	}
	f32.Add(n.known, n.diff)
	f32.Axpy(n.sum, float32(n.mix.Self), n.diff)
	if len(n.mix.Out) > 0 {
		if err := n.Spread(ctx, f.Share(), n.mix.Out); err != nil {
			return err
		}
	}
	for _, e := range n.mix.In {
		if _, err := n.Hear(ctx, n.sum, e, n.Step()); err != nil {
			return err
		}
	}
	f32.AxpyTo(n.diff, n.sum, -1, n.known)
	f32.Axpy(n.X.F(), n.gamma, n.diff)
	return nil
}

// meet lets neighbours that have not been each other's before know x as it is.
func (n *gossip) meet(ctx context.Context) error {
	copy(n.known, n.X.F())
	copy(n.sum, n.X.F())
	f32.Scale(n.sum, float32(n.mix.Self))
	return n.Introduce(ctx, n.X, n.sum, n.mix)
}

func (n *gossip) Model() wire.Vector { return n.X.Share() }

// Keep implements train.Mover.
func (n *gossip) Keep(k *checkpoint.Keeper) {
	if n.Renewed() { // neighbours have yet to meet
		return
	}
	k.Vector(checkpoint.Key(keyKnown, n.ID()), n.known)
	k.Vector(checkpoint.Key(keyHeard, n.ID()), n.sum)
}
