// Package trace keeps what happens on a virtual cluster and shows it: as a
// Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open, and
// as a picture.
package trace

import (
	"time"

	"github.com/gradlab/gradlab/comm/sim"
)

// Recorder keeps spans and frames. The zero value records every rank without
// limit.
type Recorder struct {
	// Names of the ranks, in order. Ranks beyond the end are not recorded; nil:
	// all are, by number.
	Names []string
	// Limit is how many spans and frames are kept, the first ones. 0: all.
	Limit int

	spans   []sim.Span
	frames  []sim.Passage
	dropped int
	end     time.Duration // of the last one, kept or not
}

var _ sim.Probe = (*Recorder)(nil)

// Span implements sim.Probe.
func (r *Recorder) Span(s sim.Span) {
	if r.keeps(s.Rank, s.To) {
		r.spans = append(r.spans, s)
	}
}

// Frame implements sim.Probe.
func (r *Recorder) Frame(p sim.Passage) {
	if r.keeps(int(p.Header.From), p.Arrived) {
		r.frames = append(r.frames, p)
	}
}

func (r *Recorder) keeps(rank int, to time.Duration) bool {
	if r.Names != nil && rank >= len(r.Names) {
		return false
	}
	r.end = max(r.end, to)
	if r.Limit > 0 && len(r.spans)+len(r.frames) >= r.Limit {
		r.dropped++
		return false
	}
	return true
}

// Dropped is how many spans and frames came after the limit.
func (r *Recorder) Dropped() int { return r.dropped }

// All is the stretch of time in which something happened, kept or not.
func (r *Recorder) All() Window {
	w := r.Kept()
	return Window{w.From, max(w.To, r.end)}
}

// Kept is the stretch of time of what was kept.
func (r *Recorder) Kept() Window {
	w := Window{From: 1<<63 - 1}
	for _, s := range r.spans {
		w.From, w.To = min(w.From, s.From), max(w.To, s.To)
	}
	for _, p := range r.frames {
		w.From, w.To = min(w.From, p.Sent), max(w.To, p.Arrived)
	}
	return Window{min(w.From, w.To), w.To}
}

// ranks is the number of ranks with something to show, counted from 0.
func (r *Recorder) ranks() int {
	if r.Names != nil {
		return len(r.Names)
	}
	n := 0
	for _, s := range r.spans {
		n = max(n, s.Rank+1)
	}
	for _, p := range r.frames {
		n = max(n, int(p.Header.From)+1)
	}
	return n
}
