package grpcnet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// A process may come late, while the run goes on, in the place of one that is gone: see
// Config.Late. The coordinator gives it the next incarnation and the table as it is now;
// it dials all who live, and they take it for the ranks it hosts from then on.

// lives is which incarnation of each process this one is linked with, or was last.
type lives struct {
	mu   sync.Mutex // of who replaces a link
	now  []atomic.Uint32
	past comm.Carried // what came in by links that were replaced; guarded by sums.mu
}

// lookAgain is how often the coordinator looks whether a process is gone at last that
// another one would replace.
const lookAgain = 20 * time.Millisecond

// readmit judges a request to join a run that goes on. It waits for the news that the
// process before is gone: one that was killed is so at once, one that is cut off when its
// lease is over.
func (r *run) readmit(ctx context.Context, q *joinRequest) joinReply {
	v := r.meet
	refuse := func(format string, args ...any) joinReply {
		return joinReply{Refused: fmt.Sprintf(format, args...)}
	}
	if fields := comm.Differences(identity(v.cfg.Run, v.cfg.World, v.cfg.Identity), identity(q.Run, q.World, q.Identity)); len(fields) > 0 {
		return joinReply{Refused: "mismatch", Fields: fields}
	}
	select {
	case <-r.begun:
	case <-ctx.Done():
		return refuse("%v", context.Cause(ctx))
	}
	p := slices.IndexFunc(r.table, func(o process) bool { return slices.Equal(o.Ranks, q.Ranks) })
	if p < 0 || p == r.self {
		return refuse("%s are not those of a process that may come while the run goes on", comm.RankList(q.Ranks))
	}
	late := time.NewTimer(r.cfg.Lease + r.cfg.ConnectTimeout)
	defer late.Stop()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for !r.isGone(p) {
		select {
		case <-again.C:
		case <-late.C:
			return refuse("%s has joined already, from %s, and lives", comm.RankList(q.Ranks), r.table[p].Addr)
		case <-ctx.Done():
			return refuse("%v", context.Cause(ctx))
		}
	}
	if r.leaving.Load() || r.gone[q.Ranks[0]].Load().quiet {
		return refuse("%s has ended: there is nothing left to join", comm.RankList(q.Ranks))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.table[p] = process{Ranks: q.Ranks, Addr: q.Addr, Incarnation: v.table[p].Incarnation + 1, Host: q.Host, Links: q.Links}
	reply := joinReply{Table: slices.Clone(v.table), Session: v.session, Lead: v.lead, Late: true, Elapsed: monotonic() - r.start}
	for o := range reply.Table {
		coming := reply.Table[o].Incarnation != r.lives.now[o].Load()
		if o != p && r.isGone(o) && !coming {
			reply.Gone = append(reply.Gone, o)
		}
	}
	r.cfg.Logf("grpcnet: %s comes again, from %s", comm.RankList(q.Ranks), q.Addr)
	return reply
}

// isGone says whether a process is no more, as far as this one knows.
func (r *run) isGone(p int) bool { return r.gone[r.table[p].Ranks[0]].Load() != nil }

// connectLate links a process that comes late with all others. Who is gone, or cannot be
// reached, is gone to it.
func (r *run) connectLate(ctx context.Context, j joinReply) error {
	wait := r.cfg.ConnectTimeout + r.cfg.Lease
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("grpcnet: not linked within %v", wait))
	defer cancel()
	errs := make([]error, len(r.table))
	var all sync.WaitGroup
	for p := range r.table {
		if p != r.self && !slices.Contains(j.Gone, p) {
			all.Go(func() { errs[p] = r.link(ctx, p) })
		}
	}
	all.Wait()
	if errs[r.lead] != nil {
		return errs[r.lead]
	}
	for p, err := range errs {
		if err != nil {
			r.isOut(p, err.Error())
		}
	}
	return nil
}

// isOut counts a process as gone that this one, which came late, has no link with, unless
// another one has come in its place meanwhile.
func (r *run) isOut(p int, why string) {
	r.lives.mu.Lock()
	defer r.lives.mu.Unlock()
	if r.links[p].Load() != nil {
		return
	}
	for _, rank := range r.table[p].Ranks {
		r.markGone(&comm.PeerError{Rank: rank, Cause: why, Lost: true, Incarnation: r.lives.now[p].Load()}, false)
	}
}

// comesLate says of an introduction whether it is that of a process in the place of
// another one.
func (r *run) comesLate(q *linkRequest) bool {
	return r.cfg.Late && q.From >= 0 && q.From < len(r.table) && q.From != r.self && q.Incarnation > r.lives.now[q.From].Load()
}

// replace gives a link the place of one to an earlier process. If that is not known to be
// gone, it is now.
func (r *run) replace(l *link) (why string) {
	r.lives.mu.Lock()
	defer r.lives.mu.Unlock()
	if l.life <= r.lives.now[l.peer].Load() {
		return fmt.Sprintf("incarnation %d of %s has been here before", l.life, comm.RankList(r.table[l.peer].Ranks))
	}
	if old := r.links[l.peer].Load(); old != nil {
		old.lost("another process has come in its place")
		r.sums.mu.Lock()
		r.lives.past.Add(old.received(true))
		r.sums.mu.Unlock()
	}
	r.lives.now[l.peer].Store(l.life)
	r.links[l.peer].Store(l)
	for _, rank := range r.table[l.peer].Ranks {
		for _, h := range r.hosts {
			h.Box.Back(rank)
		}
		r.gone[rank].Store(nil)
	}
	return ""
}
