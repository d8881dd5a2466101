package train

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// What a rank does that leads a run without a policy: it counts the updates, says how
// far the run is, and lets everybody come to rest at marks.

// Due is what is due after an update.
type Due struct {
	Progress bool // a Report
	Eval     bool // a snapshot for evaluation
	Over     bool // it was the last one
}

// Due says what is due after so many updates.
func (r *Rank) Due(updates int) Due {
	j := r.job
	over, every := updates == j.Updates, j.EvalEvery
	return Due{Progress: over || updates%j.ReportEvery() == 0, Eval: !over && every > 0 && updates%every == 0, Over: over}
}

// Halt says whether the ranks come to rest after an update.
type Halt struct {
	Mark bool // for a Checkpoint
	Stop bool // for one with which the run is stopped
}

// Halts says whether the ranks come to rest after so many updates, which are not all.
// The error ends a run that is to stop at once.
func (r *Rank) Halts(updates int) (Halt, error) {
	j := r.job
	mark := j.CheckpointEvery > 0 && updates%j.CheckpointEvery == 0
	if mark && j.stopsAtMark(r.h, updates) {
		return Halt{true, true}, nil
	}
	stop, err := j.stopsHere(r.h, updates)
	return Halt{mark || stop || err == nil && j.keepsHere(r.h, false), stop}, err
}

// Report tells the observer how far the run is. It fills in the time, and the updates a
// second since the last report.
func (r *Rank) Report(ctx context.Context, p record.Progress) error {
	p.Seconds, p.Loss = r.h.Now().Seconds(), record.Recordable(p.Loss)
	r.lead.measured(&p, &record.Gauge{}, &record.Gauge{})
	return r.Tell(ctx, p)
}

// Tell tells the observer how far the run is, as it is given.
func (r *Rank) Tell(ctx context.Context, p record.Progress) error {
	if r.sub != nil && !r.sub.leads() {
		return nil
	}
	return r.tellJSON(ctx, onProgress, p)
}

// Save tells the observer the state of the rank's part, and goes on.
func (r *Rank) Save(ctx context.Context, p Part) error {
	st, err := r.state(p)
	if err != nil {
		return err
	}
	return r.sendState(ctx, st)
}

// SaveInStep tells the state of a rank that goes on at once: all are at the same step.
func (r *Rank) SaveInStep(ctx context.Context, p Part) error {
	st, err := r.state(p)
	if err != nil {
		return err
	}
	leave(st, r.h, r.rank, r.h.Now())
	return r.sendState(ctx, st)
}

// Checkpoint tells the observer the state of the rank's part, and waits until it has
// those of all. FlagStop says that the run is stopped there.
func (r *Rank) Checkpoint(ctx context.Context, p Part) (message.Flags, error) {
	if err := r.Save(ctx, p); err != nil {
		return 0, err
	}
	_, flags, err := onGo.Hear(ctx, r, r.job.Observer())
	return flags, err
}

// Came tells the observer that a worker has come into an open run, after so many updates.
func (r *Rank) Came(ctx context.Context, worker, updates int) error {
	return onMoved.Send(ctx, r, r.job.Observer(), rollWord{code: rollHere, step: updates, rank: worker}, 0)
}

// Left tells the observer that a worker has left it by plan.
func (r *Rank) Left(ctx context.Context, worker, updates int) error {
	return onMoved.Send(ctx, r, r.job.Observer(), rollWord{code: rollLeaves, step: updates, rank: worker}, 0)
}

// Next waits for a frame of any rank on any channel. Those of other runs are an error.
// What the observer says is for the kernel, and not returned.
func (r *Rank) Next(ctx context.Context) (comm.Frame, error) {
	for {
		f, err := r.h.Recv(ctx, comm.AnyRank, comm.AnyTag)
		switch {
		case err != nil:
			return f, err
		case f.Header.Run != r.job.Run:
			f.Release()
			return comm.Frame{}, fmt.Errorf("rank %d belongs to run %x, not %x", f.Header.From, f.Header.Run, r.job.Run)
		case f.Header.Tag != onReached.Tag():
			return f, nil
		}
		f.Release()
		r.job.reached.Store(true)
	}
}

// Post sends a frame to a rank that may be dead, of which Next says so.
func (r *Rank) Post(ctx context.Context, to int, f comm.Frame) error {
	if err := r.h.Send(ctx, to, f); err != nil && !isGone(err) {
		return err
	}
	return nil
}
