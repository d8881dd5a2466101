package grpcnet

import (
	"context"
	"errors"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// goneRank says how a rank ended; quiet means orderly, bereft that another one was lost.
type goneRank struct {
	err           *comm.PeerError
	quiet, bereft bool
}

// markGone tells every rank of this process, once, that a rank has ended.
func (r *run) markGone(e *comm.PeerError, quiet bool) {
	r.ends(&goneRank{err: e, quiet: quiet})
}

func (r *run) ends(g *goneRank) {
	e, quiet := g.err, g.quiet
	if !r.gone[e.Rank].CompareAndSwap(nil, g) {
		return
	}
	r.lastGone.Store(e)
	for _, h := range r.hosts {
		if h.Rank() != e.Rank {
			h.Box.Gone(e, quiet)
		}
	}
}

// alone says whether all ranks but this one are gone.
func (r *run) alone(rank int) bool {
	for o := range r.gone {
		if o != rank && r.gone[o].Load() == nil {
			return false
		}
	}
	return true
}

// farewell tells everybody that a rank of this process has ended.
func (r *run) farewell(h *host, err error) {
	e, kind := &comm.PeerError{Rank: h.Rank(), Cause: "has finished", Ended: err == nil, Incarnation: r.cfg.Incarnation}, byte(msgBye)
	text := ""
	if err != nil {
		e.Cause, kind, text = err.Error(), msgAbort, err.Error()
		if isLoss(err) {
			kind = msgBereft
		}
		if r.meets(err) && r.meet != nil {
			kind = msgAgain
		}
	}
	r.markGone(e, err == nil)
	h.Box.Close(errEnded)
	r.eachLink(func(l *link) {
		if !l.died() { // who was given up must not take it for a good end
			l.order.Tell(rankMessage(kind, h.Rank(), text))
		}
	})
	if kind == msgAgain {
		r.meetAgain(err)
	}
}

// isLoss says of what a rank failed of whether it is the loss of a process.
func isLoss(err error) bool {
	var gone *comm.PeerError
	return errors.As(err, &gone) && gone.Lost || isFenced(err)
}

func isFenced(err error) bool { return errors.As(err, new(*FencedError)) }

func (r *run) eachLink(do func(*link)) {
	for p := range r.links {
		if l := r.links[p].Load(); l != nil {
			do(l)
		}
	}
}

// leave sends what is still queued, waits until the other processes have it,
// and takes the links down. Who is too slow to say that it has it is not dead before a
// lease is over, however short the deadline of programs is. A failed run does not wait
// for longer than a lease, a cancelled one not for longer than a second.
func (r *run) leave() {
	r.overslept()
	wait := max(r.cfg.Deadline, r.cfg.Lease)
	again := r.again.Load() != nil
	if r.first.Err() != nil || again {
		wait = r.cfg.Lease
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), wait)
	defer cancel()
	if !again { // else it has ended by itself, and the others are to hear why
		stop := context.AfterFunc(r.ctx, func() { time.AfterFunc(min(wait, time.Second), cancel) })
		defer stop()
	}
	r.leaving.Store(true)
	r.eachLink(func(l *link) { l.order.Tell([]byte{msgEnd}) })
	r.eachLink(func(l *link) {
		select {
		case <-l.ended:
		case <-ctx.Done():
		}
	})
	r.awaitWord(ctx)
	if again && r.meet != nil { // who had ended before is to hear it, too
		r.eachLink(func(l *link) { l.await(ctx, l.stop) })
	}
	if r.first.Err() == nil && r.again.Load() == nil {
		r.settle(ctx)
	}
	r.eachLink((*link).takeDown)
}

// linger is how long a coordinator that has given up still says so to those who
// are about to join; without it they would call until their own timeout.
const linger = 300 * time.Millisecond

// abandon tells the others that this process will not begin.
func (r *run) abandon(err error) {
	r.first.Add(err)
	if r.meet != nil && r.ctx.Err() == nil {
		t := time.NewTimer(linger)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.ctx.Done():
		}
	}
	for _, h := range r.hosts {
		r.farewell(h, err)
	}
	r.cancel(err)
	r.leave()
}

// fenced ends this process: the others count it as dead.
func (r *run) fenced(by string, silent time.Duration) {
	r.fenceOne.Do(func() {
		err := &FencedError{By: by, Silent: silent, Lease: r.cfg.Lease}
		r.cfg.Logf("grpcnet: %v", err)
		r.first.Add(err)
		for _, h := range r.hosts {
			h.Box.Close(err)
		}
		r.cancel(err)
	})
}
