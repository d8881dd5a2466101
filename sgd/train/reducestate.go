package train

import (
	"context"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// report tells of the update made last.
func (r *reducer) report(ctx context.Context) error {
	v, told := r.step, r.told
	r.told = v
	if r.rank == 0 {
		if err := r.progress(ctx, crossed(r.job.reportEvery(), told, v) || v == r.job.Updates); err != nil {
			return err
		}
	}
	if crossed(r.job.EvalEvery, told, v) && v < r.job.Updates {
		return r.snapshot(ctx, false)
	}
	return nil
}

// progress counts the update made last, and tells of those since it told if that
// is due.
func (r *reducer) progress(ctx context.Context, due bool) error {
	if r.prog.add(0, r.loss); !due {
		return nil
	}
	now := r.h.Now()
	if f, ok := r.course.(*first); ok { // it may be made later, of what was there then
		now = f.whole
	}
	p := r.job.progress(r.step, r.step*r.job.Workers)
	m := record.Progress{Step: r.step, Samples: p.Samples, Epoch: p.Epoch, Seconds: now.Seconds(), LR: r.sched(p)}
	r.prog.fill(&m, nil)
	up, down := r.bytes()
	m.BytesUp, m.BytesDown = up*uint64(r.job.Workers), down*uint64(r.job.Workers)
	return r.Tell(ctx, m)
}

// bytes is what this rank has sent and received.
func (r *reducer) bytes() (up, down uint64) {
	c := r.h.Traffic().Count()
	return c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient]
}

// snapshot tells the observer of an update to be evaluated: the first rank what the
// parameters are, all ranks when they had made it and what went over the network.
func (r *reducer) snapshot(ctx context.Context, last bool) error {
	p := r.job.progress(r.step, r.step*r.job.Workers)
	up, down := r.bytes()
	m := mark{Version: r.step, Samples: p.Samples, Epoch: p.Epoch, Seconds: r.h.Now().Seconds(), Up: up, Down: down, Last: last}
	if m.Bare = r.rank > 0 || r.job.Weightless; m.Bare {
		return r.mark(ctx, m, wire.Vector{})
	}
	return r.mark(ctx, m, r.common.opt.Avg.Shown(r.common.params))
}

// Final implements Part.
func (r *reducer) Final(rep *record.RankReport) {
	made := uint64(r.Steps())
	rep.Sent, rep.Version, rep.Stopped, rep.Ledger.Applied = made, r.step, r.stopped, made
}

// Keep keeps what this rank must keep over a restart; what is the same on all ranks
// is kept by the first.
func (r *reducer) Keep(k *checkpoint.Keeper) {
	r.keepShared(k, r.step)
	if k.Loads() {
		r.StartAt(r.versionIn(k))
		r.told = r.step
		r.common.keep(k, r.step)
	}
	r.keepOwn(k)
}

// versionIn is how many updates a checkpoint is of.
func (r *reducer) versionIn(k *checkpoint.Keeper) (version int) {
	k.Int(keyVersion, &version)
	return version
}

// keepShared keeps what is the same on all ranks, after version updates of the run.
func (r *reducer) keepShared(k *checkpoint.Keeper, version int) {
	if k.Loads() || k.Own || !k.Alike(r.rank) {
		return
	}
	k.Int(keyVersion, &version)
	r.common.keep(k, version)
}

// keepOwn keeps what this rank alone has.
func (r *reducer) keepOwn(k *checkpoint.Keeper) {
	if !k.Loads() {
		step := r.step
		k.Int(checkpoint.Key(checkpoint.KeyStep, r.rank), &step)
		c := r.h.Traffic().Count()
		tallied(k.Of, r.rank, r.h, c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient])
	}
	r.KeepCounts(k)
	if r.rank == 0 {
		r.prog.keepMeter(k)
	}
	for i, ex := range r.ex {
		k.State(checkpoint.Under(keyUp, r.rank)+r.shard.Pieces[i].Block.Name, ex)
	}
}
