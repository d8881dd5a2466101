package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gradlab/gradlab/comm"
)

// die ends h's activities at this instant, unless they have ended, as those of a process
// that is killed: they stop where they are, what it has sent arrives, what is sent to it is
// lost, and the others are told that it is gone. That is no error of the run unless the
// others make it one.
func (h *host) die() { h.end(fmt.Errorf("killed at virtual %v", h.loop.now)) }

// end ends h's activities for a reason.
func (h *host) end(why error) {
	if h.acts == 0 || h.failed != nil {
		return
	}
	h.failed, h.asleep, h.killed = why, 0, true
	h.meets(why)
	if f := h.loop.faults; f != nil && h.rank == f.last { // who would tell what the run came to
		h.loop.err.Add(&comm.PeerError{Rank: h.rank, Cause: why.Error(), Lost: true})
	}
	for _, t := range h.tasks {
		if !t.done {
			t.gen++ // whatever it slept for
			t.waiting = false
			h.loop.wake(t)
		}
	}
}

// restart begins the program of a rank that has ended again, as another process: what was
// sent to the one before is lost, but for what is on its way. One that lives lives on.
func (h *host) restart() {
	l := h.loop
	switch {
	case l.hosts[len(l.hosts)-1].acts == 0: // the run is over
		return
	case h.acts > 0 && h.failed != nil: // it is ending at this instant
		l.at(l.now, h.restart)
		return
	case h.acts > 0:
		return
	}
	h.life++
	h.traffic = new(comm.Traffic)
	h.tasks, h.inbox, h.gone, h.news, h.lost, h.failed = nil, inbox{}, nil, nil, nil, nil
	h.asleep, h.stopped, h.lag, h.epoch, h.killed, h.roused = 0, 0, 0, 0, false, false
	for _, o := range l.hosts {
		delete(o.lost, h.rank)
	}
	if f := l.faults; f != nil {
		delete(f.fenced, h.rank)
		maps.DeleteFunc(f.severed, func(link [2]int, _ bool) bool { return link[0] == h.rank || link[1] == h.rank })
	}
	h.Go("main", l.programs[h.rank])
}

// told takes the first death that h has not been told of and whose last frames
// are there; nil, if there is none.
func (h *host) told() *comm.PeerError {
	for i, e := range h.news {
		if !h.loop.pending(e.Rank, h.rank) || h.lost[e.Rank] != nil {
			h.news = slices.Delete(h.news, i, i+1)
			return e
		}
	}
	return nil
}
