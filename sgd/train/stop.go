package train

import (
	"context"
	"errors"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// StopRule says where a run may be stopped so that it goes on, resumed, as one
// that was not stopped.
type StopRule uint8

// Where a stop is taken.
const (
	// StopAtStep: at the next step. All workers are then at the same step, so that
	// nothing that matters is under way.
	StopAtStep StopRule = iota
	// StopAtMark: on the virtual cluster, at the next mark of CheckpointEvery. The
	// run comes to rest there, stopped or not.
	StopAtMark
	// StopAtOnce: on the virtual cluster, where no mark lies ahead. What was made
	// since the last mark, or since the start, is made again, to the same bits.
	StopAtOnce
	// StopDrained: on a real clock, where nobody waits. What is under way is brought
	// to its end, and the run goes on otherwise than it would have. So it is on the
	// virtual cluster for a run that has come to Job.Until, which does not go on.
	StopDrained
)

// ErrStoppedUnmarked ends a run that is stopped by StopAtOnce.
var ErrStoppedUnmarked = errors.New("stopped where no mark lay ahead")

// ErrReached ends a replay that has come to Job.Until. The observer has its result.
var ErrReached = errors.New("the replayed run ended here, at its target")

// StopRule is the rule for a run that has made so many updates, on a virtual clock
// or a real one.
func (j *Job) StopRule(virtual bool, updates int) StopRule {
	switch {
	case j.isReached() && j.inStep():
		return StopAtStep
	case j.isReached():
		return StopDrained
	case j.inStep() && (!virtual || j.restsAtSteps() || j.CheckpointEvery == 0):
		return StopAtStep
	case !virtual:
		return StopDrained
	case j.Weightless: // there is nothing to keep
		return StopAtStep
	case j.MarkAhead(updates):
		return StopAtMark
	case j.inStep():
		return StopAtStep
	}
	return StopAtOnce
}

// inStep says whether bits do not depend on who comes first: then all ranks can
// stop behind the same step.
func (j *Job) inStep() bool {
	switch t := j.Traits(); {
	case t.Coordinator: // portions are added as they come
		return false
	case t.Conduct != NotConducted:
		return t.Conduct == InStep
	default:
		return t.Servers == 0 || j.synchronous()
	}
}

// restsAtSteps says whether nothing is under way between steps, so that the virtual
// clock too goes on from one as if there had been no stop.
func (j *Job) restsAtSteps() bool {
	return j.inStep() && !j.Plan().Beside && !j.Traits().UnderWay
}

// MarkAhead says whether a mark of CheckpointEvery comes before the end.
func (j *Job) MarkAhead(updates int) bool {
	every := j.CheckpointEvery
	if every <= 0 {
		return false
	}
	steps := func(updates int) int { return updates * j.PerUpdate() / j.Workers } // of a worker
	if j.Traits().Coordinator {
		steps = func(updates int) int { return updates }
	}
	return (steps(updates)/every+1)*every < steps(j.Updates)
}

// ClockGoesOn says whether the virtual clock of a run that is stopped by the rule
// goes on exactly, too.
func (j *Job) ClockGoesOn(rule StopRule) bool { return rule != StopAtStep || j.restsAtSteps() }

// stopsHere says whether a stop was asked for and is to be taken at this step. The
// error ends a run that cannot wait for one.
func (j *Job) stopsHere(h comm.Host, updates int) (bool, error) {
	if !j.IsStopping() {
		return false, nil
	}
	switch j.StopRule(h.Virtual(), updates) {
	case StopAtMark:
		return false, nil
	case StopAtOnce:
		return false, ErrStoppedUnmarked
	}
	return true, nil
}

// stopsAtMark says whether a stop was asked for and is to be taken at this mark.
func (j *Job) stopsAtMark(h comm.Host, updates int) bool {
	rule := j.StopRule(h.Virtual(), updates)
	return (rule == StopAtMark || rule == StopAtOnce) && j.IsStopping()
}

// keepsHere says whether a checkpoint is due; last says that no other could be told
// before the end. On the virtual cluster it may cost nothing: ranks tell their
// states as they pass a step, and nobody waits.
func (j *Job) keepsHere(h comm.Host, last bool) bool {
	if j.CheckpointEvery != 0 || j.Weightless || j.tree() != nil || h.Virtual() && !j.restsAtSteps() {
		return false
	}
	return last && j.KeepLast && j.inStep() || j.Due != nil && j.Due()
}

// Asks says what the first rank asks of all behind the steps that are being made,
// from, …, to: to stop, or to tell their states. First ranks of jobs within a run ask alike.
func (r *Rank) Asks(ctx context.Context, from, to int) (message.Flags, error) {
	switch {
	case r.rank > 0:
		return 0, nil
	case r.sub != nil:
		return r.sub.asks(ctx, from, to)
	}
	return asks(r, from, to)
}

func asks(r *Rank, from, to int) (flags message.Flags, err error) {
	stop, err := r.job.stopsHere(r.h, from)
	if stop || Crossed(r.job.CheckpointEvery, from, to) && r.job.stopsAtMark(r.h, from) {
		return FlagStop, nil
	}
	if r.job.keepsHere(r.h, to < r.job.Updates && to+to-from >= r.job.Updates) {
		flags = FlagKeep
	}
	return flags, err
}

// isLast says whether a wish that is uttered after so many updates is the last that
// ranks heed before the end: they hear of it with the next one, and tell their states
// behind that.
func (j *Job) isLast(updates int) bool { return updates == max(0, j.Updates-3) }

// A rank that leaves a step at an instant of its own, and not at that of all, notes
// it in its state: on the virtual clock it goes on at that instant.

// leave notes that the rank leaves the step before now.
func leave(st *checkpoint.State, h comm.Host, rank int, now time.Duration) {
	if h.Virtual() {
		st.Ints[checkpoint.Key(keyLeft, rank)] = int64(now)
	}
}

// resumeAt lets the virtual clock come to the instant at which the rank left; ok is
// false if the state knows of none.
func resumeAt(ctx context.Context, st *checkpoint.State, h comm.Host, rank int) (ok bool, err error) {
	at, ok := st.Ints[checkpoint.Key(keyLeft, rank)]
	if !ok || !h.Virtual() {
		return false, nil
	}
	return true, h.Sleep(ctx, time.Duration(at)-h.Now())
}
