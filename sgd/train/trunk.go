package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// trunk is a server's side of a tree.
type trunk struct {
	tree  *tree
	rolls map[int][]comm.Header // by child: of the sum that is on its way
	pulls []wanted
	halt  bool        // the present version is the last before a stop
	got   map[int]int // by relay: sums since the run began in this process
}

func newTrunk(j *Job) *trunk {
	t := j.tree()
	if t == nil {
		return nil
	}
	return &trunk{tree: t, rolls: map[int][]comm.Header{}, got: map[int]int{}}
}

// word handles what a child on the tree says.
func (s *server) word(ctx context.Context, f comm.Frame) error {
	hd, t := f.Header, s.trunk
	w, from := readTree(hd), int(hd.From)
	if t == nil || !slices.Contains(t.tree.top, from) {
		f.Release()
		return fmt.Errorf("rank %d, which is no child of a server, sent word %d of a tree", from, w.code)
	}
	switch w.code {
	case codePush:
		return s.sum(ctx, f, []comm.Header{hd})
	case codeRoll:
		lo, hi := from, from+1
		if b := t.tree.relay(from, servers); b != nil {
			lo, hi = b.lo, b.hi
		}
		s.h.Traffic().Plain(len(f.Body), len(f.Body)) // whatever the codec
		of, err := readRoll(nil, f, lo, hi)
		t.rolls[from] = of
		f.Release()
		return err
	case codeSum:
		of := t.rolls[from]
		delete(t.rolls, from)
		t.got[from]++
		return s.sum(ctx, f, of)
	}
	f.Release()
	if w.code == codePull {
		t.pulls = append(t.pulls, wanted{from, w.have})
		return s.feed(ctx)
	}
	switch {
	case w.learner < 0 || w.learner >= s.job.Workers:
	case w.code == codeRest:
		return s.rest(ctx, w.learner, hd.Flags)
	case w.code == codeBye:
		s.ended[w.learner] = true
		return s.checkpoint(ctx)
	case s.guests == nil:
	case w.code == codeEnter:
		return s.enters(ctx, w.learner, w.life)
	case w.code == codeLeave:
		return s.leaves(ctx, w.learner, w.life, rollWord{code: w.why, left: w.left}, hd.Flags)
	}
	return fmt.Errorf("rank %d sent word %d of learner %d, which a server does not know", from, w.code, w.learner)
}

// sum handles a gradient, or the sum of several.
func (s *server) sum(ctx context.Context, f comm.Frame, of []comm.Header) error {
	from := int(f.Header.From)
	if err := s.times.Decoding(ctx, s.serving(f)); err != nil {
		return err
	}
	plainly(s.h, s.shard.Whole)
	for _, h := range of {
		s.prog.Add(int(h.From), h.Value)
	}
	before := s.core.Version()
	f.Header.Tag = keptTreeTag
	for i := range of {
		of[i].Tag = keptTreeTag
		if s.guests != nil { // who has come since had it said behind them
			of[i].Incarnation = s.guests.lives[of[i].From]
		}
	}
	replies, err := s.core.PushSum(f, of)
	if err != nil {
		return err
	}
	if relay := s.trunk.tree.relay(from, servers) != nil; relay || s.job.threaded() {
		if err := s.send(ctx, from, comm.NewFrame(s.job.takenBelow(relay, s.id), comm.NewBuffer(0))); err != nil {
			return err
		}
	}
	if err := s.moved(ctx, before, replies); err != nil || s.guests == nil {
		return err
	}
	return s.stray(ctx, of)
}

// feed answers children who wait for parameters, if there are newer ones or they
// are to hear something else. With a barrier all who take up a version hear alike
// that the run is being stopped: it was decided when the version was made.
func (s *server) feed(ctx context.Context) error {
	if s.trunk == nil {
		return nil
	}
	version := uint64(s.core.Version())
	var flags message.Flags
	if s.stop && !s.job.synchronous() || s.trunk.halt {
		flags |= FlagStop
	}
	if s.core.Done() {
		flags |= FlagDone
	}
	keep := s.trunk.pulls[:0]
	for _, p := range s.trunk.pulls {
		newer := version >= p.have
		if !newer && flags == 0 && s.job.lasting() {
			keep = append(keep, p)
			continue
		}
		relay := s.trunk.tree.relay(p.child, servers) != nil
		var f comm.Frame
		if !newer {
			f = comm.NewFrame(s.job.paramsBelow(relay, comm.Control, s.id, version, flags), comm.NewBuffer(0))
		} else {
			if err := s.times.Encoding(ctx, s.down.encoding(p.child, 0)); err != nil {
				return err
			}
			var err error
			if f, err = s.down.frame(s.job.paramsBelow(relay, comm.Parameters, s.id, version, flags), p.child, 0, s.store.outgoing(), s.core.Version()); err != nil {
				return fmt.Errorf("parameters for rank %d: %w", p.child, err)
			}
			plainly(s.h, s.shard.Whole)
		}
		if err := s.send(ctx, p.child, f); err != nil {
			return err
		}
	}
	s.trunk.pulls = keep
	return nil
}

// dismiss answers a child that leaves and keeps asking for parameters: there are none.
func (s *server) dismiss(ctx context.Context, child int) error {
	if s.trunk == nil || !s.trunk.direct(child) {
		return nil
	}
	keep := s.trunk.pulls[:0]
	for _, p := range s.trunk.pulls {
		if p.child != child {
			keep = append(keep, p)
			continue
		}
		if err := s.send(ctx, child, comm.NewFrame(s.job.paramsBelow(false, comm.Control, s.id, uint64(s.core.Version()), 0), comm.NewBuffer(0))); err != nil {
			return err
		}
	}
	s.trunk.pulls = keep
	return nil
}

// cut forgets a child that is dead. A relay's death is the end of what it passed
// on, and of the run.
func (t *trunk) cut(p *comm.PeerError) error {
	if t == nil {
		return nil
	}
	if b := t.tree.relays[p.Rank]; b != nil {
		return fmt.Errorf("worker %d, which passed on what workers %d to %d sent: %w", p.Rank, b.lo, b.hi-1, p)
	}
	t.pulls = slices.DeleteFunc(t.pulls, func(w wanted) bool { return w.child == p.Rank })
	return nil
}

// direct says whether a learner pushes to the servers, and not to a relay. Without a tree
// all do.
func (t *trunk) direct(learner int) bool { return t == nil || t.tree.parent[learner] == servers }

// carries says whether a rank has a relay.
func (t *trunk) carries(rank int) bool { return t != nil && t.tree.relays[rank] != nil }
