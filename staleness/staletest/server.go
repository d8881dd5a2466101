// Package staletest is the conformance suite of staleness policies, and the
// tools it is made of: a server without parameters, workers that finish in
// random order, and transcripts to read.
package staletest

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/gradlab/gradlab/staleness"
)

// Push is a gradient, as far as a policy is concerned.
type Push struct {
	Worker  int
	Clock   int // pushes the worker had made before
	Version int // of the parameters it was computed on
	Delay   int // updates since then, at the time it was applied
}

// Server is the smallest server a policy can steer. It does what the comment on
// staleness.Policy says, to the letter, and keeps the books:
//
//   - a push sets Waiting and counts in Pushed before Admit is asked;
//   - after Admit, Flush is asked until it declines or nothing is held, and
//     Cancel after each update;
//   - then Release is asked for every waiting worker in rank order;
//   - what a leaving worker has pushed stays held.
type Server struct {
	View staleness.View

	Pushes, Applied, Dropped int

	// OnUpdate, if set, sees the pushes of each update, in rank order.
	OnUpdate func(pushes []Push)

	policy  staleness.Policy
	base    []int // version each worker computes on
	held    []Push
	skipped int      // clocks that workers were put forward by when they joined
	deaf    bool     // words to start over come too late for everybody
	talk    bool     // write out:
	out     []string // what happened since the last call
	err     error

	copied staleness.View // what a policy is shown
}

// NewServer returns a server to whom all workers belong and compute on version 0.
func NewServer(p staleness.Policy, workers int) *Server {
	s := &Server{policy: p, base: make([]int, workers)}
	s.View = staleness.View{
		Live: make([]bool, workers), Pushed: make([]int, workers),
		Held: make([]int, workers), Waiting: make([]bool, workers),
	}
	for w := range s.View.Live {
		s.View.Live[w] = true
	}
	return s
}

// Runs says whether worker w is computing: a member that does not wait.
func (s *Server) Runs(w int) bool { return s.View.Live[w] && !s.View.Waiting[w] }

// Push lets worker w deliver the gradient it has been computing. It returns the
// workers that now start on a new one: those answered, and those whose running
// gradient became void.
func (s *Server) Push(w int) (started []int) {
	v := &s.View
	p := Push{Worker: w, Clock: v.Pushed[w], Version: s.base[w]}
	s.Pushes++
	v.Pushed[w]++
	v.Waiting[w] = true
	v.Delay = v.Version - p.Version
	switch verdict := s.admit(w); verdict {
	case staleness.Apply:
		s.say("apply, staleness %d", v.Delay)
		started = s.update([]Push{p})
	case staleness.Hold:
		s.held = append(s.held, p)
		v.Held[w]++
		s.say("hold, staleness %d so far", v.Delay)
	case staleness.Drop:
		s.Dropped++
		s.say("drop, staleness %d", v.Delay)
	}
	return append(started, s.settle()...)
}

// Leave removes worker w and returns the workers that start because of it.
func (s *Server) Leave(w int) (started []int) {
	s.View.Live[w], s.View.Waiting[w] = false, false
	return s.settle()
}

// Join makes worker w a member again; it computes on the current version, and
// its clock is at least that of the slowest member.
func (s *Server) Join(w int) {
	if behind := s.View.MinClock() - s.View.Pushed[w]; behind > 0 {
		s.View.Pushed[w] += behind
		s.skipped += behind
	}
	s.View.Live[w], s.View.Waiting[w] = true, false
	s.base[w] = s.View.Version
}

func (s *Server) settle() (started []int) {
	for len(s.held) > 0 && s.flush() {
		batch := s.held
		s.held = nil
		clear(s.View.Held)
		sort.SliceStable(batch, func(i, j int) bool { return batch[i].Worker < batch[j].Worker })
		started = append(started, s.update(batch)...)
	}
	var answered []int
	for w, waiting := range s.View.Waiting {
		if waiting && s.release(w) {
			s.View.Waiting[w] = false
			s.base[w] = s.View.Version
			answered = append(answered, w)
		}
	}
	if len(answered) > 0 {
		s.say("answer %s with version %d", ints(answered), s.View.Version)
	}
	return append(started, answered...)
}

func (s *Server) update(batch []Push) (void []int) {
	for i := range batch {
		batch[i].Delay = s.View.Version - batch[i].Version
	}
	s.Applied += len(batch)
	s.View.Version++
	s.say("update to version %d from %s", s.View.Version, pushes(batch))
	if s.OnUpdate != nil {
		s.OnUpdate(batch)
	}
	for _, w := range s.policy.Cancel(s.View) {
		if s.Runs(w) && !s.deaf {
			s.base[w] = s.View.Version
			void = append(void, w)
		}
	}
	if len(void) > 0 {
		s.say("void %s", ints(void))
	}
	return void
}

// The three questions, each asked twice: a policy is a function of the view and
// must not change it.

func (s *Server) admit(w int) staleness.Verdict {
	return ask(s, "Admit", func(v staleness.View) staleness.Verdict { return s.policy.Admit(v, w) })
}

func (s *Server) flush() bool { return ask(s, "Flush", s.policy.Flush) }

func (s *Server) release(w int) bool {
	return ask(s, "Release", func(v staleness.View) bool { return s.policy.Release(v, w) })
}

func ask[A comparable](s *Server, name string, question func(staleness.View) A) A {
	v, c := s.View, &s.copied
	c.Live, c.Waiting = append(c.Live[:0], v.Live...), append(c.Waiting[:0], v.Waiting...)
	c.Pushed, c.Held = append(c.Pushed[:0], v.Pushed...), append(c.Held[:0], v.Held...)
	v.Live, v.Waiting, v.Pushed, v.Held = c.Live, c.Waiting, c.Pushed, c.Held
	first, again := question(v), question(v)
	same := slices.Equal(v.Live, s.View.Live) && slices.Equal(v.Waiting, s.View.Waiting) &&
		slices.Equal(v.Pushed, s.View.Pushed) && slices.Equal(v.Held, s.View.Held)
	if s.err == nil && (first != again || !same) {
		s.err = fmt.Errorf("%s is no function of the view: %v, then %v on the same", name, first, again)
	}
	return again
}

// Check returns an error if a push was lost, if the policy is no function of
// its view, or if every live worker waits for an answer.
func (s *Server) Check() error {
	v := s.View
	pushed := 0
	for _, n := range v.Pushed {
		pushed += n
	}
	switch {
	case s.err != nil:
		return s.err
	case s.Pushes != s.Applied+s.Dropped+len(s.held) || pushed != s.Pushes+s.skipped || v.NumHeld() != len(s.held):
		return fmt.Errorf("%d pushes, but %d applied, %d dropped and %d held", s.Pushes, s.Applied, s.Dropped, len(s.held))
	case v.NumLive() == 0:
		return nil
	}
	for w := range v.Live {
		if s.Runs(w) {
			return nil
		}
	}
	return fmt.Errorf("deadlock: all %d live workers wait; clocks %s, held %s", v.NumLive(), ints(v.Pushed), ints(v.Held))
}

func (s *Server) say(format string, a ...any) {
	if s.talk {
		s.out = append(s.out, fmt.Sprintf(format, a...))
	}
}

// ints and pushes are formatted only when they are written out.
type ints []int

func (x ints) String() string { return strings.Trim(fmt.Sprint([]int(x)), "[]") }

type pushes []Push

func (x pushes) String() string {
	var workers, delays ints
	for _, p := range x {
		workers, delays = append(workers, p.Worker), append(delays, p.Delay)
	}
	return fmt.Sprintf("%v, staleness %v", workers, delays)
}
