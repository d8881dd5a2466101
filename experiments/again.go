package experiments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train"
)

// An elastic run goes on without a worker, but not without a shard of its parameters, nor
// without a worker that relays what others send. When such a rank is lost all meet again,
// with another process in its place, and go on from the last checkpoint as a run does that is
// resumed; none that lives ends.

// goesBack says whether all ranks go back when some are lost: one is among them that the run
// cannot go on without, and all such will have other processes, as returns says. It is nil where none can.
func (e *execution) goesBack(returns func(rank int) bool) func([]*comm.PeerError) bool {
	if !e.of.IsElastic() || e.job.World() == e.job.Workers {
		return nil
	}
	return func(lost []*comm.PeerError) bool {
		var names []string
		for _, p := range lost {
			if !e.job.Fixed(p.Rank) || p.Rank == e.job.Observer() {
				continue
			}
			if !returns(p.Rank) {
				return false
			}
			names = append(names, fmt.Sprintf("%s: %s", e.job.RankName(p.Rank), p.Cause))
		}
		e.gone = strings.Join(names, "; ")
		return len(names) > 0
	}
}

// attempts makes a run, which goes back to its last checkpoint as often as all meet again.
func (e *execution) attempts(try func() error) error {
	for {
		err, again := try(), (*comm.AgainError)(nil)
		if !errors.As(err, &again) {
			return err
		}
		e.behind = again.Err
		if p := new(comm.PeerError); e.config.OnNet().Ranks == config.RanksHere && errors.As(again.Err, &p) { // elsewhere goesBack has said so
			e.gone = fmt.Sprintf("%s: %s", e.job.RankName(p.Rank), p.Cause)
		}
		if err := e.back(); err != nil {
			return err
		}
	}
}

// back takes the run to its last checkpoint, or to its beginning without one, in this process.
func (e *execution) back() (err error) {
	e.shut()
	if e.state, e.m, err = e.f.loadCheckpoint(e.hash, e.job.Model.Layout(), e.opt.AllowOlder); err != nil {
		return err
	}
	e.job.Prepare()
	e.resumed = true
	e.rec.status.Restarts++
	to := "there is no checkpoint yet, and all ranks begin anew at step 0"
	if e.m != nil {
		to = fmt.Sprintf("all ranks go back to the checkpoint of step %d", e.m.Version)
	}
	e.rec.show.Note("%s; %s", e.gone, to)
	e.rec.show.Drop()
	if err := e.open(); err != nil {
		return inFolder(err)
	}
	e.rec.show = e.opt.Display.Run(e.title(), e.job.Updates, e.rec.from)
	return nil
}

// ComeBackTime is how long the ranks of an elastic run that nobody launched wait for a
// coordinator that is gone, or for the time of JoinOptions.Timeout, if that is less.
const ComeBackTime = time.Minute

// comesBack says of the end of a rank whether it is to come back to the coordinator, all of
// the run being void, and how long it may look for it; 0: as long as it waits for all ranks.
// A launcher that is gone does not come back.
func (o *JoinOptions) comesBack(err error) (look time.Duration, again bool) {
	orphan := (*grpcnet.OrphanError)(nil)
	switch gone := errors.As(err, &orphan); {
	case o.Launched:
		return 0, errors.As(err, new(*comm.AgainError))
	case gone || errors.As(err, new(*comm.AgainError)):
		return min(ComeBackTime, cmp.Or(o.Timeout, ComeBackTime)), true
	}
	return 0, false
}

// rejoin is what a rank does until it comes to an end of its own: again and again, as long
// as it comes back.
func (o *JoinOptions) rejoin(ctx context.Context, job *train.Job, take func() error) error {
	for before := error(nil); ; {
		err := take()
		if before != nil && errors.As(err, new(*grpcnet.MissingError)) {
			return fmt.Errorf("%w; before that, %w", err, before)
		}
		look, again := o.comesBack(err)
		if !again || ctx.Err() != nil {
			return err
		}
		if o.Logf != nil {
			o.Logf("%s: %v; it joins again", job.RankName(o.Identity.Rank), err)
		}
		o.look, o.back, before = look, true, err
		job.Prepare()
	}
}
