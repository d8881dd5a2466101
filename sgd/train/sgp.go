package train

import (
	"context"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/internal/f32"
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

var _ = Modes.Add("sgp", "push-sum on directed graphs: stochastic gradient push, overlap-SGP", SGP{})

// Validate checks the options.
func (m SGP) Validate() error {
	if m.Late < 0 || m.Late > 8 {
		return fmt.Errorf("option \"late\" is %d; want 0 to 8: until the first message arrives a worker gives weight away with every step, and its steps on the model grow as the weight shrinks", m.Late)
	}
	return nil
}

// Traits implements Mode.
func (m SGP) Traits(j *Job) Traits {
	return Traits{PerUpdate: j.Workers, Conduct: InStep, Models: j.Workers, Timeless: true, UnderWay: m.Late > 0, Steady: true, Codec: TakesCasts, Heeds: gossipHeeds, Refuses: gossipRefuses}
}

// leastWeight is what a worker may be left with before the first message arrives.
const leastWeight = 1. / 64

// unheard is the least weight of a worker after so many steps in which it says but
// hears nothing.
func unheard(j *Job, steps int) float64 {
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
func (m SGP) Check(j *Job) error {
	if w := unheard(j, m.Late); w < leastWeight {
		most := m.Late - 1
		for unheard(j, most) < leastWeight {
			most--
		}
		return fmt.Errorf("option \"late\" is %d, and on graph %s with %d workers the weight of a worker falls to 1/%.0f before the first message arrives, its steps on the model growing as much; want at most %d",
			m.Late, collective.Graphs.Spec(j.Graph), j.Workers, 1/w, most)
	}
	_, err := newPeer(newRank(j, 0), j.Codec)
	return err
}

// Part implements Mode.
func (m SGP) Part(r *Rank) (Part, error) {
	p, err := newPeer(r, r.job.Codec)
	if err != nil {
		return nil, err
	}
	n := &pusher{peer: p, weight: 1, late: m.Late}
	return &gossiper{peer: p, mover: n}, nil
}

// pusher is an SGP worker. What it embeds holds x.
type pusher struct {
	*peer
	weight float64
	late   int
	early  []message // taken from the inbox at a checkpoint, before their time
}

// message is what a worker said in a step.
type message struct {
	from, step int
	weight     float64
	x          []float32
	at         time.Duration // when it arrived
}

func (n *pusher) move(ctx context.Context) error {
	z := n.model()
	err := n.gradient(ctx, z.f)
	z.release()
	if err != nil {
		return err
	}
	n.x.own()
	n.descend(n.x.f)
	mix := n.job.Graph.Mix(n.rank, n.job.Workers, n.step)
	if err := n.tell(ctx, n.said(n.weight), n.x, mix.Out); err != nil {
		return err
	}
	next := newVector(len(n.x.f)) // others may still read x
	copy(next.f, n.x.f)
	f32.Scale(next.f, float32(mix.Self))
	n.x.release()
	n.x, n.weight = next, mix.Self*n.weight
	if then := n.step - n.late; then >= 0 {
		for _, e := range n.job.Graph.Mix(n.rank, n.job.Workers, then).In {
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
			if wait := m.at - n.h.Now(); wait > 0 && n.h.Virtual() {
				if err := n.h.Sleep(ctx, wait); err != nil {
					return err
				}
			}
			n.early = append(n.early[:i], n.early[i+1:]...)
			f32.Axpy(n.x.f, float32(e.Weight), m.x)
			n.weight += e.Weight * m.weight
			return nil
		}
	}
	said, err := n.hear(ctx, n.x.f, e, step)
	n.weight += e.Weight * said.weight
	return err
}

// model is x/w.
func (n *pusher) model() vector {
	z := n.x.share()
	if n.weight != 1 {
		z.own()
		f32.Scale(z.f, float32(1/n.weight))
	}
	return z
}

// Rest takes from the inbox what was sent in the steps before: others save no
// sooner than they have sent it, and nobody sends it again.
func (n *pusher) Rest(ctx context.Context) error {
	for s := max(0, n.step-n.late); s < n.step; s++ {
		for _, e := range n.job.Graph.Mix(n.rank, n.job.Workers, s).In {
			if n.has(e.Rank, s) {
				continue
			}
			f, err := n.listen(ctx, e.Rank, s)
			if err != nil {
				return err
			}
			m := message{e.Rank, s, f.Word.weight, make([]float32, len(n.x.f)), n.h.Now()}
			err = n.add(m.x, 1, f.Frame)
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

// Keep implements mover.
func (n *pusher) Keep(k *Keeper) {
	k.Float(key(keyWeight, n.rank), &n.weight)
	if k.Loads() { // what was taken from inboxes then
		for s := max(0, n.step-n.late); s < n.step; s++ {
			for _, e := range n.job.Graph.Mix(n.rank, n.job.Workers, s).In {
				n.early = append(n.early, message{from: e.Rank, step: s, x: make([]float32, len(n.x.f))})
			}
		}
	}
	for i := range n.early {
		m := &n.early[i]
		name := key(keyLate, n.rank, m.from, m.step)
		k.Vector(name, m.x)
		k.Float(name, &m.weight)
		k.Instant(name+keyAt, &m.at)
	}
}
