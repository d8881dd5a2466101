package train

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// guests is what a server of an open run knows of workers that come and go.
type guests struct {
	lives  []uint32       // incarnations of those that have come
	dead   []uint32       // incarnations before this one have died
	counts []uint64       // by worker: pushes of the present stay that are in server.made
	awaits map[int]uint64 // who comes when so many updates are made
	marks  int            // checkpoints that are whole
	halted bool           // the last of them was that of a stop
	asked  bool           // the observer has the state of the present one, and has yet to say that it is whole
}

func (s *server) newGuests() {
	n := s.job.Workers
	s.guests = &guests{lives: make([]uint32, n), dead: make([]uint32, n), counts: make([]uint64, n), awaits: map[int]uint64{}}
	s.made, s.told = make([]uint64, n), make([]uint64, n)
}

// invites lets those begin who are there, and no others; with a resume the dead are, too.
// Shards may have come to different versions: who is there is alike on all.
func (s *server) invites() error {
	for w := range s.job.Workers {
		away := s.job.AwayAt(w, resumedAt(s.Rank))
		if s.Resumes() { // last reports of before are gone
			gone := s.told[w]
			if !s.core.Live(w) {
				gone = s.made[w]
			}
			s.past[w], s.made[w], s.told[w] = s.past[w]+gone, s.made[w]-gone, 0
			s.core.Restart(w, s.job.Incarnation)
		}
		switch {
		case away:
			if _, err := s.core.Leave(w); err != nil {
				return err
			}
		case !s.core.Live(w):
			s.core.Join(w, s.job.Incarnation)
			s.guests.counts[w] = 0
			if err := s.renewIn(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// loses is lose for a worker of an open run. One that has ended told what it sent, whatever
// becomes of a process that comes after it.
func (s *server) loses(ctx context.Context, p *comm.PeerError) error {
	w, life := p.Rank, s.guests.lives[p.Rank]
	if s.trunk.carries(w) {
		return s.trunk.cut(p)
	}
	if p.Incarnation < life {
		return nil
	}
	delete(s.guests.awaits, w)
	s.guests.dead[w] = p.Incarnation + 1
	if !s.core.Live(w) || s.ended[w] && p.Incarnation > life {
		return nil
	}
	return s.without(ctx, p)
}

// outdated says whether a frame is of a process of a worker that another one has replaced.
func (s *server) outdated(h *comm.Header) bool {
	w := int(h.From)
	return w < s.job.Workers && h.Incarnation < s.guests.lives[w]
}

// visits handles what is said of coming and going, and of checkpoints, in an open run.
func (s *server) visits(ctx context.Context, f comm.Frame) (handled bool, err error) {
	if s.guests == nil {
		return false, nil
	}
	h := f.Header
	w := int(h.From)
	if s.outdated(&h) {
		f.Release()
		return true, nil
	}
	switch h.Tag {
	case OnEnter.Tag():
		err = s.enters(ctx, w, h.Incarnation)
	case onLeave.Tag():
		err = s.leaves(ctx, w, h.Incarnation, onLeave.Open(f).Word, h.Flags)
	case onAwait.Tag():
		s.guests.awaits[w] = onAwait.Open(f).Word.Version
		err = s.calls(ctx)
	case onGo.Tag():
		if s.guests.asked {
			err = s.whole(ctx, f)
		}
	default:
		return false, nil
	}
	f.Release()
	return true, err
}

// enters takes a worker's pushes from now on, and sends it parameters. Behind the end of
// the run, or where it is to stop, nobody comes.
func (s *server) enters(ctx context.Context, w int, life uint32) error {
	if life < s.guests.dead[w] { // its word had a longer way than the news
		return nil
	}
	if s.core.Live(w) && !s.ended[w] { // before the news of its death
		if err := s.without(ctx, &comm.PeerError{Rank: w, Lost: true, Cause: "its process has ended, and another one has come"}); err != nil {
			return err
		}
	}
	if life != s.guests.lives[w] && !s.ended[w] { // the process before it may have ended while it was away
		s.forget(w)
	}
	if s.stop || s.core.Done() {
		return s.send(ctx, w, comm.NewFrame(onWelcome.As(comm.Control).Header(s.job, answerWord{Shard: s.id}, FlagStop), comm.NewBuffer(0)))
	}
	s.guests.lives[w] = life
	if err := s.renewIn(w); err != nil {
		return err
	}
	s.core.Come(w, life)
	s.guests.counts[w], s.voids[w] = 0, 0
	if s.id == 0 {
		if err := onMoved.Send(ctx, s.Rank, s.job.Observer(), rollWord{code: rollHere, step: s.core.Version(), rank: w}, 0); err != nil {
			return err
		}
	}
	return s.present(ctx, w, onWelcome, answerWord{Shard: s.id, Step: uint64(s.core.Clock(w)), Version: uint64(s.core.Version())}, 0)
}

// renewIn makes the receiving ends of what a worker sends anew.
func (s *server) renewIn(w int) (err error) {
	if s.job.Weightless || !s.trunk.direct(w) {
		return nil
	}
	s.store.in[w], err = s.job.Content().NewPacker(s.shard, s.job.Codec, s.job.sender(nil, w))
	return err
}

// leaves lets a worker go that leaves by plan, or has found that the run is over.
func (s *server) leaves(ctx context.Context, w int, life uint32, why rollWord, flags message.Flags) error {
	if life != s.guests.lives[w] { // it never came
		return nil
	}
	live := s.core.Live(w)
	if live {
		s.settles(w)
	}
	if flags&FlagDone != 0 { // it tells
		s.told[w] = s.made[w]
	}
	if !live { // the run is over
		return nil
	}
	if err := s.dismiss(ctx, w); err != nil {
		return err
	}
	if s.id == 0 && why.code == rollLeaves {
		why.step, why.rank = s.core.Version(), w
		if err := onMoved.Send(ctx, s.Rank, s.job.Observer(), why, 0); err != nil {
			return err
		}
	}
	return s.goesOn(ctx, &comm.PeerError{Rank: w, Lost: true, Cause: "left by plan"})
}

// settles counts what a worker has sent in the stay that ends.
func (s *server) settles(w int) {
	n := s.core.Received()[w]
	s.made[w] += n - s.guests.counts[w]
	s.guests.counts[w] = n
}

// calls calls those who are due.
func (s *server) calls(ctx context.Context) error {
	for _, w := range slices.Sorted(maps.Keys(s.guests.awaits)) {
		if uint64(s.core.Version()) < s.guests.awaits[w] {
			continue
		}
		delete(s.guests.awaits, w)
		if err := onCome.Send(ctx, s.Rank, w, message.Nothing{}, 0); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// list is who is at the present mark. Shards may differ in that while a worker comes: the
// checkpoint is whole when they do not.
func (s *server) list() (at []int) {
	for w := range s.job.Workers {
		if s.core.Live(w) && s.saved[w] {
			at = append(at, w)
		}
	}
	return at
}

// whole lets those go on who are in a checkpoint that is whole.
func (s *server) whole(ctx context.Context, f comm.Frame) error {
	var at []int
	if len(f.Body) == 0 { // there was nothing to keep
		at = s.list()
	} else if err := json.Unmarshal(f.Body, &at); err != nil {
		return fmt.Errorf("who goes on from a checkpoint: %w", err)
	}
	s.guests.asked = false
	s.guests.marks++
	if err := s.goesOnFrom(ctx, at, f.Header.Flags); err != nil || !s.halts {
		return err
	}
	s.guests.halted = true
	return s.goesOnFrom(ctx, s.list(), 0)
}

// stray counts gradients of workers that have died, which were under way in relays. With
// them a checkpoint that is yet to be whole is another one.
func (s *server) stray(ctx context.Context, of []comm.Header) error {
	for i := range of {
		if w := int(of[i].From); !s.core.Live(w) {
			s.settles(w)
			s.forget(w)
		}
	}
	if s.guests.asked {
		return s.checkpoint(ctx)
	}
	return nil
}

// closes tells the relays of an open run, which wait for who may come, that it is over.
func (s *server) closes(ctx context.Context) error {
	if s.guests == nil || s.trunk == nil {
		return nil
	}
	for _, c := range s.trunk.tree.top {
		if s.trunk.tree.relay(c, servers) == nil {
			continue
		}
		if err := onTree.Send(ctx, s.Rank, c, treeWord{code: codeOver, shard: s.id}, 0); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}
