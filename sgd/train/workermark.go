package train

import (
	"context"

	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// marks comes to rest at a mark, or where the servers want the worker's state.
func (w *worker) marks(ctx context.Context, mark bool, p Part) error {
	mark, err := w.heeds(ctx, mark, p)
	if err == nil && w.flags&FlagDone == 0 && (mark || w.flags&FlagStop != 0) {
		err = w.checkpoint(ctx, p)
	}
	return err
}

// checkpoint tells the worker's state and waits until all have done so.
func (w *worker) checkpoint(ctx context.Context, p Part) error {
	st, err := w.state(p)
	if err != nil {
		return err
	}
	w.leaves(st)
	return w.mark(ctx, st)
}

// heeds heeds the servers' wish for the worker's state. With a barrier, where all
// heed it behind the same step, it is told in passing; others come to rest as at a
// mark.
func (w *worker) heeds(ctx context.Context, mark bool, p Part) (bool, error) {
	asked := w.asked
	w.asked = false
	if !asked || mark || w.flags != 0 {
		return mark, nil
	}
	if !w.job.synchronous() {
		return true, nil
	}
	st, err := w.state(p)
	if err != nil {
		return false, err
	}
	w.told = true
	st.Ints[keyGoing] = 1
	leave(st, w.h, w.rank, w.h.Now())
	return false, w.sendState(ctx, st)
}

// passed is the flag of what is sent in the step behind one at which the state was
// told.
func (w *worker) passed() message.Flags {
	if w.told {
		return FlagKeep
	}
	return 0
}

// mark tells the worker's state and waits until all have done so.
func (w *worker) mark(ctx context.Context, st *checkpoint.State) error {
	if err := w.sendState(ctx, st); err != nil {
		return err
	}
	for _, l := range w.links {
		if err := onSave.Send(ctx, w.Rank, l.rank, message.Nothing{}, w.flags&FlagStop); err != nil {
			return err
		}
	}
	return w.goOn(ctx)
}

// resume goes on from where the run was stopped; see server.resume.
func (w *worker) resume(ctx context.Context) error {
	if err := w.restore(ctx); err != nil {
		return err
	}
	if ok, err := w.Rank.CatchUp(ctx); ok {
		return err
	}
	return w.goOn(ctx)
}

// restore takes up the parameters that the worker had when the run was stopped.
func (w *worker) restore(ctx context.Context) error {
	if w.job.restored() {
		for _, l := range w.links {
			for l.expect(onRestored.Tag()); l.got < len(l.shard.Parts); {
				f, err := onRestored.Recv(ctx, w.Rank, l.server)
				if err != nil {
					return err
				}
				l.got++
				err = w.take(l, l.got-1, f.Frame)
				f.Release()
				if err != nil {
					return err
				}
			}
			l.waiting = false
		}
	}
	return nil
}

// restored says whether the workers of a resumed run are told the parameters that
// they had, beside the run: they are neither changed by them nor in the checkpoint.
func (j *Job) restored() bool {
	return j.synchronous() && j.numShards() > 0 && j.Traits().PerPush == 0 && wire.IsCast(j.DownCodec) && !j.Weightless
}

// goOn waits at a mark until every server lets the worker go on.
func (w *worker) goOn(ctx context.Context) error {
	for _, l := range w.links {
		l.expect(onSaved.Tag())
	}
	return w.awaitAll(ctx)
}

// bye tells all shards that the worker pushes no more, if the run is over.
func (w *worker) bye(ctx context.Context) error {
	if w.flags&FlagDone == 0 {
		return nil
	}
	return w.sayBye(ctx)
}

// sayBye is bye, whatever servers have said.
func (w *worker) sayBye(ctx context.Context) error {
	for _, l := range w.links {
		if err := OnBye.Send(ctx, w.Rank, l.rank, message.Nothing{}, 0); err != nil {
			return err
		}
	}
	return nil
}

// Final implements Part.
func (w *worker) Final(r *record.RankReport) {
	for _, l := range w.links {
		if w.member != nil { // what was made in vain counts nowhere
			r.Sent += uint64(w.step) - w.stats.missed
			continue
		}
		r.Sent += l.before + l.seq
	}
}

// Keep keeps what the worker has. One that was dead has nothing, and begins anew
// with the others.
func (w *worker) Keep(k *checkpoint.Keeper) {
	step := checkpoint.Key(checkpoint.KeyStep, w.rank)
	alive := !k.Loads() || k.Has(step)
	k.Int(step, &w.step)
	for r := 0; r < w.job.Workers && !alive; r++ {
		other := 0
		k.Int(checkpoint.Key(checkpoint.KeyStep, r), &other)
		w.step = max(w.step, other)
	}
	w.KeepCounts(k)
	k.Count(checkpoint.Key(keyVoided, w.rank), &w.stats.voided)
	if alive {
		w.amend.keep(k, checkpoint.Under(keyAmend, w.rank))
	}
	for _, l := range w.links {
		if alive {
			l.out.Keep(k, checkpoint.Under(KeyUp, w.rank))
		}
		if k.Own || k.Anew { // an epoch counts anew, and begins with the servers' parameters
			continue
		}
		k.Count(checkpoint.Key(keySeq, w.rank, l.id), &l.seq)
		if k.Loads() || l.before > 0 {
			k.Count(checkpoint.Key(keyBefore, w.rank, l.id), &l.before)
		}
		if k.Loads() {
			w.takeHeld(k, l)
		}
	}
}

// takeHeld takes up what a server knows that the worker holds of its shard.
func (w *worker) takeHeld(k *checkpoint.Keeper, l *link) {
	k.Count(checkpoint.Key(keyHolds, w.rank, l.id), &l.version)
	if l.in.absolute {
		return
	}
	held := make([]float32, l.shard.Size())
	if k.Vector(checkpoint.Key(keyHeld, l.id, w.rank), held); k.Err() == nil {
		l.shard.Scatter(w.params.F(), held)
	}
}

// leaves notes when the worker leaves a step at which the run stops, where all do so
// at instants of their own.
func (w *worker) leaves(st *checkpoint.State) {
	mark := w.job.CheckpointEvery > 0 && w.step%w.job.CheckpointEvery == 0 // all go on together
	if !mark && w.flags&FlagStop != 0 && w.job.synchronous() && w.job.tree() == nil {
		leave(st, w.h, w.rank, w.h.Now())
	}
}
