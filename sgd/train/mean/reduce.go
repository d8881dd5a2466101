package mean

import (
	"context"
	"fmt"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
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
// Tuning: overlap=true with buckets of some MB; topology auto until measured
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
	return train.Traits{PerUpdate: j.Workers, Sums: true, Timeless: true, Elastic: !j.Priority, Weightless: true, Steady: true, Codec: train.TakesAll, Heeds: reduceHeeds}
}

// Traits implements Mode.
func (Gather) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: j.Workers, Sums: true, Gathers: true, Timeless: true, Elastic: !j.Priority, Weightless: true, Steady: true, Codec: train.TakesAll, Heeds: gatherHeeds}
}

var (
	reduceHeeds = []string{"topology", "overlap", "bucket", "cycle", "priority", "partition"}
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
	*train.Rank
	shard    *wire.Shard
	common   *common
	grad     []float32 // of this rank, then the mean
	sched    lrschedule.Schedule
	all      bool                // mode gather: nothing is summed on the way
	counts   map[[2]int][2]int   // by bucket: bytes under codecs raw and bf16
	steps    int                 // that an exchange stands for; 0: one
	content  content             // what is exchanged
	ex       []compress.Exchange // otherwise, by piece
	gathered []bool              // by piece: everybody decodes everybody's payload
	tariff   *wire.Tariff        // of the exchanges
	size     []int               // exact payload length on the gather road, −1 if it varies
	notes    []*wire.Series      // by piece: what an exchange asks for that nobody knows before; nil: nowhere
	group    collective.Group

	buckets []bucket      // in the order the backward pass completes them
	ops     []compress.Op // of all pieces
	course  course        // of a step
	told    int           // the step of the last report
	stopped bool
	prog    train.Meter
	mean    compute.Lengths // of the mean gradient of the update that is being made
	batch   int             // samples of each worker in it
	pass    train.Pass      // of a round whose exchange comes behind it
	net     comm.Endpoint   // h, for collectives
	work    comm.Work       // of a round
	ask     message.Flags   // what this rank asks of all in the present round
}

func newReducer(of *train.Rank, gather bool) (*reducer, error) {
	j, rank := of.Job(), of.ID()
	l := j.Model.Layout()
	r := &reducer{Rank: of, shard: exchanged(j), all: gather, counts: map[[2]int][2]int{}}
	r.group.Me, r.group.Node = rank, j.Node
	for i := 0; i < j.Workers; i++ {
		r.group.Ranks = append(r.group.Ranks, i)
	}
	var err error
	if r.sched, err = j.Rates(); err != nil {
		return nil, err
	}
	r.gathered = make([]bool, len(r.shard.Pieces))
	plain := !gather && wire.SumsPlain(j.Codec)
	r.course = r.chosen()
	r.cut()
	if j.Weightless {
		if r.content, err = newSizes(r); err != nil {
			return nil, err
		}
		r.tariff = j.ExchangeTariff(r.shard, r.gathered, plain)
		return r, nil
	}
	r.grad = make([]float32, l.Size())
	if r.common, err = train.Lasting(j, commonKey{}, newCommon); err != nil {
		return nil, err
	}
	if j.Priority && r.common.opt.Local == nil {
		return nil, fmt.Errorf("optimizer %s needs the whole gradient before any of it is applied; use priority=false, or clipvalue in place of clip", sgd.Optimizers.Spec(j.Optimizer))
	}
	if plain {
		r.content = rawSums{r}
		return r, nil
	}
	r.content = coded{r}
	for _, pc := range r.shard.Pieces {
		f := pc.Family(j.Codec)
		b := pc.Block
		b.Rank, b.World, b.Peer, b.Seed = rank, j.Workers, -1, j.Seed
		var ex compress.Exchange
		road := compress.RoadGather
		if gather {
			ex, err = compress.NewGather(f, b)
		} else {
			ex, road, err = compress.NewExchange(f, b)
		}
		if err != nil {
			return nil, fmt.Errorf("codec %s on %s: %w", compress.Families.Spec(f), b.Name, err)
		}
		size := -1
		if c, ok := compress.ClaimsOf(f, b); ok && c.Exact && road != compress.RoadOwn {
			size = c.Size
		}
		var note *wire.Series
		if !wire.Fixed(f, b, road) {
			note = j.Sizes.Of(fmt.Sprintf("%d/%s", rank, b.Name))
		}
		r.notes = append(r.notes, note)
		r.gathered[len(r.ex)] = gather || road == compress.RoadGather
		r.ex, r.size = append(r.ex, ex), append(r.size, size)
	}
	r.tariff = j.ExchangeTariff(r.shard, r.gathered, false)
	return r, nil
}

func (r *reducer) Beside() bool { return r.Job().Overlap }

// Run implements Part.
func (r *reducer) Run(ctx context.Context) error {
	r.net = streaming{r.Host(), comm.Streaming(r.Host())}
	r.plan(ctx)
	if _, err := r.CatchUp(ctx); err != nil {
		return err
	}
	r.course.start()
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
	if r.Job().Overlap { // let the activity end
		if err := onMade.Wake(ctx, r.Rank, bucketWord{}, train.FlagDone); err != nil {
			return err
		}
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
		if err := r.course.settle(ctx); err != nil {
			return err
		}
	}
	if err := r.course.report(ctx); err != nil {
		return err
	}
	if !mark {
		return nil
	}
	return r.SaveInStep(ctx, r)
}

// plan makes the work of a round.
func (r *reducer) plan(ctx context.Context) {
	r.pass = train.Pass{On: r.on, Then: func() error { return r.content.begin(0) }}
	if joint := newNorms(r.Rank); joint != nil {
		r.pass.Meet = joint.sum
	}
	r.work = comm.Work{Cost: make([]time.Duration, len(r.buckets))}
	r.work.Run = func(at func(int) error) error { return r.overlapped(ctx, at) }
	r.work.Then = func(mark int) error { return r.course.made(ctx, mark) }
}

// round makes one step: gradient, exchange, update.
func (r *reducer) round(ctx context.Context) (flags message.Flags, err error) {
	tl := r.Job().Timeline(r.ID(), r.Step())
	if r.ask, err = r.Asks(r.Step(), r.Step()+1); err != nil {
		return 0, err
	}
	return r.course.round(ctx, tl, r.tariff.Encode(0, len(r.shard.Pieces)))
}

// overlap makes the gradient while exchanges go on, on which encoding takes so long.
func (r *reducer) overlap(ctx context.Context, coding time.Duration) error {
	began := r.Times().Read()
	if err := r.Host().Do(ctx, r.work); err != nil {
		return err
	}
	r.batch = r.Job().BatchAt(r.Step())
	r.Times().Price(coding)
	r.Times().Computed(began)
	return nil
}

// overlapped lets every bucket leave as soon as the backward pass has made it:
// tokens to the own rank wake the exchange activity.
func (r *reducer) overlapped(ctx context.Context, at func(int) error) error {
	if r.Job().Weightless {
		for i := range r.buckets {
			if err := at(i); err != nil {
				return err
			}
		}
		return nil
	}
	need := r.course.needs(ctx)
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
			for ; mark < len(r.buckets) && r.shard.Pieces[r.buckets[mark].lo].Span >= back.Left; mark++ {
				if err := r.content.begin(mark); err != nil {
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
	for i := range r.buckets {
		b := &r.buckets[i]
		r.work.Cost[i] = time.Duration(2*r.share(b, tl)*float64(tl.Forward)) + r.tariff.Encode(b.lo, b.hi)
	}
	r.work.Cost[0] += tl.Between
}

// share is a bucket's share of a pass. That of a tensor belongs to its last piece:
// the backward pass makes all pieces at once, and the last one leaves first; the
// forward pass needs all of them, and the last one comes last.
func (r *reducer) share(b *bucket, tl train.Timeline) (share float64) {
	for i := b.lo; i < b.hi; i++ {
		if r.shard.Ends(i) {
			share += tl.Shares[r.shard.Pieces[i].Span]
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
	for i := range r.buckets {
		r.noted(&r.buckets[i])
	}
	r.notedAll()
	r.common.update(r.grad, r.present())
}

// present is the update of the present step.
func (r *reducer) present() sgd.Step {
	p := r.Job().ProgressAt(r.Step(), r.Step()*r.Job().Workers)
	return sgd.Step{N: r.Step(), Epoch: p.Epoch, LR: r.sched(p), Seed: r.Job().Seed}
}

// exchanged is the whole vector in the pieces that ranks without servers exchange.
func exchanged(j *train.Job) *wire.Shard {
	return wire.Shards(j.Model.Layout(), j.Cuts())[0]
}
