package train

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/internal/f32"
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

var _ = Modes.Add("dpsgd", "every worker averages with its neighbours in the graph: D-PSGD", DPSGD{})

// Traits implements Mode.
func (DPSGD) Traits(j *Job) Traits {
	return Traits{PerUpdate: j.Workers, Conduct: InStep, Models: j.Workers, Timeless: true, Steady: true, Codec: TakesCasts, Heeds: gossipHeeds, Refuses: gossipRefuses}
}

// Check implements Mode.
func (m DPSGD) Check(j *Job) error {
	if err := symmetric(j, "dpsgd"); err != nil {
		return err
	}
	_, err := newPeer(newRank(j, 0), j.Codec)
	return err
}

// symmetric refuses directed graphs.
func symmetric(j *Job, mode string) error {
	if j.Graph != nil && j.Graph.Symmetric() {
		return nil
	}
	return fmt.Errorf("mode %s wants a graph in which neighbours hear from each other, such as ring, pairs or complete; %s is directed, and for mode sgp", mode, collective.Graphs.Spec(j.Graph))
}

// Part implements Mode.
func (m DPSGD) Part(r *Rank) (Part, error) {
	p, err := newPeer(r, r.job.Codec)
	if err != nil {
		return nil, err
	}
	n := &neighbour{p, m.Adapt}
	return &gossiper{peer: p, mover: n}, nil
}

// neighbour is a D-PSGD worker.
type neighbour struct {
	*peer
	adapt bool
}

func (n *neighbour) move(ctx context.Context) error {
	mix := n.job.Graph.Mix(n.rank, n.job.Workers, n.step)
	if n.adapt {
		if err := n.gradient(ctx, n.x.f); err != nil {
			return err
		}
		n.x.own()
		n.descend(n.x.f)
	}
	if err := n.tell(ctx, n.said(0), n.x, mix.Out); err != nil {
		return err
	}
	if !n.adapt {
		if err := n.gradient(ctx, n.x.f); err != nil {
			return err
		}
	}
	next := newVector(len(n.x.f)) // neighbours may still read x
	copy(next.f, n.x.f)
	f32.Scale(next.f, float32(mix.Self))
	for _, e := range mix.In {
		if _, err := n.hear(ctx, next.f, e, n.step); err != nil {
			return err
		}
	}
	if !n.adapt {
		n.descend(next.f)
	}
	n.x.release()
	n.x = next
	return nil
}

func (n *neighbour) model() vector { return n.x.share() }

// Keep implements mover.
func (n *neighbour) Keep(*Keeper) {}
