package gossip

import (
	"context"
	"fmt"
	"sync"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
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
// Nobody pushes to a worker that died: the share is kept. With elastic=on the graph is that
// of those who are there, as the worker that pushes knows it. What was on its way to it is
// lost with its weight, so that x/w stays a mean.
//
// With elastic=on workers come in, and leave by plan, and nobody waits for them. One that
// leaves pushes all of x and w to a neighbour: the sums of both over the others are what
// they were over all. One that comes begins with the model of a neighbour, or of another
// worker if it has none, as x at weight 1, and an optimizer that remembers nothing, where
// the slowest is. So arrivals bring the weight that deaths take: were it taken from
// the neighbour, less than Least would be left to push with. Columns stay stochastic.
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

var _ = train.Modes.Add("agp", "push-sum in which nobody waits: asynchronous gradient push", AGP{Least: 0.25})

// Validate checks the options.
func (m AGP) Validate() error {
	if !(m.Least > 0 && m.Least < 1) {
		return fmt.Errorf("option \"least\" is %v; want more than 0 and less than 1", m.Least)
	}
	return nil
}

// Traits implements Mode.
func (AGP) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: 1, Conduct: train.Free, Outlives: true, Admits: true, Models: j.Workers, Weightless: true, Steady: true, Codec: train.TakesCasts, Heeds: gossipHeeds, Refuses: gossipRefuses}
}

// Check implements Mode.
func (AGP) Check(j *train.Job) error {
	_, err := train.NewPeer(train.NewRank(j, 0), j.Codec)
	return err
}

// Part implements Mode.
func (m AGP) Part(r *train.Rank) (train.Part, error) {
	p, err := train.NewPeer(r, r.Job().Codec)
	if err != nil {
		return nil, err
	}
	n := &freePusher{Peer: p, weight: 1, least: m.Least}
	return p.Part(n), nil
}

// freePusher is an AGP worker.
type freePusher struct {
	*train.Peer
	mu     sync.Mutex // guards x and weight, which two activities change
	weight float64
	least  float64
	heard  int   // messages taken in
	owed   []int // ranks that have not acknowledged the last message
}

func (n *freePusher) Move(ctx context.Context) error {
	n.mu.Lock()
	z, heard := n.ratio(), n.heard
	n.mu.Unlock()
	err := n.Gradient(ctx, z.F())
	z.Release()
	if err != nil {
		return err
	}
	if err := n.Rest(ctx); err != nil {
		return err
	}
	if err := n.Billed(ctx); err != nil { // no time passes under the lock
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Late(n.heard - heard)
	z = n.ratio()
	z.Own()
	n.Descend(z.F())
	f32.Scale(z.F(), float32(n.weight))
	n.X.Release()
	n.X = z
	mix := n.Edges(n.Step())
	if mix.Self*n.weight < n.least {
		return nil
	}
	if err := n.TellNow(ctx, n.weight, n.X, mix.Out); err != nil {
		return err
	}
	mix = mix.Without(n.IsLost) // it keeps the shares of those that are dead
	for _, e := range mix.Out {
		n.owed = append(n.owed, e.Rank)
	}
	n.X.Own()
	f32.Scale(n.X.F(), float32(mix.Self))
	n.weight *= mix.Self
	return nil
}

// Rest waits until what was sent has been taken in.
func (n *freePusher) Rest(ctx context.Context) error {
	err := n.Replies(ctx, n.owed, func(message.Mail[train.Said]) error { return nil })
	n.owed = n.owed[:0]
	return err
}

// Leave implements train.Guest: it pushes all that the worker has, and waits until that has
// been taken in.
func (n *freePusher) Leave(ctx context.Context, to int) (ok bool, err error) {
	if err := n.Billed(ctx); err != nil {
		return false, err
	}
	n.mu.Lock()
	f, err := n.Encode(train.OnPeer, train.Said{Step: n.Step(), Weight: n.weight}, n.X)
	n.mu.Unlock()
	if err != nil {
		return false, err
	}
	f.Header.Flags |= train.FlagDone
	if err = n.Lost(n.Send(ctx, to, f)); err == nil {
		err = n.Replies(ctx, []int{to}, func(message.Mail[train.Said]) error {
			ok = true
			return nil
		})
	}
	return ok, err
}

// Come implements train.Guest.
func (n *freePusher) Come(x wire.Vector) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.X.Release()
	n.X, n.weight = x, 1
}

// Answer takes in what another worker pushed, and acknowledges it.
func (n *freePusher) Answer(ctx context.Context, f message.Mail[train.Said]) error {
	if err := n.Elapse(ctx, n.Decoding()); err != nil {
		return err
	}
	if err := n.takeIn(f); err != nil {
		return err
	}
	return n.Lost(train.OnReply.As(comm.Control).Send(ctx, n.Rank, f.From, train.Said{}, 0))
}

func (n *freePusher) takeIn(f message.Mail[train.Said]) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	add := func(share float64) error {
		n.X.Own()
		n.heard++
		n.weight += float64(share * f.Word.Weight)
		return n.AddAside(n.X.F(), float32(share), f.Frame)
	}
	switch {
	case f.Flags&train.FlagDone != 0: // of one that leaves
		return add(1)
	case f.Word.Share > 0:
		return add(f.Word.Share)
	}
	for _, e := range n.Job().Graph.Mix(f.From, n.Job().Workers, f.Word.Step).Out {
		if e.Rank == n.ID() {
			return add(e.Weight)
		}
	}
	return fmt.Errorf("worker %d: worker %d sent parameters along an edge that is not there", n.ID(), f.From)
}

// ratio is the model x/w.
func (n *freePusher) ratio() wire.Vector {
	z := n.X.Share()
	if n.weight != 1 {
		z.Own()
		f32.Scale(z.F(), float32(1/n.weight))
	}
	return z
}

func (n *freePusher) Model() wire.Vector {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ratio()
}

// Keep implements train.Mover.
func (n *freePusher) Keep(k *checkpoint.Keeper) {
	k.Float(checkpoint.Key(keyWeight, n.ID()), &n.weight)
}
