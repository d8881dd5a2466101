package replicas

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/wire"
	"github.com/gradlab/gradlab/staleness"
)

// Downpour is Downpour SGD (Dean et al. 2012, §4.1): shards that never talk to
// each other, and replicas with three activities that go on side by side. The
// main one computes gradients on its own copy of the parameters, applies them
// there too, and adds them up. Every n_push steps the push activity takes the
// sum to the shards, every n_fetch steps the fetch activity brings fresh
// parameters. The sums are applied by whatever optimizer the job has, inside
// each shard: adagrad is the published choice.
//
// Rule: local steps on a copy; their sum pushed every n_push steps, parameters
// fetched every n_fetch.
//
// Tuning: adagrad in the shards; a warm start; n_push and n_fetch as large as
// learning allows.
//
// Cost: 1/n_push of the gradients up, 1/n_fetch of the parameters down; a copy
// of the parameters a worker.
//
// With overlap a replica goes on computing while it fetches and takes up the
// new parameters at its next fetch point, as published; without, it waits for
// them. Either way it has at most one push and one fetch under way. Warm start:
// only worker 0 trains until the shards have made warm_start updates.
//
// A replica leaves a run behind a push, so that no gradient is lost.
type Downpour struct {
	NFetch    int `spec:"n_fetch" doc:"steps between fetches"`
	NPush     int `spec:"n_push" doc:"steps between pushes"`
	WarmStart int `doc:"updates that worker 0 makes alone"`
}

var _ = train.Modes.Add("downpour", "Downpour SGD: replicas fetch, compute and push side by side (Dean et al. 2012)", Downpour{NFetch: 1, NPush: 1})

// Validate checks the options.
func (m Downpour) Validate() error {
	switch {
	case m.NFetch < 1:
		return fmt.Errorf("option \"n_fetch\" is %d; want at least 1", m.NFetch)
	case m.NPush < 1:
		return fmt.Errorf("option \"n_push\" is %d; want at least 1", m.NPush)
	case m.WarmStart < 0:
		return fmt.Errorf("option \"warm_start\" is %d; want at least 0", m.WarmStart)
	}
	return nil
}

// Traits implements train.Mode: a push carries NPush gradients, and a replica that warms up
// alone makes updates unlike those that come after.
func (m Downpour) Traits(j *train.Job) train.Traits {
	push, together := max(1, m.NPush), j.PolicyTraits().Synchronous
	return train.Traits{Servers: max(1, j.Servers), PerUpdate: j.PolicyTraits().PerUpdate * push, PerPush: push, Acked: true,
		Outlives: !together, Admits: !together, Weightless: true, Steady: m.WarmStart == 0,
		Codec: train.TakesAll, Down: train.TakesCasts, Heeds: downpourHeeds, Refuses: downpourRefuses, Try: "policy=asp"}
}

var (
	downpourHeeds   = []string{"servers", "placement", "policy", "corrector", "down_codec", "overlap"}
	downpourRefuses = map[string]string{"down_codec": "replicas change their own copy between fetches"}
)

// Check implements train.Mode.
func (m Downpour) Check(j *train.Job) error {
	if err := m.Validate(); err != nil {
		return err
	}
	switch {
	case j.PolicyTraits().Voids:
		return fmt.Errorf("policy %s cancels gradients that are being computed, which replicas of mode downpour have applied to their own parameters already; use mode server", staleness.Policies.Spec(j.Policy))
	case j.PolicyTraits().Waits:
		return fmt.Errorf("replicas of mode downpour never wait for others, as they may with policy %s; use asp, bounded, softsync, kbatchasync or adasync(of=kbatchasync), or mode server", staleness.Policies.Spec(j.Policy))
	case j.Corrector != nil && j.Corrector.Traits().AtWorker:
		return fmt.Errorf("corrector %s changes what a worker pushes, which in mode downpour is a sum of gradients; use mode server", staleness.Correctors.Spec(j.Corrector))
	case j.CheckpointEvery%m.NPush != 0 || j.CheckpointEvery%m.NFetch != 0:
		return fmt.Errorf("checkpoint_every is %d, want a multiple of n_fetch and n_push", j.CheckpointEvery)
	}
	if _, err := train.Serve(train.NewRank(j, j.Workers), train.Rule{}); err != nil {
		return err
	}
	_, err := newReplica(train.NewRank(j, 0), m)
	return err
}

// Part implements train.Mode.
func (m Downpour) Part(r *train.Rank) (train.Part, error) {
	if r.ID() >= r.Job().Workers {
		return train.Serve(r, train.Rule{})
	}
	return newReplica(r, m)
}

// replica is a Downpour worker.
type replica struct {
	*train.Links
	mode   Downpour
	pass   train.Pass
	rate   func() float64
	sum    wire.Vector // gradients since the last push; empty after one
	losses float64     // of the same steps

	trainable, buffers []sgd.Range
}

func newReplica(r *train.Rank, m Downpour) (*replica, error) {
	l, err := train.NewLinks(r)
	if err != nil {
		return nil, err
	}
	p := &replica{Links: l, mode: m, pass: l.Pass()}
	p.pass.Then = p.descend
	layout, buffer := r.Job().Model.Layout(), func(s sgd.Span) bool { return s.Role == sgd.Buffer }
	p.trainable, p.buffers = layout.Ranges(func(s sgd.Span) bool { return !buffer(s) }), layout.Ranges(buffer)
	p.rate, err = r.Rate()
	return p, err
}

// Run implements train.Part.
func (r *replica) Run(ctx context.Context) error {
	if err := r.Resume(ctx); err != nil {
		return err
	}
	r.StartBeside()
	if err := r.train(ctx); err != nil {
		return err
	}
	if err := r.EndBeside(ctx); err != nil {
		return err
	}
	return r.Bye(ctx)
}

// train is the compute activity.
func (r *replica) train(ctx context.Context) error {
	least := 0 // version that the first fetch waits for
	if r.ID() != 0 {
		least = r.mode.WarmStart
	}
	again := true // the first fetch, and the one after a mark, is waited for
	for {
		if err := r.turn(ctx, &again); err != nil {
			return err
		}
		if !r.Over() && (again || r.Step()%r.mode.NFetch == 0) { // a stop comes at any step
			if err := r.fetch(ctx, least, again); err != nil {
				return err
			}
			if !r.Over() {
				again, least = false, 0
			}
		}
		if !r.Over() {
			if err := r.gradient(ctx); err != nil {
				return err
			}
		}
		if mark := r.atMark() || r.Asked(); !r.Over() && !mark {
			continue
		}
		if err := r.settle(ctx); err != nil || r.Ended() {
			return err
		}
		if err := r.Checkpoint(ctx, r); err != nil || r.Over() {
			return err
		}
		again = true
	}
}

// turn is the replica's turn to leave and come, where all that it made is pushed. One that
// comes fetches once more: it may have to wait until another has warmed up.
func (r *replica) turn(ctx context.Context, again *bool) error {
	if r.Step()%r.mode.NPush != 0 {
		return nil
	}
	anew, err := r.Turn(ctx)
	if anew {
		r.sum.Release()
		r.losses, *again = 0, true
	}
	return err
}

// fetch takes up what was fetched since the last fetch point and begins a fetch. That
// one is waited for, too, if the replica must or nothing overlaps.
func (r *replica) fetch(ctx context.Context, least int, must bool) error {
	if err := r.Fetched(ctx); err != nil || r.Over() {
		return err
	}
	if err := r.FetchBeside(ctx, uint64(least)); err != nil {
		return err
	}
	if must || !r.Job().Plan().Beside {
		return r.Fetched(ctx)
	}
	return nil
}

// atMark says whether a checkpoint is due. The replica that warms up counts its
// marks from the end of the warm start: the others wait for it until then.
func (r *replica) atMark() bool {
	every, steps := r.Job().CheckpointEvery, r.Step()
	if r.ID() == 0 && r.mode.WarmStart > 0 {
		grid := r.mode.NFetch * r.mode.NPush
		alone := r.mode.WarmStart * r.Job().PerUpdate()
		steps -= (alone + grid - 1) / grid * grid
	}
	return every > 0 && steps > 0 && steps%every == 0
}

// settle waits for what is under way.
func (r *replica) settle(ctx context.Context) error {
	if err := r.Sent(ctx); err != nil {
		return err
	}
	return r.Fetched(ctx)
}

// gradient makes one gradient, puts it to use, and pushes the sum if that is due.
func (r *replica) gradient(ctx context.Context) error {
	if err := r.Compute(ctx, r.pass); err != nil {
		return err
	}
	r.losses += r.Loss()
	if err := r.Made(ctx); err != nil || r.Step()%r.mode.NPush != 0 {
		return err
	}
	return r.push(ctx)
}

// descend applies a gradient to the replica's own parameters, unless
// others take their place before they are read again, and adds it to the sum.
func (r *replica) descend() error {
	grad := r.Gradient()
	renewed := (r.Step()+1)%r.mode.NFetch == 0 && (r.Fetching() || !r.Job().Plan().Beside)
	if !renewed {
		params, rate := r.Write(), float32(r.rate())
		for _, t := range r.trainable {
			f32.Axpy(params[t.Lo:t.Hi], -rate, grad.F()[t.Lo:t.Hi])
		}
		for _, b := range r.buffers { // whose differences are applied at rate 1
			f32.Sub(params[b.Lo:b.Hi], grad.F()[b.Lo:b.Hi])
		}
	} else {
		r.Leave()
	}
	if r.sum.F() == nil {
		r.sum = grad
		return nil
	}
	f32.Add(r.sum.F(), grad.F())
	grad.Release()
	return nil
}

// push begins to push the sum, once the push before is taken.
func (r *replica) push(ctx context.Context) error {
	if err := r.Sent(ctx); err != nil {
		return err
	}
	if err := r.Encode(ctx, r.sum, train.Saying{Number: uint64(r.Step()), Loss: r.losses / float64(r.mode.NPush)}); err != nil {
		return err
	}
	r.losses = 0
	r.sum.Release()
	return r.SendBeside(ctx)
}

// Keep keeps what was added up since the last push, too: at a mark that is nothing,
// but a stop comes at any step.
func (r *replica) Keep(k *checkpoint.Keeper) {
	name := checkpoint.Key(keySum, r.ID())
	if k.Loads() && k.Has(name) {
		r.sum = wire.NewVector(r.Job().Model.Layout().Size())
	}
	if r.sum.F() != nil {
		k.Vector(name, r.sum.F())
		k.Float(checkpoint.Key(keyLosses, r.ID()), &r.losses)
	}
	r.Links.Keep(k)
}
