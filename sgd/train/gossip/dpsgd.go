package gossip

import (
	"context"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// DPSGD is decentralised parallel SGD (Lian et al. 2017): there is no server and
// no collective; in every step each worker averages with its neighbours in the
// graph and takes its own step from there,
//
//	xᵢ ← Σⱼ Wᵢⱼ·xⱼ − rate·direction(g at xᵢ)
//
// so that parameters travel while the gradient is made. A worker waits for its
// neighbours alone. The optimizer's moments stay with the worker.
//
// With adapt a worker makes its step first and averages what comes of it,
// xᵢ ← Σⱼ Wᵢⱼ·(xⱼ − rate·direction(gⱼ)): on the complete graph that is synchronous
// SGD, but nothing is hidden behind computing.
//
// Tuning: the rate as in synchronous training; a graph with a larger gap where
// workers drift apart.
//
// Cost: parameters to each neighbour a step, while the gradient is made; a copy
// of the parameters a worker.
type DPSGD struct {
	Adapt bool `doc:"step, then average; otherwise average while the gradient is made, as published"`
}

var _ = train.Modes.Add("dpsgd", "every worker averages with its neighbours in the graph: D-PSGD", DPSGD{})

// Traits implements Mode.
func (DPSGD) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: j.Workers, Conduct: train.InStep, Models: j.Workers, Timeless: true, Elastic: true, Weightless: true, Steady: true, Codec: train.TakesCasts, Heeds: gossipHeeds, Refuses: gossipRefuses}
}

// Check implements Mode.
func (m DPSGD) Check(j *train.Job) error {
	if err := symmetric(j, "dpsgd"); err != nil {
		return err
	}
	_, err := train.NewPeer(train.NewRank(j, 0), j.Codec)
	return err
}

// Part implements Mode.
func (m DPSGD) Part(r *train.Rank) (train.Part, error) {
	p, err := train.NewPeer(r, r.Job().Codec)
	if err != nil {
		return nil, err
	}
	n := &neighbour{p, m.Adapt}
	return p.Part(n), nil
}

// neighbour is a D-PSGD worker.
type neighbour struct {
	*train.Peer
	adapt bool
}

func (n *neighbour) Move(ctx context.Context) error {
	mix := n.Edges(n.Step())
	if n.adapt {
		if err := n.Gradient(ctx, n.X.F()); err != nil {
			return err
		}
		n.X.Own()
		n.Descend(n.X.F())
	}
	if err := n.Tell(ctx, 0, n.X, mix.Out); err != nil {
		return err
	}
	if !n.adapt {
		if err := n.Gradient(ctx, n.X.F()); err != nil {
			return err
		}
	}
	next := wire.NewVector(len(n.X.F())) // neighbours may still read x
	copy(next.F(), n.X.F())
	f32.Scale(next.F(), float32(mix.Self))
	for _, e := range mix.In {
		if _, err := n.Hear(ctx, next.F(), e, n.Step()); err != nil {
			return err
		}
	}
	if !n.adapt {
		n.Descend(next.F())
	}
	n.X.Release()
	n.X = next
	return nil
}

func (n *neighbour) Model() wire.Vector { return n.X.Share() }

// Keep implements train.Mover.
func (n *neighbour) Keep(*checkpoint.Keeper) {}
