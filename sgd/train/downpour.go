package train

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
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
type Downpour struct {
	NFetch    int `spec:"n_fetch" doc:"steps between fetches"`
	NPush     int `spec:"n_push" doc:"steps between pushes"`
	WarmStart int `doc:"updates that worker 0 makes alone"`
}

var _ = Modes.Add("downpour", "Downpour SGD: replicas fetch, compute and push side by side (Dean et al. 2012)", Downpour{NFetch: 1, NPush: 1})

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

// Traits implements Mode: a push carries NPush gradients, and a replica that warms up
// alone makes updates unlike those that come after.
func (m Downpour) Traits(j *Job) Traits {
	push, together := max(1, m.NPush), j.synchronous()
	return Traits{Servers: j.served(), PerUpdate: j.policy().PerUpdate * push, PerPush: push, Acked: true,
		Outlives: !together, Steady: m.WarmStart == 0,
		Codec: TakesAll, Down: TakesCasts, Heeds: downpourHeeds, Refuses: downpourRefuses, Try: "policy=asp"}
}

var (
	downpourHeeds   = []string{"servers", "placement", "policy", "corrector", "down_codec", "overlap"}
	downpourRefuses = map[string]string{"down_codec": "replicas change their own copy between fetches"}
)

// Check implements Mode.
func (m Downpour) Check(j *Job) error {
	if err := m.Validate(); err != nil {
		return err
	}
	switch {
	case j.policy().Voids:
		return fmt.Errorf("policy %s cancels gradients that are being computed, which replicas of mode downpour have applied to their own parameters already; use mode server", staleness.Policies.Spec(j.Policy))
	case j.policy().Waits:
		return fmt.Errorf("replicas of mode downpour never wait for others, as they may with policy %s; use asp, bounded, softsync, kbatchasync or adasync(of=kbatchasync), or mode server", staleness.Policies.Spec(j.Policy))
	case j.corrector().AtWorker:
		return fmt.Errorf("corrector %s changes what a worker pushes, which in mode downpour is a sum of gradients; use mode server", staleness.Correctors.Spec(j.Corrector))
	case j.CheckpointEvery%m.NPush != 0 || j.CheckpointEvery%m.NFetch != 0:
		return fmt.Errorf("checkpoint_every is %d, want a multiple of n_fetch and n_push", j.CheckpointEvery)
	}
	return checkServers(j)
}

// Part implements Mode.
func (m Downpour) Part(r *Rank) (Part, error) {
	sh := r.job.shards()
	if r.rank >= r.job.Workers {
		return newServer(r, sh)
	}
	w, err := newWorker(r, sh)
	if err != nil {
		return nil, err
	}
	p := &replica{worker: w, mode: m}
	p.trainable, p.buffers = byRole(r.job.Model.Layout())
	p.sched, err = r.job.schedule()
	return p, err
}

// replica is a Downpour worker.
type replica struct {
	*worker
	mode     Downpour
	sum      Vector // gradients since the last push; empty behind one
	sched    lrschedule.Schedule
	fetching bool
	losses   float64

	trainable, buffers []sgd.Range
}

func (r *replica) beside() bool { return true }

// Run implements Part.
func (r *replica) Run(ctx context.Context) error {
	pass := Pass{On: r.on, Then: r.descend}
	if r.Resumes() {
		if err := r.resume(ctx); err != nil {
			return err
		}
	}
	r.h.Go("fetch", r.fetchActivity)
	r.h.Go("push", r.pushActivity)
	if err := r.train(ctx, pass); err != nil {
		return err
	}
	if err := onPaced.Wake(ctx, r.Rank, Pulled{}, FlagDone); err != nil { // let the activities end
		return err
	}
	if err := onHanded.Wake(ctx, r.Rank, Nothing{}, FlagDone); err != nil {
		return err
	}
	return r.bye(ctx)
}

// train is the compute activity.
func (r *replica) train(ctx context.Context, pass Pass) error {
	j := r.job
	minVersion := 0
	if r.rank != 0 {
		minVersion = r.mode.WarmStart
	}
	again := true // the first fetch, and the one after a mark, is waited for
	for {
		if again || r.step%r.mode.NFetch == 0 { // a stop comes at any step
			if err := r.fetched(ctx); err != nil { // the fetch begun n_fetch steps ago
				return err
			}
			if r.flags == 0 {
				if err := onPaced.Wake(ctx, r.Rank, Pulled{Step: uint64(r.step), Version: uint64(minVersion)}, 0); err != nil {
					return err
				}
				r.fetching = true
				if again || !j.Overlap {
					if err := r.fetched(ctx); err != nil {
						return err
					}
				}
				again, minVersion = false, 0
			}
		}
		if r.flags == 0 {
			if err := r.gradient(ctx, pass); err != nil {
				return err
			}
			if r.step%r.mode.NPush == 0 {
				if err := r.push(ctx); err != nil {
					return err
				}
			}
		}
		mark := r.atMark() || r.asked
		if r.flags != 0 || mark {
			if err := r.settle(ctx); err != nil {
				return err
			}
			if r.flags&FlagDone != 0 {
				return nil
			}
			if err := r.checkpoint(ctx, r); err != nil {
				return err
			}
			r.asked = false
			if r.flags != 0 {
				return nil
			}
			again = true
		}
	}
}

// atMark says whether a checkpoint is due. The replica that warms up counts its
// marks from the end of the warm start: the others wait for it until then.
func (r *replica) atMark() bool {
	every, steps := r.job.CheckpointEvery, r.step
	if r.rank == 0 && r.mode.WarmStart > 0 {
		grid := r.mode.NFetch * r.mode.NPush
		alone := r.mode.WarmStart * r.job.PerUpdate()
		steps -= (alone + grid - 1) / grid * grid
	}
	return every > 0 && steps > 0 && steps%every == 0
}

// settle waits for what is under way.
func (r *replica) settle(ctx context.Context) error {
	if err := r.taken(ctx); err != nil {
		return err
	}
	return r.fetched(ctx)
}

// gradient makes one gradient and puts it to use.
func (r *replica) gradient(ctx context.Context, pass Pass) error {
	if err := r.Compute(ctx, pass); err != nil {
		return err
	}
	r.losses += r.loss
	return r.Made(ctx)
}

// descend applies a gradient to the replica's own parameters, unless
// others take their place before they are read again, and adds it to the sum.
func (r *replica) descend() error {
	renewed := (r.step+1)%r.mode.NFetch == 0 && (r.fetching || !r.job.Overlap)
	if !renewed {
		r.params.Own()
		rate := r.sched(r.job.progressOf(r.step))
		for _, t := range r.trainable {
			f32.Axpy(r.params.f[t.Lo:t.Hi], -float32(rate), r.grad.f[t.Lo:t.Hi])
		}
		for _, b := range r.buffers { // whose differences are applied at rate 1
			f32.Sub(r.params.f[b.Lo:b.Hi], r.grad.f[b.Lo:b.Hi])
		}
	} else {
		r.holding.done()
	}
	if r.sum.f == nil {
		r.sum, r.grad = r.grad, Vector{}
		return nil
	}
	f32.Add(r.sum.f, r.grad.f)
	r.grad.Release()
	return nil
}

// push hands the sum over to the push activity, once that has finished the push
// before.
func (r *replica) push(ctx context.Context) error {
	if err := r.taken(ctx); err != nil {
		return err
	}
	r.loss, r.losses = r.losses/float64(r.mode.NPush), 0
	for i := range r.order {
		if err := r.times.encoding(ctx, r.order[i].encoding()); err != nil {
			return err
		}
		if err := r.encode(i, r.sum); err != nil {
			return err
		}
	}
	r.sum.Release()
	r.away = true
	return onHanded.Wake(ctx, r.Rank, Nothing{}, 0)
}

// fetched waits for the fetch under way and takes up its parameters.
func (r *replica) fetched(ctx context.Context) error {
	if !r.fetching {
		return nil
	}
	r.fetching = false
	began := r.times.read()
	_, flags, err := onBrought.Wait(ctx, r.Rank)
	if err != nil {
		return err
	}
	r.times.stood(began)
	r.heed(flags)
	for _, l := range r.links {
		if err := r.times.taking(ctx, l.in.taking(0)); err != nil {
			return err
		}
		began := r.times.start()
		err := r.take(l, 0, l.fetched)
		r.times.taken(began)
		l.fetched.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// pushActivity takes sums to the shards and waits for their receipt.
func (r *replica) pushActivity(ctx context.Context, _ comm.Host) error {
	for {
		_, told, err := onHanded.Wait(ctx, r.Rank)
		if err != nil || told&FlagDone != 0 {
			return err
		}
		for i := range r.order {
			if err := r.worker.push(ctx, i); err != nil {
				return err
			}
		}
		flags := Flags(0)
		for _, l := range r.links {
			f, err := onAnswer.Recv(ctx, r.Rank, l.rank)
			if err != nil {
				return fmt.Errorf("worker %d, receipt of server %d: %w", r.rank, l.id, err)
			}
			if f.Word.Code == codeRejected {
				return fmt.Errorf("worker %d: server %d refused the push: %s", r.rank, l.id, f.Body)
			}
			flags |= f.Flags
			f.Release()
		}
		if err := onPushed.Wake(ctx, r.Rank, Nothing{}, flags); err != nil {
			return err
		}
	}
}

// fetchActivity brings parameters from the shards.
func (r *replica) fetchActivity(ctx context.Context, _ comm.Host) error {
	for {
		wish, told, err := onPaced.Wait(ctx, r.Rank)
		if err != nil || told&FlagDone != 0 {
			return err
		}
		for _, l := range r.links {
			wish.Shard = l.id
			if err := OnPull.Send(ctx, r.Rank, l.rank, wish, 0); err != nil {
				return err
			}
		}
		flags := Flags(0)
		for _, l := range r.links {
			f, err := onFetched.Recv(ctx, r.Rank, l.rank)
			if err != nil {
				return fmt.Errorf("worker %d, fetch from server %d: %w", r.rank, l.id, err)
			}
			flags |= f.Flags
			l.fetched = f.Frame
		}
		if err := onBrought.Wake(ctx, r.Rank, Nothing{}, flags); err != nil {
			return err
		}
	}
}

// Keep keeps what was added up since the last push, too: at a mark that is nothing,
// but a stop comes at any step.
func (r *replica) Keep(k *Keeper) {
	name := key(keySum, r.rank)
	if k.Loads() && k.Has(name) {
		r.sum = NewVector(len(r.params.f))
	}
	if r.sum.f != nil {
		k.Vector(name, r.sum.f)
		k.Float(key(keyLosses, r.rank), &r.losses)
	}
	r.worker.Keep(k)
}
