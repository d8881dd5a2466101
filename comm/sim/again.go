package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/nemesis"
)

// meeting is when all ranks meet again, and why.
type meeting struct {
	why *comm.PeerError
	at  time.Duration
	out map[int]bool // ranks that had died
}

// errMeeting ends what ranks do that are to meet again. It is not the news of a death, which
// some would go on from.
var errMeeting = errors.New("all ranks are to meet again")

// meets notes that all ranks meet again, if h, which ends at this instant, is one that the
// others do not go on without, and comes back.
func (h *host) meets(why error) {
	l := h.loop
	if l.meeting != nil || !slices.Contains(l.fixed, h.rank) || l.hosts[len(l.hosts)-1].acts == 0 {
		return
	}
	if at, ok := l.faults.complete(h.rank, l.now, l.fixed); ok {
		gone := &comm.PeerError{Rank: h.rank, Cause: why.Error(), Lost: true, Killed: true, Incarnation: h.life}
		l.meeting = &meeting{gone, at, map[int]bool{}}
	}
}

// complete is when all are there again after a rank is gone: those who die meanwhile, and
// whom the others do not go on without, come back too.
func (f *faults) complete(rank int, now time.Duration, fixed []int) (at time.Duration, ok bool) {
	if f == nil {
		return 0, false
	}
	if at, ok = f.returns(rank, now); !ok {
		return 0, false
	}
	for _, a := range f.plan { // in order of time
		if a.What != nemesis.Killing || a.At < now || a.At > at || a.Rank != f.last && !slices.Contains(fixed, a.Rank) {
			continue
		}
		back, ok := f.returns(a.Rank, a.At)
		if !ok {
			return 0, false
		}
		at = max(at, back)
	}
	return at, true
}

// returns is when the process of a rank that is gone at an instant starts again.
func (f *faults) returns(rank int, gone time.Duration) (at time.Duration, ok bool) {
	for _, a := range f.plan {
		if a.What == nemesis.Joining && a.Rank == rank && a.At >= gone {
			return a.At, true
		}
	}
	return 0, false
}

// disperse ends what all ranks do, for them to meet.
func (l *loop) disperse() {
	for r, h := range l.hosts {
		l.meeting.out[r] = h.failed != nil || h.acts == 0
	}
	l.tearDown(errMeeting)
}

// again leaves in n what is to come once all have met: another Run goes on there, with
// all ranks.
func (n *Net) again(m *meeting, left time.Duration) error {
	n.now, n.Start = m.at, m.at
	n.Faults = slices.DeleteFunc(slices.Clone(n.Faults), func(a nemesis.Act) bool {
		switch a.What {
		case nemesis.Killing, nemesis.Joining:
			return a.At <= m.at
		case nemesis.Pausing: // of a process that is no more
			return a.At <= left && m.out[a.Rank]
		}
		return false
	})
	return &comm.AgainError{Err: m.why}
}
