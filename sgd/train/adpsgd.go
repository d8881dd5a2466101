package train

import (
	"context"
	"sync"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/rng"
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
// An update of the run is a step of any worker. A worker's schedule goes by its
// own steps. Where a run reports staleness, it is how often others changed xᵢ while
// a gradient was made.
//
// Tuning: the rate as in synchronous training; pairs and ring keep messages few.
//
// Cost: parameters to and from one neighbour a step, hidden behind the gradient;
// a copy of the parameters a worker.
type ADPSGD struct{}

var _ = Modes.Add("adpsgd", "every worker averages with one neighbour at a time and waits for nobody: AD-PSGD", ADPSGD{})

// Traits implements Mode.
func (ADPSGD) Traits(j *Job) Traits {
	return Traits{PerUpdate: 1, Conduct: Free, Models: j.Workers, Steady: true, Codec: TakesCasts, Heeds: gossipHeeds, Refuses: gossipRefuses}
}

// Check implements Mode.
func (ADPSGD) Check(j *Job) error {
	if err := symmetric(j, "adpsgd"); err != nil {
		return err
	}
	_, err := newPeer(newRank(j, 0), j.Codec)
	return err
}

// Part implements Mode.
func (ADPSGD) Part(r *Rank) (Part, error) {
	p, err := newPeer(r, r.job.Codec)
	if err != nil {
		return nil, err
	}
	n := &pairer{peer: p, draws: rng.New(r.job.Seed, "partner").With(uint64(r.rank))}
	p.pace.show = func(ctx context.Context, update int, last bool) error {
		return p.snapshot(ctx, n.model(), update, last)
	}
	p.aside = n.answer
	return &gossiper{peer: p, mover: n}, nil
}

// pairer is an AD-PSGD worker.
type pairer struct {
	*peer
	draws rng.Key
	mu    sync.Mutex // guards x, which two activities change
	heard int        // averages that others asked for
}

// partner draws whom to average with.
func (n *pairer) partner() (collective.Edge, bool) {
	out := n.job.Graph.Mix(n.rank, n.job.Workers, n.step).Out
	if len(out) == 0 {
		return collective.Edge{}, false
	}
	return out[n.draws.IntN(uint64(n.step), len(out))], true
}

func (n *pairer) move(ctx context.Context) error {
	if err := n.billed(ctx); err != nil { // no time passes under the lock
		return err
	}
	n.mu.Lock()
	began := n.times.start()
	said, heard := n.x.share(), n.heard
	own, err := n.codec.frame(onPeer.Header(n.job, n.said(0), 0), n.shard.whole, said, true, compress.Step{N: n.step, Seed: n.job.Seed})
	n.times.encoded(began)
	n.mu.Unlock()
	defer said.release()
	if err != nil {
		return err
	}
	defer own.Release()
	to, ok := n.partner()
	if ok {
		own.Buffer().Retain()
		plainly(n.h, n.shard.whole)
		if err := n.h.Send(ctx, to.Rank, own); err != nil {
			return err
		}
	}
	if err := n.gradient(ctx, said.f); err != nil {
		return err
	}
	if !ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.x.own()
		n.descend(n.x.f)
		return nil
	}
	f, err := onReply.Recv(ctx, n.Rank, to.Rank)
	if err != nil {
		return err
	}
	defer f.Release()
	if err := n.times.decoding(ctx, 2*n.codec.decoding(n.shard.whole)); err != nil { // see halve
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count(n.heard - heard)
	n.x.own()
	began = n.times.start()
	err = n.halve(own, f.Frame)
	n.times.decoded(began)
	if err != nil {
		return err
	}
	n.descend(n.x.f)
	return nil
}

// halve moves x by half of the way from what one frame says to what another
// does, both as the codec left them.
func (n *pairer) halve(from, to comm.Frame) error {
	if err := n.add(n.x.f, 0.5, to); err != nil {
		return err
	}
	return n.add(n.x.f, -0.5, from)
}

// answer averages with the worker that sent f, and tells it what x was before.
func (n *pairer) answer(ctx context.Context, f Mail[saidWord]) error {
	if err := elapse(ctx, n.h, n.codec.encoding(n.shard.whole, true)+2*n.codec.decoding(n.shard.whole)); err != nil {
		return err
	}
	n.mu.Lock()
	back, err := n.codec.frame(onReply.Header(n.job, saidWord{step: f.Word.step}, 0), n.shard.whole, n.x, true, compress.Step{N: f.Word.step, Seed: n.job.Seed})
	if err == nil {
		n.x.own()
		n.heard++
		err = n.halve(back, f.Frame)
	}
	n.mu.Unlock()
	if err != nil {
		return err
	}
	plainly(n.h, n.shard.whole)
	return n.h.Send(ctx, f.From, back)
}

func (n *pairer) model() vector {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.x.share()
}

// Keep implements mover.
func (n *pairer) Keep(*Keeper) {}
