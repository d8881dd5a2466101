package grpcnet

import (
	"context"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// OrphanError is the end of a process that has lost the coordinator without a word, in a
// run with Config.Late. If that one comes back all meet again.
type OrphanError struct {
	Err error
}

func (e *OrphanError) Error() string { return "the coordinator is gone: " + e.Err.Error() }
func (e *OrphanError) Unwrap() error { return e.Err }

// newsTime is how long the coordinator, which has failed as somebody was lost, waits for
// the news of who: those who lost it may be heard before.
const newsTime = time.Second

// meets says whether a rank of this process that failed has all meet again.
func (r *run) meets(err error) bool {
	if r.again.Load() != nil {
		return true
	}
	if r.meet == nil || r.cfg.Again == nil || !isLoss(err) {
		return false
	}
	for give := monotonic() + newsTime; ; time.Sleep(lookAgain) {
		over := monotonic() > give || r.ctx.Err() != nil
		if r.cfg.Again(r.lost(over)) {
			return true
		}
		if over {
			return false
		}
	}
}

// lost are the ranks that are gone, and did not fail by themselves; with bereft those too
// that ended as another one was lost, which they come back from if all meet again.
func (r *run) lost(bereft bool) (all []*comm.PeerError) {
	for rank := range r.gone {
		if g := r.gone[rank].Load(); g != nil && g.err.Lost && (bereft || !g.bereft) {
			all = append(all, g.err)
		}
	}
	return all
}

// meetAgain ends this process's part in the run: all processes meet again, at the same
// coordinator. Each makes another Net for it, and every meeting has links of its own, so
// that frames of the one before are refused.
func (r *run) meetAgain(why error) {
	err := &comm.AgainError{Err: why}
	if !r.again.CompareAndSwap(nil, err) {
		return
	}
	for _, h := range r.hosts {
		h.Box.Close(err)
	}
	r.cancel(err)
}

// awaitWord waits, in a process that has ended as a rank was lost without which the run
// cannot go on, for the coordinator's word on what becomes of it.
func (r *run) awaitWord(ctx context.Context) {
	lost := slices.ContainsFunc(r.cfg.Fixed, func(rank int) bool {
		g := r.gone[rank].Load()
		return g != nil && g.err.Lost
	})
	if !lost || !r.cfg.Late || r.meet != nil || r.links == nil || r.first.Err() == nil {
		return
	}
	t := time.NewTicker(lookAgain)
	defer t.Stop()
	for l := r.links[r.lead].Load(); l != nil && l.lives() && r.again.Load() == nil; {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// lives says whether more may come from the other process.
func (l *link) lives() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == alive
}

// toldAgain heeds the coordinator's word that all meet again.
func (l *link) toldAgain(rank int, why string) {
	l.run.meetAgain(&comm.PeerError{Rank: rank, Cause: why, Lost: true, Incarnation: l.life})
}

// ending is what Run returns for the error that a run has ended with.
func (r *run) ending(err error) error {
	if a := r.again.Load(); a != nil {
		return a
	}
	if err == nil || r.meet != nil || !r.cfg.Late || !isLoss(err) || isFenced(err) || r.links == nil {
		return err
	}
	if l := r.links[r.lead].Load(); l != nil && l.died() {
		return &OrphanError{err}
	}
	return err
}

// waits says whether a process must wait until all meet again before it can come: the run
// cannot go on without it, or ends just now for all to meet.
func (r *run) waits(ranks []int) bool {
	return r.again.Load() != nil || slices.ContainsFunc(ranks, func(rank int) bool { return slices.Contains(r.cfg.Fixed, rank) })
}
