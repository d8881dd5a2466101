package train

import (
	"context"
	"fmt"
	"sync"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/f32"
)

// AGP is asynchronous gradient push (Assran and Rabbat 2020): SGP in which nobody
// waits. A worker takes in what comes whenever it comes, and pushes behind every
// step of its own:
//
//	z = x/w;   g at z;   z ← z − rate·direction(g);   x ← w·z
//	send (x, w) ahead along the edges of its step, keep the own share
//
// Departures: a worker steps on its model z, as if w were 1; where weights gather
// at a slow worker, steps on x would grow by 1/w at the others. And it does not
// push what would leave it with less than Least: the weights of those who push
// more often than they are pushed to would vanish otherwise.
//
// A message is acknowledged on receipt, by an activity that waits for nobody, and
// a worker has at most one under way to each of its neighbours. Updates, schedules
// and staleness are counted as in mode adpsgd.
//
// Tuning: graph one_peer; least only where one worker is many times slower.
//
// Cost: parameters to each neighbour of the step; a copy of the parameters a
// worker.
type AGP struct {
	Least float64 `doc:"weight that a worker keeps; it pushes nothing where less would be left"`
}

var _ = Modes.Add("agp", "push-sum in which nobody waits: asynchronous gradient push", AGP{Least: 0.25})

// Validate checks the options.
func (m AGP) Validate() error {
	if !(m.Least > 0 && m.Least < 1) {
		return fmt.Errorf("option \"least\" is %v; want more than 0 and less than 1", m.Least)
	}
	return nil
}

// Traits implements Mode.
func (AGP) Traits(j *Job) Traits {
	return Traits{PerUpdate: 1, Conduct: Free, Models: j.Workers, Steady: true, Codec: TakesCasts, Heeds: gossipHeeds, Refuses: gossipRefuses}
}

// Check implements Mode.
func (AGP) Check(j *Job) error {
	_, err := newPeer(newRank(j, 0), j.Codec)
	return err
}

// Part implements Mode.
func (m AGP) Part(r *Rank) (Part, error) {
	p, err := newPeer(r, r.job.Codec)
	if err != nil {
		return nil, err
	}
	n := &freePusher{peer: p, weight: 1, least: m.Least}
	p.pace.show = func(ctx context.Context, update int, last bool) error {
		return p.snapshot(ctx, n.model(), update, last)
	}
	p.pace.rest = n.rest
	p.aside = n.hear
	return &gossiper{peer: p, mover: n}, nil
}

// freePusher is an AGP worker.
type freePusher struct {
	*peer
	mu     sync.Mutex // guards x and weight, which two activities change
	weight float64
	least  float64
	heard  int   // messages taken in
	owed   []int // ranks that have not acknowledged the last message
}

func (n *freePusher) move(ctx context.Context) error {
	n.mu.Lock()
	z, heard := n.ratio(), n.heard
	n.mu.Unlock()
	err := n.gradient(ctx, z.f)
	z.release()
	if err != nil {
		return err
	}
	if err := n.rest(ctx); err != nil {
		return err
	}
	if err := n.billed(ctx); err != nil { // no time passes under the lock
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count(n.heard - heard)
	z = n.ratio()
	z.own()
	n.descend(z.f)
	f32.Scale(z.f, float32(n.weight))
	n.x.release()
	n.x = z
	mix := n.job.Graph.Mix(n.rank, n.job.Workers, n.step)
	if mix.Self*n.weight < n.least {
		return nil
	}
	if err := n.say(ctx, n.said(n.weight), n.x, mix.Out); err != nil {
		return err
	}
	for _, e := range mix.Out {
		n.owed = append(n.owed, e.Rank)
	}
	n.x.own()
	f32.Scale(n.x.f, float32(mix.Self))
	n.weight *= mix.Self
	return nil
}

// rest waits until what was sent has been taken in.
func (n *freePusher) rest(ctx context.Context) error {
	for _, r := range n.owed {
		if _, _, err := onReply.Hear(ctx, n.Rank, r); err != nil {
			return err
		}
	}
	n.owed = n.owed[:0]
	return nil
}

// hear takes in what another worker pushed, and acknowledges it.
func (n *freePusher) hear(ctx context.Context, f Mail[saidWord]) error {
	if err := elapse(ctx, n.h, n.codec.decoding(n.shard.whole)); err != nil {
		return err
	}
	if err := n.takeIn(f); err != nil {
		return err
	}
	return onReply.As(comm.Control).Send(ctx, n.Rank, f.From, saidWord{}, 0)
}

func (n *freePusher) takeIn(f Mail[saidWord]) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.job.Graph.Mix(f.From, n.job.Workers, f.Word.step).Out {
		if e.Rank == n.rank {
			n.x.own()
			n.heard++
			n.weight += e.Weight * f.Word.weight
			return n.add(n.x.f, float32(e.Weight), f.Frame)
		}
	}
	return fmt.Errorf("worker %d: worker %d sent parameters along an edge that is not there", n.rank, f.From)
}

// ratio is the model x/w.
func (n *freePusher) ratio() vector {
	z := n.x.share()
	if n.weight != 1 {
		z.own()
		f32.Scale(z.f, float32(1/n.weight))
	}
	return z
}

func (n *freePusher) model() vector {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ratio()
}

// Keep implements mover.
func (n *freePusher) Keep(k *Keeper) { k.Float(key(keyWeight, n.rank), &n.weight) }
