package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// In an open run learners come and go below relays. What one says of that passes the relays
// as its gradients do, behind those that it pushed before: when a server hears that a
// learner has come, it has all that the process before it had sent. Relays themselves stay
// as long as the run goes on.

// opens notes who is not there when the run begins.
func (r *relay) opens(ctx context.Context) error {
	for _, s := range r.stems {
		for w := range s.phase {
			if r.job.AwayAt(r.at.lo+w, resumedAt(r.Rank)) {
				s.phase[w] = gone
			}
		}
	}
	return r.tells(ctx)
}

// below says whether a child is a learner.
func (s *stem) below(child int) bool {
	return s.in[child] != nil && s.tree.relay(child, s.at.rank) == nil
}

// outdated says whether a frame is of a process of a learner that another one has replaced.
func (s *stem) outdated(h *comm.Header) bool {
	from := int(h.From)
	return s.open && s.below(from) && h.Incarnation < s.lives[from-s.at.lo]
}

// rouse notes that a learner which was at a mark has gone on.
func (s *stem) rouse(learner int) {
	if w := learner - s.at.lo; s.open && s.phase[w] == resting {
		s.phase[w] = active
	}
}

// visits handles the word of a learner that has come or left. One that pushes to this relay
// is told that its pushes are taken from now on.
func (s *stem) visits(ctx context.Context, hd comm.Header, word treeWord) (err error) {
	w, mine := word.learner-s.at.lo, s.below(int(hd.From))
	if !s.open || w < 0 || w >= len(s.phase) || mine && word.learner != int(hd.From) {
		return fmt.Errorf("rank %d says that learner %d comes or leaves", hd.From, word.learner)
	}
	if mine {
		word.life = hd.Incarnation
	}
	s.words = append(s.words, spoken{word, hd.Flags})
	if word.code == codeLeave {
		if s.phase[w] = gone; mine {
			return s.dismiss(ctx, word.learner)
		}
		return nil
	}
	if mine {
		s.forget(word.learner) // before the news of its death
		if s.in[word.learner], err = s.job.packer(s.shard, s.job.Codec, s.job.sender(nil, word.learner)); err != nil {
			return err
		}
		err = s.tell(ctx, word.learner, comm.NewFrame(onWelcome.As(comm.Control).Header(s.job, answerWord{Shard: s.id}, 0), comm.NewBuffer(0)))
	}
	if word.life >= s.lives[w] { // else the news of its death had a shorter way
		s.phase[w], s.lives[w] = active, word.life
	}
	s.news = true
	return err
}

// dismiss answers a learner that leaves and keeps asking for parameters: there are none.
func (s *stem) dismiss(ctx context.Context, learner int) error {
	keep := s.pulls[:0]
	for _, p := range s.pulls {
		if p.child != learner {
			keep = append(keep, p)
			continue
		}
		if err := s.tell(ctx, learner, comm.NewFrame(s.job.paramsBelow(false, comm.Control, s.id, 0, 0), comm.NewBuffer(0))); err != nil {
			return err
		}
	}
	s.pulls = keep
	return nil
}

// closes hears that the run is over, and tells the relays below.
func (s *stem) closes(ctx context.Context) error {
	s.over = true
	for _, c := range s.at.children {
		if s.tree.relay(c, s.at.rank) == nil {
			continue
		}
		if err := s.tell(ctx, c, comm.NewFrame(onTree.Header(s.job, treeWord{code: codeOver, shard: s.id}, 0), comm.NewBuffer(0))); err != nil {
			return err
		}
	}
	return nil
}

// above is what sending to the parent has come to. In an open run that may have ended before
// it gets the last gradients of learners that have died.
func (s *stem) above(err error) error {
	if s.open && isEnded(err) {
		return nil
	}
	return err
}

// flow is how many sums a relay has passed on and got since the run began in this process,
// by shard. A checkpoint is whole when each node of the tree has got what those below it
// have sent.
type flow struct {
	Sent []int
	Got  []map[int]int // by relay below

	kept *checkpoint.State // what the relay has to remember
}

// tells tells the observer what the relay has to remember if that is news, when nobody below
// is at work. The last word of each relay is part of the next checkpoint.
func (r *relay) tells(ctx context.Context) error {
	if !r.news || r.job.Weightless {
		return nil
	}
	var f flow
	for _, s := range r.stems {
		if s.over || s.flags&FlagDone != 0 || s.n > 0 || slices.Contains(s.phase, active) {
			return nil
		}
		f.Sent, f.Got = append(f.Sent, s.passed), append(f.Got, s.got)
	}
	k := checkpoint.Saving(checkpoint.New())
	r.Keep(k)
	if k.Record(keyFlow, f); k.Err() != nil {
		return k.Err()
	}
	r.news = false
	return r.sendState(ctx, k.Of)
}
