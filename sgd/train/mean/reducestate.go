package mean

import (
	"context"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// report tells of the update made last.
func (r *reducer) report(ctx context.Context) error {
	v, told := r.Step(), r.told
	r.told = v
	if r.ID() == 0 {
		if err := r.progress(ctx, train.Crossed(r.Job().ReportEvery(), told, v) || v == r.Job().Updates); err != nil {
			return err
		}
	}
	if train.Crossed(r.Job().EvalEvery, told, v) && v < r.Job().Updates {
		return r.snapshot(ctx, false)
	}
	return nil
}

// progress counts the update made last, and tells of those since it told if that
// is due.
func (r *reducer) progress(ctx context.Context, due bool) error {
	if r.prog.Add(0, r.Loss()); !due {
		return nil
	}
	now := r.Host().Now()
	if f, ok := r.course.(*first); ok { // it may be made later, of what was there then
		now = f.whole
	}
	p := r.Job().ProgressAt(r.Step(), r.Step()*r.Job().Workers)
	m := record.Progress{Step: r.Step(), Samples: p.Samples, Epoch: p.Epoch, Seconds: now.Seconds(), LR: r.sched(p)}
	r.prog.Fill(&m, nil)
	up, down := r.bytes()
	m.BytesUp, m.BytesDown = up*uint64(r.Job().Workers), down*uint64(r.Job().Workers)
	return r.Tell(ctx, m)
}

// bytes is what this rank has sent and received.
func (r *reducer) bytes() (up, down uint64) {
	c := r.Host().Traffic().Count()
	return c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient]
}

// snapshot tells the observer of an update to be evaluated: the first rank what the
// parameters are, all ranks when they had made it and what went over the network.
func (r *reducer) snapshot(ctx context.Context, last bool) error {
	p := r.Job().ProgressAt(r.Step(), r.Step()*r.Job().Workers)
	up, down := r.bytes()
	m := train.Mark{Version: r.Step(), Samples: p.Samples, Epoch: p.Epoch, Seconds: r.Host().Now().Seconds(), Up: up, Down: down, Last: last}
	if m.Bare = r.ID() > 0 || r.Job().Weightless; m.Bare {
		return r.Snapshot(ctx, m, wire.Vector{})
	}
	return r.Snapshot(ctx, m, r.common.opt.Avg.Shown(r.common.params))
}

// Final implements Part.
func (r *reducer) Final(rep *record.RankReport) {
	made := uint64(r.Steps())
	rep.Sent, rep.Version, rep.Stopped, rep.Ledger.Applied = made, r.Step(), r.stopped, made
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

// versionIn is how many updates a checkpoint is of.
func (r *reducer) versionIn(k *checkpoint.Keeper) (version int) {
	k.Int(train.KeyVersion, &version)
	return version
}

// keepShared keeps what is the same on all ranks, after version updates of the run.
func (r *reducer) keepShared(k *checkpoint.Keeper, version int) {
	if k.Loads() || k.Own || !k.Alike(r.ID()) {
		return
	}
	k.Int(train.KeyVersion, &version)
	r.common.keep(k, version)
}

// keepOwn keeps what this rank alone has.
func (r *reducer) keepOwn(k *checkpoint.Keeper) {
	if !k.Loads() {
		step := r.Step()
		k.Int(checkpoint.Key(checkpoint.KeyStep, r.ID()), &step)
		c := r.Host().Traffic().Count()
		train.Tally(k.Of, r.ID(), r.Host(), c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient])
	}
	r.KeepCounts(k)
	if r.ID() == 0 {
		r.prog.Keep(k)
	}
	for i, ex := range r.ex {
		k.State(checkpoint.Under(train.KeyUp, r.ID())+r.shard.Pieces[i].Block.Name, ex)
	}
}
