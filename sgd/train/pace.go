package train

import (
	"context"
	"sync"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// pace is how a worker that nobody waits for, or only its neighbours do, heeds
// the observer. An activity of its own answers the observer's calls at once,
// whatever the worker is computing:
//
//	hold   how many steps have you begun? begin no more
//	show   tell your parameters, as they are
//	came   another worker is there     (of open runs, as those that follow)
//	goes   another worker leaves
//	leave  you leave
//
// After a hold the observer, who has heard from all, grants each a limit; a
// worker that has made as many steps says that it is quiet. When all are, no
// frame is under way between workers, and states are taken or the run ends.
type pace struct {
	*Rank
	show  func(ctx context.Context, version int, last bool) error // answers show; nil: nobody asks
	rest  func(ctx context.Context) error                         // waits for what is under way to others; nil: nothing is
	lost  func(ctx context.Context, err error) error              // notes the death of a worker, or returns err; nil: any ends the run
	hears func(callWord)                                          // what is said of other workers, and of leaving

	mu    sync.Mutex
	begun int           // steps
	since time.Duration // when leave for the present one was asked for
	held  bool          // by a hold

	heard   int  // steps, by the observer
	keepAt  int  // step before which the state is told; 0: none
	granted bool // after a hold
	limit   int
}

// begin starts the activity.
func (p *pace) begin() {
	p.from(p.step)
	p.h.Go("pace", p.answer)
}

// from begins, or begins again, with a step.
func (p *pace) from(step int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun, p.heard = step, step
}

// end ends it, once it has answered what it was asked.
func (p *pace) end(ctx context.Context) error {
	if err := onCall.As(comm.Control).Wake(ctx, p.Rank, callWord{code: callQuit}, 0); err != nil {
		return err
	}
	_, _, err := onEnded.Wait(ctx, p.Rank)
	return err
}

func (p *pace) answer(ctx context.Context, _ comm.Host) error {
	idle := comm.Idle(ctx) // the observer may never call
	for {
		call, _, err := onCall.Hear(idle, p.Rank, comm.AnyRank)
		if err != nil {
			if p.lost != nil {
				err = p.lost(ctx, err)
			}
			if err != nil {
				return err
			}
			continue
		}
		switch call.code {
		case callQuit:
			return onEnded.Wake(ctx, p.Rank, message.Nothing{}, 0)
		case callHold:
			p.mu.Lock()
			p.held = true
			begun := p.begun
			p.mu.Unlock()
			err = onBegun.Send(ctx, p.Rank, p.job.Observer(), message.Count{N: begun}, 0)
		case callCame, callGoes, callLeave:
			p.hears(call)
		default:
			err = p.show(ctx, call.updates, call.code == callLast)
		}
		if err != nil {
			return err
		}
	}
}

// lead is how many steps a worker may be ahead of what the observer has heard: two
// evaluations' at the most.
func (j *Job) lead() int {
	if j.EvalEvery == 0 {
		return stepsAhead
	}
	return min(stepsAhead, max(4, 2*j.EvalEvery/j.Workers))
}

// tick tells the observer of a step made, once it has heard of those that are a lead before
// it.
func (p *pace) tick(ctx context.Context, steps int, loss float64) error {
	for lead := p.job.lead(); !p.h.Virtual() && steps-p.heard > lead; {
		w, _, err := onHeard.Hear(comm.Idle(ctx), p.Rank, p.job.Observer())
		if err != nil {
			return err
		}
		p.heard = max(p.heard, w.N)
	}
	c := p.h.Traffic().Count()
	return onTick.Send(ctx, p.Rank, p.job.Observer(), tickWord{steps, loss, c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient]}, 0)
}

// next asks for leave to begin a step; nobody begins more than there are updates.
// The flags say otherwise: FlagDone, or FlagStop after save has taken the state.
// Both come with the updates of a free run.
// keep tells the state in passing.
func (p *pace) next(ctx context.Context, step int, save func(ctx context.Context, updates int) error, keep func(ctx context.Context) error) (flags message.Flags, updates int, err error) {
	p.since = p.h.Now()
	for {
		if p.keepAt > 0 && step == p.keepAt {
			p.keepAt = 0
			if err := keep(ctx); err != nil {
				return 0, 0, err
			}
		}
		p.mu.Lock()
		held := p.held
		if (!held && step < p.job.Updates) || (p.granted && step < p.limit) {
			p.begun = step + 1
			p.mu.Unlock()
			return 0, 0, nil
		}
		p.mu.Unlock()
		if !p.granted {
			limit, flags, err := onLimit.Hear(ctx, p.Rank, p.job.Observer())
			if err != nil {
				return 0, 0, err
			}
			if flags&FlagKeep != 0 {
				p.mu.Lock()
				p.held, p.keepAt = false, limit.N
				p.mu.Unlock()
				continue
			}
			p.granted, p.limit = true, limit.N
			continue
		}
		if p.rest != nil {
			if err := p.rest(ctx); err != nil {
				return 0, 0, err
			}
		}
		if err := onQuiet.Send(ctx, p.Rank, p.job.Observer(), message.Count{N: step}, 0); err != nil {
			return 0, 0, err
		}
		rest, flags, err := onRest.Hear(ctx, p.Rank, p.job.Observer())
		if err != nil || flags&FlagDone != 0 {
			return flags, rest.N, err
		}
		p.mu.Lock()
		p.held, p.granted = false, false
		p.mu.Unlock()
		if err := save(ctx, rest.N); err != nil || flags&FlagStop != 0 {
			return flags, rest.N, err
		}
	}
}
