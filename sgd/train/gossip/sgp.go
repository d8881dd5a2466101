package gossip

import (
	"context"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// SGP is stochastic gradient push (Assran et al. 2019): averaging by push-sum,
// which needs no answers and so works on directed graphs. A worker holds a value
// xᵢ and a weight wᵢ, 1 at first, and its model is their ratio:
//
//	xᵢ ← xᵢ − rate·direction(g at xᵢ/wᵢ)
//	send (xᵢ, wᵢ) ahead along the graph's edges, keep the own share
//	(xᵢ, wᵢ) ← Σⱼ Pᵢⱼ·(xⱼ, wⱼ)
//
// On one_peer, the published graph, that is one message a step. With Late it is
// overlap-SGP. A worker goes on without what was sent in its last Late steps and
// takes a message in exactly that many steps after it was sent. So messages
// travel while gradients are made and bits do not depend on the net. What is on
// its way is missing from x and w alike. Until the first message arrives w falls to
// Self^Late, 2^−Late on one_peer, and a step on x is one of rate/w on the model.
// So Late is at most 8, and less on graphs that keep less than half: a worker may
// be left with no less than 1/64.
//
// The weight travels in the frame's header and is not billed.
//
// Tuning: graph one_peer; late=1 or 2 where messages take as long as gradients.
//
// Cost: parameters to each neighbour of the step; a copy of the parameters a
// worker.
type SGP struct {
	Late int `doc:"steps after which a message is taken in: 0 at once, more (up to 8) is overlap-SGP"`
}

var _ = train.Modes.Add("sgp", "push-sum on directed graphs: stochastic gradient push, overlap-SGP", SGP{})

// Validate checks the options.
func (m SGP) Validate() error {
	if m.Late < 0 || m.Late > 8 {
		return fmt.Errorf("option \"late\" is %d; want 0 to 8: until the first message arrives a worker gives weight away with every step, and its steps on the model grow as the weight shrinks", m.Late)
	}
	return nil
}

// Traits implements Mode.
func (m SGP) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: j.Workers, Conduct: train.InStep, Models: j.Workers, Timeless: true, Elastic: true, UnderWay: m.Late > 0, Weightless: true, Steady: true, Codec: train.TakesCasts, Heeds: gossipHeeds, Refuses: gossipRefuses}
}

// leastWeight is what a worker may be left with before the first message arrives.
const leastWeight = 1. / 64

// unheard is the least weight of a worker after so many steps in which it says but
// hears nothing.
func unheard(j *train.Job, steps int) float64 {
	least := 1.
	for rank := range j.Workers {
		weight := 1.
		for s := range steps {
			weight *= j.Graph.Mix(rank, j.Workers, s).Self
		}
		least = min(least, weight)
	}
	return least
}

// Check implements Mode.
func (m SGP) Check(j *train.Job) error {
	if w := unheard(j, m.Late); w < leastWeight {
		most := m.Late - 1
		for unheard(j, most) < leastWeight {
			most--
		}
		return fmt.Errorf("option \"late\" is %d, and on graph %s with %d workers the weight of a worker falls to 1/%.0f before the first message arrives, its steps on the model growing as much; want at most %d",
			m.Late, collective.Graphs.Spec(j.Graph), j.Workers, 1/w, most)
	}
	_, err := train.NewPeer(train.NewRank(j, 0), j.Codec)
	return err
}

// Part implements Mode.
func (m SGP) Part(r *train.Rank) (train.Part, error) {
	p, err := train.NewPeer(r, r.Job().Codec)
	if err != nil {
		return nil, err
	}
	p.Lag = m.Late
	n := &pusher{Peer: p, weight: 1}
	return p.Part(n), nil
}

// pusher is an SGP worker. What it embeds holds x.
type pusher struct {
	*train.Peer
	weight float64
	early  []mass // taken from the inbox at a checkpoint, before their time
}

// mass is what a worker said in a step.
type mass struct {
	from, step int
	weight     float64
	x          []float32
	at         time.Duration // when it arrived
}

func (n *pusher) Move(ctx context.Context) error {
	z := n.Model()
	err := n.Gradient(ctx, z.F())
	z.Release()
	if err != nil {
		return err
	}
	n.X.Own()
	n.Descend(n.X.F())
	mix := n.Edges(n.Step())
	if err := n.Tell(ctx, n.weight, n.X, mix.Out); err != nil {
		return err
	}
	next := wire.NewVector(len(n.X.F())) // others may still read x
	copy(next.F(), n.X.F())
	f32.Scale(next.F(), float32(mix.Self))
	n.X.Release()
	n.X, n.weight = next, mix.Self*n.weight
	if then := n.Step() - n.Lag; then >= n.Since() {
		for _, e := range n.Edges(then).In {
			if err := n.takeIn(ctx, e, then); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeIn adds what the near end of an edge said in step.
func (n *pusher) takeIn(ctx context.Context, e collective.Edge, step int) error {
	for i, m := range n.early {
		if m.from == e.Rank && m.step == step {
			if wait := m.at - n.Host().Now(); wait > 0 && n.Host().Virtual() {
				if err := n.Host().Sleep(ctx, wait); err != nil {
					return err
				}
			}
			n.early = append(n.early[:i], n.early[i+1:]...)
			f32.Axpy(n.X.F(), float32(e.Weight), m.x)
			n.weight += float64(e.Weight * m.weight)
			return nil
		}
	}
	said, err := n.Hear(ctx, n.X.F(), e, step)
	n.weight += float64(e.Weight * said.Weight)
	return err
}

// Model is x/w.
func (n *pusher) Model() wire.Vector {
	z := n.X.Share()
	if n.weight != 1 {
		z.Own()
		f32.Scale(z.F(), float32(1/n.weight))
	}
	return z
}

// taken is the first step of which messages are not taken in before the present step.
func (n *pusher) taken() int { return max(n.Since(), n.Step()-n.Lag) }

// Rest takes from the inbox what was sent in the steps before: others save no
// sooner than they have sent it, and nobody sends it again.
func (n *pusher) Rest(ctx context.Context) error {
	for s := n.taken(); s < n.Step(); s++ {
		for _, e := range n.Edges(s).In {
			if n.has(e.Rank, s) {
				continue
			}
			f, err := n.Listen(ctx, e.Rank, s)
			if err != nil {
				return err
			}
			m := mass{e.Rank, s, f.Word.Weight, make([]float32, len(n.X.F())), n.Host().Now()}
			err = n.Add(m.x, 1, f.Frame)
			f.Release()
			if err != nil {
				return err
			}
			n.early = append(n.early, m)
		}
	}
	return nil
}

func (n *pusher) has(from, step int) bool {
	for _, m := range n.early {
		if m.from == from && m.step == step {
			return true
		}
	}
	return false
}

// Keep implements train.Mover.
func (n *pusher) Keep(k *checkpoint.Keeper) {
	k.Float(checkpoint.Key(keyWeight, n.ID()), &n.weight)
	if k.Loads() && n.Renewed() {
		z := n.Model()
		n.X.Release()
		n.X, n.weight = z, 1
		return
	}
	if k.Loads() { // what was taken from inboxes then
		for s := n.taken(); s < n.Step(); s++ {
			for _, e := range n.Edges(s).In {
				n.early = append(n.early, mass{from: e.Rank, step: s, x: make([]float32, len(n.X.F()))})
			}
		}
	}
	for i := range n.early {
		m := &n.early[i]
		name := checkpoint.Key(keyLate, n.ID(), m.from, m.step)
		k.Vector(name, m.x)
		k.Float(name, &m.weight)
		k.Instant(name+keyAt, &m.at)
	}
}
