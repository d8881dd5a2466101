// Package mode is a mode of training that lives outside gradlab: a worker averages
// with one other after every step, another one each step. Importing the package is all
// it takes to have it in spec text, recipes and listings.
package mode

import (
	"context"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Rounds is gossip in a round: in step k every worker makes its own step and then
// takes the mean with the worker s places before it, s = 1 + k mod (W − 1),
//
//	xᵢ ← ½·(xᵢ − rate·direction(gᵢ)) + ½·(xⱼ − rate·direction(gⱼ)),  j = i − s
//
// so that after W − 1 steps it has heard of everybody. Every worker tells one and
// hears one, so the mean of all is kept.
type Rounds struct{}

var _ = train.Modes.Add("rounds", "every worker averages with another one after each step", Rounds{})

// Traits: all make as many steps as there are updates, in step, and all show a model. The
// others go on without a worker that died: nothing but its model makes a dancer.
func (Rounds) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: j.Workers, Conduct: train.InStep, Models: j.Workers,
		Timeless: true, Elastic: true, Weightless: true, Steady: true, Codec: train.TakesCasts, Refuses: whole}
}

var whole = map[string]string{
	"overlap": "it exchanges whole parameters between steps",
	"codec":   "it averages parameters, which other codecs do not keep",
}

// Check refuses nothing more.
func (Rounds) Check(j *train.Job) error {
	_, err := train.NewPeer(train.NewRank(j, 0), j.Codec)
	return err
}

// Part makes a worker.
func (Rounds) Part(r *train.Rank) (train.Part, error) {
	p, err := train.NewPeer(r, r.Job().Codec)
	if err != nil {
		return nil, err
	}
	p.Along = circle{}
	return p.Part(&dancer{p}), nil
}

// circle is who hears whom.
type circle struct{}

func (circle) Symmetric() bool     { return false }
func (circle) Period(size int) int { return max(1, size-1) }

func (circle) Mix(rank, size, step int) collective.Mix {
	if size == 1 {
		return collective.Mix{Self: 1}
	}
	s := 1 + step%(size-1)
	return collective.Mix{
		Self: 0.5,
		Out:  []collective.Edge{{Rank: (rank + s) % size, Weight: 0.5}},
		In:   []collective.Edge{{Rank: (rank + size - s) % size, Weight: 0.5}},
	}
}

// dancer is a worker. It keeps nothing that the Peer does not.
type dancer struct{ *train.Peer }

func (d *dancer) Model() wire.Vector      { return d.X.Share() }
func (d *dancer) Keep(*checkpoint.Keeper) {}

// Move implements train.Mover.
func (d *dancer) Move(ctx context.Context) error {
	if err := d.Gradient(ctx, d.X.F()); err != nil {
		return err
	}
	d.X.Own() // others may still read what they were told
	d.Descend(d.X.F())
	mix := d.Edges(d.Step())
	if err := d.Tell(ctx, 0, d.X, mix.Out); err != nil {
		return err
	}
	next := wire.NewVector(len(d.X.F()))
	for i, x := range d.X.F() {
		next.F()[i] = float32(mix.Self) * x
	}
	for _, e := range mix.In {
		if _, err := d.Hear(ctx, next.F(), e, d.Step()); err != nil {
			return err
		}
	}
	d.X.Release()
	d.X = next
	return nil
}
