package mean

import (
	"context"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// inStep is a worker of modes whose workers agree on parameters: it holds these in common
// with others of its process, and tells the observer of their updates.
type inStep struct {
	*train.Rank
	mean    *Mean
	common  *common
	grad    []float32 // what is averaged
	sched   lrschedule.Schedule
	told    int // the step of the last report
	stopped bool
	prog    train.Meter
}

// newInStep makes a worker around its Mean.
func newInStep(of *train.Rank, m *Mean) (s inStep, err error) {
	j := of.Job()
	s = inStep{Rank: of, mean: m, sched: m.sched}
	if j.Weightless {
		return s, nil
	}
	s.grad = make([]float32, j.Model.Layout().Size())
	s.common, err = train.Lasting(j, commonKey{}, newCommon)
	return s, err
}

// report tells of the update made last, whose mean was there at now.
func (r *inStep) report(ctx context.Context, now time.Duration) error {
	v, told := r.Step(), r.told
	r.told = v
	if r.ID() == 0 {
		if err := r.progress(ctx, now, train.Crossed(r.Job().ReportEvery(), told, v) || v == r.Job().Updates); err != nil {
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
func (r *inStep) progress(ctx context.Context, now time.Duration, due bool) error {
	if r.prog.Add(0, r.Loss()); !due {
		return nil
	}
	p := r.Job().ProgressAt(r.Step(), r.Step()*r.Job().Workers)
	m := record.Progress{Step: r.Step(), Samples: p.Samples, Epoch: p.Epoch, Seconds: now.Seconds(), LR: r.sched(p)}
	r.prog.Fill(&m, nil)
	up, down := r.bytes()
	m.BytesUp, m.BytesDown = up*uint64(r.Job().Workers), down*uint64(r.Job().Workers)
	return r.Tell(ctx, m)
}

// bytes is what this rank has sent and received.
func (r *inStep) bytes() (up, down uint64) {
	c := r.Host().Traffic().Count()
	return c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient]
}

// snapshot tells the observer of an update to be evaluated: the first rank what the
// parameters are, all ranks when they had made it and what went over the network.
func (r *inStep) snapshot(ctx context.Context, last bool) error {
	p := r.Job().ProgressAt(r.Step(), r.Step()*r.Job().Workers)
	up, down := r.bytes()
	m := train.Mark{Version: r.Step(), Samples: p.Samples, Epoch: p.Epoch, Seconds: r.Host().Now().Seconds(), Up: up, Down: down, Last: last}
	if m.Bare = r.ID() > 0 || r.Job().Weightless; m.Bare {
		return r.Snapshot(ctx, m, wire.Vector{})
	}
	return r.Snapshot(ctx, m, r.common.opt.Avg.Shown(r.common.params))
}

// Final implements Part.
func (r *inStep) Final(rep *record.RankReport) {
	made := uint64(r.Steps())
	rep.Sent, rep.Version, rep.Stopped, rep.Ledger.Applied = made, r.Step(), r.stopped, made
}

// versionIn is how many updates a checkpoint is of.
func (r *inStep) versionIn(k *checkpoint.Keeper) (version int) {
	k.Int(train.KeyVersion, &version)
	return version
}

// keepShared keeps what is the same on all ranks, after version updates of the run.
func (r *inStep) keepShared(k *checkpoint.Keeper, version int) {
	if k.Loads() || k.Own || !k.Alike(r.ID()) {
		return
	}
	k.Int(train.KeyVersion, &version)
	r.common.keep(k, version)
}

// keepOwn keeps what this rank alone has.
func (r *inStep) keepOwn(k *checkpoint.Keeper) {
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
	r.mean.Keep(k)
}
