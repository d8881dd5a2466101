package mean

import (
	"context"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// Reduce is synchronous training without servers: gradients are summed by the
// workers themselves, and every worker applies the same update, so no
// parameters travel. Codecs whose payloads add are summed over the topology;
// others are all-gathered and decoded in rank order.
//
// Rule: w ← w − rate·direction(mean of the codec's sums), on every rank.
//
// Paper: none of its own; the topologies have theirs.
//
// Tuning: overlap=buckets of some MB; topology auto until measured
// otherwise.
//
// Cost: 2·n·(P−1)/P elements a rank with raw and a ring; every step waits for
// the slowest rank.
type Reduce struct{}

// Gather is Reduce with the all-gather road forced for every codec.
//
// Rule: w ← w − rate·direction(mean of the decoded payloads), on every rank.
//
// Paper: none.
//
// Tuning: for comparison with reduce; codecs that sum are better off there.
//
// Cost: a payload from every rank to every rank: bytes grow with the ranks.
type Gather struct{}

var (
	_ = train.Modes.Add("reduce", "all-reduce over a topology, no servers", Reduce{})
	_ = train.Modes.Add("gather", "all-gather of payloads, no servers", Gather{})
)

// Traits implements Mode.
func (Reduce) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: j.Workers, Sums: true, Timeless: true, Elastic: !j.Plan().First, Weightless: true, Steady: true, Codec: train.TakesAll, Heeds: reduceHeeds}
}

// Traits implements Mode.
func (Gather) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: j.Workers, Sums: true, Gathers: true, Timeless: true, Elastic: !j.Plan().First, Weightless: true, Steady: true, Codec: train.TakesAll, Heeds: gatherHeeds}
}

var (
	reduceHeeds = []string{"topology", "overlap"}
	gatherHeeds = reduceHeeds[1:]
)

// Check implements Mode.
func (Reduce) Check(j *train.Job) error { _, err := newReducer(train.NewRank(j, 0), false); return err }
func (Gather) Check(j *train.Job) error { _, err := newReducer(train.NewRank(j, 0), true); return err }

// Part implements Mode.
func (Reduce) Part(r *train.Rank) (train.Part, error) { return newReducer(r, false) }
func (Gather) Part(r *train.Rank) (train.Part, error) { return newReducer(r, true) }

// reducer is one rank.
type reducer struct {
	inStep
	how     planTraits
	pass    train.Pass      // of a round whose exchange comes behind it
	work    comm.Work       // of a round
	batch   int             // samples of each worker in the update that is being made
	lengths compute.Lengths // of the mean gradient of it
	late    lateUpdate
}

func newReducer(of *train.Rank, gather bool) (*reducer, error) {
	j := of.Job()
	m, err := newMean(of, gather, planned(j))
	if err != nil {
		return nil, err
	}
	r := &reducer{how: m.plan.traits()}
	if r.inStep, err = newInStep(of, m); err != nil {
		return nil, err
	}
	if r.how.late && !j.Weightless && r.common.opt.Local == nil {
		return nil, fmt.Errorf("optimizer %s needs the whole gradient before any of it is applied; use overlap=buckets, or clipvalue in place of clip", sgd.Optimizers.Spec(j.Optimizer))
	}
	return r, nil
}

// Beside says whether an activity beside the one that computes exchanges.
func (r *reducer) Beside() bool { return r.how.beside }

// Run implements Part.
func (r *reducer) Run(ctx context.Context) error {
	r.prepare(ctx)
	if _, err := r.CatchUp(ctx); err != nil {
		return err
	}
	r.mean.start(r.grad)
	for !r.stopped && r.Step() < r.Job().Updates {
		if err := r.Boundary(r); err != nil {
			return err
		}
		flags, err := r.round(ctx)
		if err != nil {
			return err
		}
		if err := r.made(ctx, flags); err != nil {
			return err
		}
	}
	if err := r.mean.close(ctx); err != nil {
		return err
	}
	return r.snapshot(ctx, true)
}

// made does what is due after a step.
func (r *reducer) made(ctx context.Context, flags message.Flags) error {
	over := r.Step() == r.Job().Updates
	r.stopped = flags&train.FlagStop != 0 && !over
	every := r.Job().CheckpointEvery
	mark := r.stopped || (flags&train.FlagKeep != 0 || every > 0 && r.Step()%every == 0) && !over
	if mark || over || r.ID() == 0 && train.Crossed(r.Job().EvalEvery, r.told, r.Step()) {
		if err := r.settle(ctx, 0); err != nil {
			return err
		}
	}
	if !r.how.late { // else who comes to the first bucket has made the update, and reports
		if err := r.report(ctx, r.Host().Now()); err != nil {
			return err
		}
	}
	if !mark {
		return nil
	}
	return r.SaveInStep(ctx, r)
}

// prepare makes the work of a round.
func (r *reducer) prepare(ctx context.Context) {
	r.pass = train.Pass{On: r.on, Then: func() error { return r.mean.encode(0) }, Coding: r.coding()}
	if joint := newNorms(r.Rank); joint != nil {
		r.pass.Meet = joint.sum
	}
	r.work = comm.Work{Cost: make([]time.Duration, r.mean.Buckets())}
	r.work.Run = func(at func(int) error) error { return r.overlapped(ctx, at) }
	r.work.Then = func(mark int) error { return r.mean.plan.made(ctx, r.mean, mark) }
}

// coding is what encoding a gradient takes.
func (r *reducer) coding() time.Duration { return r.mean.tariff.Encode(0, len(r.mean.shard.Pieces)) }

// round makes one step: gradient, exchange, update.
func (r *reducer) round(ctx context.Context) (message.Flags, error) {
	tl := r.Job().Timeline(r.ID(), r.Step())
	ask, err := r.Asks(ctx, r.Step(), r.Step()+1)
	if err != nil {
		return 0, err
	}
	if err := r.mean.open(ctx, ask); err != nil {
		return 0, err
	}
	if r.how.late {
		return r.roundLate(ctx, tl)
	}
	if r.how.beside {
		r.backward(tl)
		r.work.Cost[0] += tl.Forward
		err = r.overlap(ctx)
	} else {
		err = r.Compute(ctx, r.pass)
		r.batch = r.Job().BatchAt(r.Step())
	}
	if err != nil {
		return 0, err
	}
	flags, err := r.mean.awaitAll(ctx)
	if err != nil {
		return 0, err
	}
	r.update()
	return flags, r.Made(ctx)
}

// overlap makes the gradient while exchanges go on.
func (r *reducer) overlap(ctx context.Context) error {
	began := r.Times().Read()
	if err := r.Host().Do(ctx, r.work); err != nil {
		return err
	}
	r.batch = r.Job().BatchAt(r.Step())
	r.Times().Price(r.coding())
	r.Times().Computed(began)
	return nil
}

// overlapped lets every bucket leave as soon as the backward pass has made it:
// tokens to the own rank wake the exchange activity.
func (r *reducer) overlapped(ctx context.Context, at func(int) error) error {
	if r.Job().Weightless {
		for i := range r.mean.buckets {
			if err := at(i); err != nil {
				return err
			}
		}
		return nil
	}
	need := r.needs(ctx)
	back, mark := compute.NewDescent(len(r.Job().Model.Layout().Spans)), 0
	return r.MakePass(ctx, train.Pass{
		On: func() (params, grad []float32, err error) {
			if need != nil {
				if err := need(0); err != nil {
					return nil, nil, err
				}
			}
			return r.on()
		},
		Need: need,
		Ready: func(span int) error {
			back.Pass(span)
			for ; mark < len(r.mean.buckets) && r.mean.shard.Pieces[r.mean.buckets[mark].lo].Span >= back.Left; mark++ {
				if err := r.mean.encode(mark); err != nil {
					return err
				}
				if err := at(mark); err != nil {
					return err
				}
			}
			return nil
		},
	})
}

// backward fills in the virtual time of the backward pass up to each mark.
func (r *reducer) backward(tl train.Timeline) {
	for i := range r.mean.buckets {
		b := &r.mean.buckets[i]
		r.work.Cost[i] = time.Duration(2*r.share(b, tl)*float64(tl.Forward)) + r.mean.tariff.Encode(b.lo, b.hi)
	}
	r.work.Cost[0] += tl.Between
}

// share is a bucket's share of a pass. That of a tensor belongs to its last piece:
// the backward pass makes all pieces at once, and the last one leaves first; the
// forward pass needs all of them, and the last one comes last.
func (r *reducer) share(b *bucket, tl train.Timeline) (share float64) {
	for i := b.lo; i < b.hi; i++ {
		if r.mean.shard.Ends(i) {
			share += tl.Shares[r.mean.shard.Pieces[i].Span]
		}
	}
	return share
}

// on gives the parameters of the present step and where its gradient goes.
func (r *reducer) on() (params, grad []float32, err error) { return r.common.params.F(), r.grad, nil }

// update applies the mean gradient.
func (r *reducer) update() {
	if r.Job().Weightless {
		return
	}
	for i := range r.mean.buckets {
		r.noted(&r.mean.buckets[i])
	}
	r.notedAll()
	r.common.update(r.grad, r.present())
}

// present is the update of the present step.
func (r *reducer) present() sgd.Step {
	p := r.Job().ProgressAt(r.Step(), r.Step()*r.Job().Workers)
	return sgd.Step{N: r.Step(), Epoch: p.Epoch, LR: r.sched(p), Seed: r.Job().Seed}
}

// Keep keeps what this rank must keep over a restart; what is the same on all ranks
// is kept by the first.
func (r *reducer) Keep(k *checkpoint.Keeper) {
	r.keepShared(k, r.Step())
	if k.Loads() {
		r.StartAt(r.versionIn(k))
		r.told = r.Step()
		r.common.keep(k, r.Step())
	}
	r.keepOwn(k)
}
