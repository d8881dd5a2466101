package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
	"github.com/gradlab/gradlab/staleness"
)

// In an open run workers come and go by themselves, and the others neither wait nor go
// back. A worker that comes asks every server for parameters, which then takes its pushes,
// or takes the model of another worker; one that leaves by plan says so. Which process has
// a worker's number is decided by the observer, when a worker is due by the first server
// or, where there is none, by the observer too.

// inEpochs says that the workers of an elastic run are members of epochs.
func (j *Job) inEpochs() bool { return j.Elastic && j.Traits().Elastic }

// open says that those of an elastic run come and go by themselves.
func (j *Job) open() bool { return j.Elastic && j.Traits().Admits }

// checkOpen refuses what has no meaning where nobody waits for who comes.
func (j *Job) checkOpen() error {
	p := j.policy()
	switch {
	case j.OnResize == ScaleLR:
		return errors.New("on_resize=scale_lr: where not all wait for all there is no step of all workers; set on_resize=keep_global, which leaves batch and rate as they are")
	case compress.KeepsReceiver(j.Codec) && p.PerUpdate > 1:
		return fmt.Errorf("elastic=on: policy %s holds pushes, and codec %s would decode those of a worker that has left with the state of the one that came; use policy=asp or ssp, or another codec", staleness.Policies.Spec(j.Policy), compress.Spec(j.Codec))
	}
	return nil
}

// AwayAt says whether a worker is not there, by plan, when so many updates are made.
func (j *Job) AwayAt(worker, version int) bool {
	plan, _ := j.moves() // Check tells what is wrong
	away := j.away()[worker]
	for _, m := range plan {
		if m.worker == worker && m.step <= version {
			away = !m.joins
		}
	}
	return away
}

// resumedAt is how many updates were made when an open run began, or was stopped.
func resumedAt(r *Rank) int {
	if !r.Resumes() {
		return 0
	}
	return int(r.start.Ints[KeyVersion])
}

// invited waits for the word to begin, which a worker of an open run asks for: its process
// may come into a run that goes on, or that is over.
func invited(ctx context.Context, r *Rank) (start *checkpoint.State, over bool, err error) {
	if !r.job.open() || r.rank >= r.job.Workers {
		start, _, err = r.told(ctx)
		return start, false, err
	}
	if err := onHere.Send(ctx, r, r.job.Observer(), message.Nothing{}, 0); err != nil {
		return nil, isEnded(err), onlyLost(err)
	}
	start, flags, err := r.told(ctx)
	r.again = flags&flagCome != 0
	return start, isEnded(err) || flags&FlagStop != 0, onlyLost(err)
}

// onlyLost is err, unless it is that a peer has ended in order.
func onlyLost(err error) error {
	if isEnded(err) {
		return nil
	}
	return err
}

// visit is when a worker of an open run comes and goes.
type visit struct {
	of    *Rank
	first int // who says when it is due: the first server, or the observer
	enter func(context.Context) error
	plan  []move // its own, as far as it is ahead
	came  bool   // it has come since it was last asked, with nothing of before
	ended bool   // the run is over, or the worker has left it for good
}

func newVisit(r *Rank, first int, enter func(context.Context) error) *visit {
	return &visit{of: r, first: first, enter: enter, plan: r.job.movesOf(r.rank)}
}

// movesOf is what a worker does by plan.
func (j *Job) movesOf(worker int) []move {
	all, _ := j.moves() // Check tells what is wrong
	return slices.DeleteFunc(all, func(m move) bool { return m.worker != worker })
}

// gone says whether a worker is out of an open run for good.
func (v *visit) gone() bool { return v != nil && v.ended }

// pass leaves behind what was due when so many updates are made.
func (v *visit) pass(version int) {
	v.plan = slices.DeleteFunc(v.plan, func(m move) bool { return m.step <= version })
}

// next is before which update the worker comes next, or leaves. Before that nothing of the
// plan has an effect.
func (v *visit) next(joins bool) (step int, ok bool) {
	for len(v.plan) > 0 && v.plan[0].joins != joins {
		v.plan = v.plan[1:]
	}
	if len(v.plan) == 0 {
		return 0, false
	}
	return v.plan[0].step, true
}

// isAway says whether a worker is not there when a run begins, or goes on from a state. One
// that was about to leave, where that takes others a while, is in it.
func (j *Job) isAway(worker int, from *checkpoint.State) bool {
	version := 0
	if from != nil {
		version = int(from.Ints[KeyVersion])
	}
	return j.AwayAt(worker, version) && (j.Served() || from == nil || !checkpoint.Loading(from).Lived(worker))
}

// arrive begins the worker's part in an open run; resume goes on from a stop.
func (v *visit) arrive(ctx context.Context, resume func(context.Context) error) error {
	r := v.of
	if r.again {
		return v.enter(ctx)
	}
	v.pass(resumedAt(r))
	switch {
	case r.job.isAway(r.rank, r.start):
		return v.wait(ctx)
	case r.Resumes():
		return resume(ctx)
	}
	return nil
}

// wait waits until the worker is due, and enters.
func (v *visit) wait(ctx context.Context) error {
	step, ok := v.next(true)
	if !ok {
		v.ended = true
		return nil
	}
	on := onAwait
	if v.first == v.of.job.Observer() {
		on = on.As(comm.Report)
	}
	err := on.Send(ctx, v.of, v.first, Pulled{Version: uint64(step)}, 0)
	var flags message.Flags
	if err == nil {
		_, flags, err = onCome.Hear(comm.Idle(ctx), v.of, v.first)
	}
	if isEnded(err) || flags&FlagStop != 0 {
		v.ended = true
		return nil
	}
	if err != nil {
		return err
	}
	return v.enter(ctx)
}

// isEnded says whether err is that a peer has ended in order.
func isEnded(err error) bool {
	p := new(comm.PeerError)
	return errors.As(err, &p) && p.Ended
}

// enter asks all servers for parameters, and begins with them where the slowest worker is.
// If one of them takes nobody any more the run is over.
func (w *worker) enter(ctx context.Context) error {
	for _, l := range w.links {
		var err error
		if l.relayed() {
			err = onTree.Send(ctx, w.Rank, l.rank, treeWord{code: codeEnter, shard: l.id, learner: w.rank}, 0)
		} else {
			err = OnEnter.Send(ctx, w.Rank, l.server, message.Nothing{}, 0)
		}
		if err != nil && !isEnded(err) {
			return err
		}
	}
	for _, l := range w.links {
		l.before, l.seq, l.voids = l.before+l.seq, 0, 0
		if err := w.welcomed(ctx, l); err != nil && !isEnded(err) {
			return err
		} else if err != nil {
			w.visit.ended = true
		}
	}
	if w.visit.came = !w.visit.ended; w.visit.ended {
		return w.retreat(ctx, rollWord{code: rollEmpty}, FlagDone)
	}
	return nil
}

// relayed says whether what the worker sends the shard goes by a relay.
func (l *link) relayed() bool { return l.rank != l.server }

// anew is what a rank sends with a tag to a worker that has come. What it had sent a process
// that was there before has come before that. Where a relay sits, which takes frames beside,
// there was none.
func (w *worker) anew(ctx context.Context, from int, tag comm.Tag) (comm.Frame, error) {
	if t := w.job.tree(); t != nil && t.relays[w.rank] != nil {
		return w.h.Recv(ctx, from, tag)
	}
	for {
		f, err := w.h.Recv(ctx, from, comm.AnyTag)
		if err != nil || f.Header.Tag == tag {
			return f, err
		}
		f.Release()
	}
}

// welcomed takes the parameters that a server begins with, behind the word of the relay, if
// there is one, that it takes the worker's pushes.
func (w *worker) welcomed(ctx context.Context, l *link) error {
	if l.relayed() {
		f, err := w.anew(ctx, l.rank, onWelcome.Tag())
		if err != nil {
			return err
		}
		f.Release()
	}
	cast := wire.IsCast(w.job.DownCodec)
	parts := 1
	if cast {
		parts = len(l.shard.Parts)
	}
	for k := 0; k < parts; {
		f, err := w.anew(ctx, l.server, onWelcome.Tag())
		if err != nil {
			return err
		}
		if f.Header.Kind != comm.Parameters {
			f.Release()
			w.visit.ended = true
			return nil
		}
		l.version = f.Header.Version
		if l.id == 0 && k == 0 {
			step := int(f.Header.Step) * w.job.perPush()
			w.stats.missed += uint64(step - w.step) // less, if it had made more
			w.step = step
			w.visit.pass(int(l.version))
		}
		switch {
		case cast:
			err = w.take(l, k, f)
		case !w.job.Weightless:
			err = l.begin(w.params.F(), f.Body)
		}
		f.Release()
		if err != nil {
			return fmt.Errorf("worker %d, before step %d: %w", w.rank, w.step, err)
		}
		k++
	}
	return nil
}

// retreat tells all servers that the worker pushes no more.
func (w *worker) retreat(ctx context.Context, why rollWord, flags message.Flags) error {
	for _, l := range w.links {
		var err error
		if l.relayed() {
			err = onTree.Send(ctx, w.Rank, l.rank, treeWord{code: codeLeave, shard: l.id, learner: w.rank, why: why.code, left: why.left}, flags)
		} else {
			err = onLeave.Send(ctx, w.Rank, l.server, why, flags)
		}
		if err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// departs leaves an open run where that is due by plan, and comes back where that is. settle
// waits for what is under way.
func (w *worker) departs(ctx context.Context, settle func(context.Context) error) error {
	if !w.due() {
		return nil
	}
	if err := settle(ctx); err != nil || w.flags != 0 {
		return err
	}
	if err := w.goes(ctx); err != nil || w.visit.gone() {
		return err
	}
	return w.returns(ctx)
}

// due says whether the worker leaves now by plan.
func (w *worker) due() bool {
	if w.visit == nil {
		return false
	}
	step, ok := w.visit.next(false)
	return ok && int(w.links[0].version) >= step
}

// goes tells all servers that the worker leaves, and what its codecs have yet to send: it is
// lost.
func (w *worker) goes(ctx context.Context) error {
	word, flags := rollWord{code: rollLeaves}, message.Flags(0)
	for _, l := range w.links {
		word.left += l.out.Residual()
	}
	if _, returns := w.visit.next(true); !returns {
		w.visit.ended, flags = true, FlagDone
	}
	return w.retreat(ctx, word, flags)
}

// returns comes back when that is due, with codecs that begin anew.
func (w *worker) returns(ctx context.Context) error {
	for _, l := range w.links {
		if err := w.connect(l); err != nil {
			return err
		}
	}
	return w.visit.wait(ctx)
}
