package gossip

import (
	"context"
	"sync"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// ADPSGD is asynchronous decentralised parallel SGD (Lian et al. 2018): a worker
// takes its gradient at what it holds, meanwhile averages with one neighbour
// drawn at random, and waits for nobody's gradient:
//
//	say xᵢ to a neighbour j, who answers with xⱼ and sets xⱼ ← xⱼ + (xᵢ − xⱼ)/2
//	g at xᵢ as said;   xᵢ ← xᵢ + (xⱼ − xᵢ as said)/2 − rate·direction(g)
//
// Both ends move by the same amount, so averaging conserves the sum whatever
// happens in between, and an activity of its own answers for j even while j
// computes. It never waits itself, so there is no deadlock, on any graph. The
// paper forbids half of the workers to ask for the same end, and calls for an
// atomic average, which this is as long as nobody asks i between its asking and
// its answer.
//
// A worker that died is a neighbour no more: the others go on, and average with those
// that are left. With elastic=on the graph is that of those who are there, as the worker
// that asks knows it. Then workers come in, and leave by plan, and nobody waits for
// them. One that comes begins with the model of a neighbour, or of another worker if it has
// none, and an optimizer that remembers nothing, where the slowest is. One that leaves asks
// a neighbour to average a last time. Weights stay doubly stochastic over those who are
// there: the sum of models is conserved while nobody comes, leaves or dies, and whoever
// comes or leaves changes no model but its own and that of the last neighbour.
//
// An update of the run is a step of any worker. A worker's schedule goes by its
// own steps. Where a run reports staleness, it is how often others changed xᵢ while
// a gradient was made.
//
// Tuning: the rate as in synchronous training; pairs and ring keep messages few.
//
// Cost: parameters to and from one neighbour a step, hidden behind the gradient;
// a copy of the parameters a worker.
type ADPSGD struct{}

var _ = train.Modes.Add("adpsgd", "every worker averages with one neighbour at a time and waits for nobody: AD-PSGD", ADPSGD{})

// Traits implements Mode.
func (ADPSGD) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: 1, Conduct: train.Free, Outlives: true, Admits: true, Models: j.Workers, Weightless: true, Steady: true, Codec: train.TakesCasts, Heeds: gossipHeeds, Refuses: gossipRefuses}
}

// Check implements Mode.
func (ADPSGD) Check(j *train.Job) error {
	if err := symmetric(j, "adpsgd"); err != nil {
		return err
	}
	_, err := train.NewPeer(train.NewRank(j, 0), j.Codec)
	return err
}

// Part implements Mode.
func (ADPSGD) Part(r *train.Rank) (train.Part, error) {
	p, err := train.NewPeer(r, r.Job().Codec)
	if err != nil {
		return nil, err
	}
	n := &pairer{Peer: p, draws: rng.New(r.Job().Seed, "partner").With(uint64(r.ID()))}
	return p.Part(n), nil
}

// pairer is an AD-PSGD worker.
type pairer struct {
	*train.Peer
	draws rng.Key
	mu    sync.Mutex // guards x, which two activities change
	heard int        // averages that others asked for
}

// partner draws whom to average with.
func (n *pairer) partner() (collective.Edge, bool) {
	out := n.Edges(n.Step()).Out
	if len(out) == 0 {
		return collective.Edge{}, false
	}
	return out[n.draws.IntN(uint64(n.Step()), len(out))], true
}

// Move implements train.Mover.
func (n *pairer) Move(ctx context.Context) error {
	if err := n.Billed(ctx); err != nil { // no time passes under the lock
		return err
	}
	n.mu.Lock()
	said, heard := n.X.Share(), n.heard
	own, err := n.Encode(train.OnPeer, train.Said{Step: n.Step()}, said)
	n.mu.Unlock()
	defer said.Release()
	if err != nil {
		return err
	}
	defer own.Release()
	to, ok := n.partner()
	if ok {
		if err := n.Lost(n.Send(ctx, to.Rank, own.Share())); err != nil {
			return err
		}
		ok = !n.IsLost(to.Rank)
	}
	if err := n.Gradient(ctx, said.F()); err != nil {
		return err
	}
	if !ok {
		n.alone(heard)
		return nil
	}
	ok = false
	err = n.Replies(ctx, []int{to.Rank}, func(f message.Mail[train.Said]) error {
		ok = true
		if err := n.Decoded(ctx, 2); err != nil { // see halve
			return err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.Late(n.heard - heard)
		n.X.Own()
		if err := n.halve(n.Add, own, f.Frame); err != nil {
			return err
		}
		n.Descend(n.X.F())
		return nil
	})
	if err == nil && !ok { // a neighbour that died is not heard; the gradient stands
		n.alone(heard)
	}
	return err
}

// alone makes a step without a neighbour, in which others changed x.
func (n *pairer) alone(before int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Late(n.heard - before)
	n.X.Own()
	n.Descend(n.X.F())
}

// halve moves x by half of the way from what one frame says to what another
// does, both as the codec left them.
func (n *pairer) halve(add func(v []float32, weight float32, f comm.Frame) error, from, to comm.Frame) error {
	if err := add(n.X.F(), 0.5, to); err != nil {
		return err
	}
	return add(n.X.F(), -0.5, from)
}

// Answer averages with the worker that sent f, and tells it what x was before.
func (n *pairer) Answer(ctx context.Context, f message.Mail[train.Said]) error {
	if err := n.Elapse(ctx, n.Encoding()+2*n.Decoding()); err != nil {
		return err
	}
	n.mu.Lock()
	back, err := n.EncodeAside(train.OnReply, train.Said{Step: f.Word.Step}, n.X)
	if err == nil {
		n.X.Own()
		n.heard++
		err = n.halve(n.AddAside, back, f.Frame)
	}
	n.mu.Unlock()
	if err != nil {
		return err
	}
	return n.Lost(n.Send(ctx, f.From, back))
}

// Leave implements train.Guest: who leaves does not take in what it is answered.
func (n *pairer) Leave(ctx context.Context, to int) (ok bool, err error) {
	if err := n.Billed(ctx); err != nil {
		return false, err
	}
	n.mu.Lock()
	f, err := n.Encode(train.OnPeer, train.Said{Step: n.Step()}, n.X)
	n.mu.Unlock()
	if err == nil {
		err = n.Lost(n.Send(ctx, to, f))
	}
	if err == nil {
		err = n.Replies(ctx, []int{to}, func(message.Mail[train.Said]) error {
			ok = true
			return nil
		})
	}
	return ok, err
}

// Come implements train.Guest.
func (n *pairer) Come(x wire.Vector) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.X.Release()
	n.X = x
}

func (n *pairer) Model() wire.Vector {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.X.Share()
}

// Keep implements train.Mover.
func (n *pairer) Keep(*checkpoint.Keeper) {}
