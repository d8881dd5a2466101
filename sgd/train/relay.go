package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// relay is an inner server of a tree, an activity of the rank of a learner below
// it. Up go gradients: it decodes what its children send, adds it up, and passes
// the sum on, encoded anew, with a roll of the gradients in it. Down come
// parameters: it asks its parent for newer ones when a child wants some, and
// gives all its children the payload that comes, so that no version crosses an
// edge of the tree twice.
//
// With a barrier a sum is passed on when it holds a gradient of every learner
// below, added in rank order; else when it holds as many as an update takes, or
// as there are learners below if these are fewer, and the sum before has been
// taken: what comes meanwhile goes into the next one, so that a slow way up makes
// sums longer and not queues.
type relay struct {
	*Rank
	tree   *tree
	at     *branch
	stems  []*stem
	handed chan *checkpoint.State // by the learner beside it
	hand   *checkpoint.State      // of that learner, who is at a mark
	quit   bool                   // that learner has ended
	open   bool                   // learners come and go
	news   bool                   // there is more to remember than the observer was told
}

// stem is a relay's part of one shard.
type stem struct {
	*relay
	id      int
	up      int // rank of the parent
	shard   *wire.Shard
	tariff  *wire.Tariff         // of decoding what children push
	in      map[int]*wire.Packer // by child
	out     *wire.Packer
	rolls   map[int][]comm.Header // by child: of the sum that is on its way
	waiting []parcelled           // not added up yet
	sum     wire.Vector           // of the gradients in of; empty at first
	of      []comm.Header
	n       int  // gradients here, waiting or in the sum
	sent    int  // sums
	busy    bool // the last one has not been taken

	params comm.Frame    // newest parameters, as they came
	has    uint64        // their version plus one; 0: none
	newest uint64        // version the parent was at, plus one
	flags  message.Flags // that the run is stopped, or over
	pulls  []wanted
	asking bool

	phase   []phase // of the learners below
	words   []spoken
	drained bool // all below rest, or have ended, and the words are passed on

	// Of an open run.
	lives  []uint32    // incarnations of the learners below that have come, or may come
	passed int         // sums since the relay began
	got    map[int]int // by relay below: sums since then
	over   bool        // nobody comes any more
}

// spoken is a word of a learner that waits to be passed on.
type spoken struct {
	treeWord
	flags message.Flags
}

// parcelled is a payload and the gradients in it.
type parcelled struct {
	comm.Frame
	of []comm.Header
}

// wanted is a child's wish for parameters newer than have−1; 0: any.
type wanted struct {
	child int
	have  uint64
}

// phase is what a learner is about.
type phase uint8

const (
	active phase = iota
	resting
	gone
)

// newRelay makes the relay at a place.
func newRelay(of *Rank, t *tree, at *branch, sh []*wire.Shard) (*relay, error) {
	j := of.job
	r := &relay{Rank: of, tree: t, at: at, handed: make(chan *checkpoint.State, 1), open: j.open(), news: true}
	for i, shard := range sh {
		s := &stem{relay: r, id: i, up: at.parent, shard: shard, tariff: j.tariff(shard, false, true), in: map[int]*wire.Packer{}, rolls: map[int][]comm.Header{},
			phase: make([]phase, at.hi-at.lo), lives: make([]uint32, at.hi-at.lo), got: map[int]int{}}
		if s.up == servers {
			s.up = j.Workers + i
		}
		for _, c := range at.children {
			p, err := j.packer(shard, j.Codec, j.sender(t.relay(c, at.rank), c))
			if err != nil {
				return nil, err
			}
			s.in[c] = p
		}
		block := j.sender(at, s.up)
		block.Rank = at.rank
		var err error
		if s.out, err = j.packer(shard, j.Codec, block); err != nil {
			return nil, err
		}
		r.stems = append(r.stems, s)
	}
	return r, nil
}

// program is what the relay does until nobody below needs it.
func (r *relay) program(ctx context.Context, h comm.Host) error {
	idle := comm.Idle(ctx) // it holds nobody up while nothing comes
	if r.open {
		if err := r.opens(ctx); err != nil {
			return err
		}
	}
	for !r.over() {
		f, err := h.Recv(idle, comm.AnyRank, onTree.Tag())
		if err != nil {
			err = r.lose(err)
		} else {
			err = r.take(ctx, f)
		}
		if err != nil {
			return fmt.Errorf("relay of workers %d to %d: %w", r.at.lo, r.at.hi-1, err)
		}
		for _, s := range r.stems {
			if err := s.advance(ctx); err != nil {
				return err
			}
		}
		if err := r.keep(ctx); err != nil {
			return err
		}
	}
	for _, s := range r.stems {
		s.params.Release()
		s.sum.Release() // of learners that have died
	}
	return onRelay.Wake(ctx, r.Rank, message.Nothing{}, 0)
}

// over says whether all below have ended, or will send nothing more as the
// learner beside the relay has: it ends when a checkpoint lets it, at which all
// rest. In an open run others may come until that is over.
func (r *relay) over() bool {
	if r.open {
		return !slices.ContainsFunc(r.stems, func(s *stem) bool { return !s.over })
	}
	return !slices.ContainsFunc(r.stems, func(s *stem) bool {
		return len(s.words) > 0 || slices.ContainsFunc(s.phase, func(p phase) bool { return p != gone }) && !(r.quit && len(s.pulls) == 0)
	})
}

// lose copes with the death of a peer: that of a learner below is as elsewhere,
// that of whoever passes on for others ends the run.
func (r *relay) lose(err error) error {
	var p *comm.PeerError
	if !errors.As(err, &p) || r.job.synchronous() || r.tree.relays[p.Rank] != nil || p.Rank >= r.job.Workers {
		return err
	}
	if p.Rank < r.at.lo || p.Rank >= r.at.hi {
		return nil
	}
	for _, s := range r.stems {
		if w := p.Rank - r.at.lo; p.Incarnation >= s.lives[w] {
			s.forget(p.Rank)
			s.lives[w] = p.Incarnation + 1
		}
	}
	return nil
}

// forget goes on without a learner that has no relay.
func (s *stem) forget(learner int) {
	s.phase[learner-s.at.lo] = gone
	s.pulls = slices.DeleteFunc(s.pulls, func(w wanted) bool { return w.child == learner })
}

// take handles a word.
func (r *relay) take(ctx context.Context, f comm.Frame) error {
	hd, word := f.Header, readTree(f.Header)
	from := int(hd.From)
	if hd.Run != r.job.Run || int(hd.Shard) >= len(r.stems) {
		f.Release()
		return fmt.Errorf("rank %d speaks of shard %d of run %x; there are %d in run %x", from, hd.Shard, hd.Run, len(r.stems), r.job.Run)
	}
	s := r.stems[hd.Shard]
	var known bool
	switch word.code {
	case codeTaken, codeParams, codeOver:
		known = from == s.up
	case codeHand, codeQuit:
		known = from == r.at.rank
	default:
		known = s.in[from] != nil
	}
	if !known {
		f.Release()
		return fmt.Errorf("rank %d, which is no neighbour, sent word %d", from, word.code)
	}
	if s.outdated(&hd) {
		f.Release()
		return nil
	}
	switch word.code {
	case codePush:
		return s.push(ctx, f, append(s.rolls[from][:0], hd))
	case codeRoll:
		lo, hi := from, from+1
		if b := r.tree.relay(from, r.at.rank); b != nil {
			lo, hi = b.lo, b.hi
		}
		var err error
		s.rolls[from], err = readRoll(s.rolls[from][:0], f, lo, hi)
		f.Release()
		return err
	case codeSum:
		s.got[from]++
		return s.push(ctx, f, s.rolls[from])
	case codeParams:
		return s.supply(ctx, f)
	}
	f.Release()
	switch word.code {
	case codePull:
		s.pulls = append(s.pulls, wanted{from, word.have})
		if s.below(from) {
			s.rouse(from)
		}
		return s.serve(ctx, false)
	case codeTaken:
		s.busy = false
	case codeQuit:
		r.quit = true
	case codeHand:
		r.hand = <-r.handed
	case codeRest, codeBye:
		w := word.learner - r.at.lo
		if w < 0 || w >= len(s.phase) {
			return fmt.Errorf("rank %d speaks for learner %d", from, word.learner)
		}
		if s.phase[w] = gone; word.code == codeRest {
			s.phase[w] = resting
		}
		s.words = append(s.words, spoken{word, hd.Flags})
	case codeEnter, codeLeave:
		return s.visits(ctx, hd, word)
	case codeOver:
		return s.closes(ctx)
	default:
		return fmt.Errorf("rank %d sent word %d, which a relay does not know", from, word.code)
	}
	return nil
}

// push takes a payload of a child: of is what it is made of, good until the next
// one comes.
func (s *stem) push(ctx context.Context, f comm.Frame, of []comm.Header) error {
	from := int(f.Header.From)
	s.rolls[from] = of[:0]
	if len(of) == 0 {
		f.Release()
		return fmt.Errorf("rank %d sent a sum without a roll", from)
	}
	if err := Elapse(ctx, s.h, s.job.serving(s.tariff, 0, len(s.shard.Pieces), f.Billed)); err != nil {
		return err
	}
	if k := len(s.waiting); k < cap(s.waiting) { // with the memory of one before
		s.waiting = s.waiting[:k+1]
	} else {
		s.waiting = append(s.waiting, parcelled{})
	}
	p := &s.waiting[len(s.waiting)-1]
	p.Frame, p.of = f, append(p.of[:0], of...)
	s.n += len(of)
	s.drained, s.news = false, true
	for i := range of {
		s.rouse(int(of[i].From))
	}
	if s.job.synchronous() { // all are there before the first is added
		return nil
	}
	if err := s.fold(); err != nil {
		return err
	}
	return s.acknowledge(ctx, from)
}

// acknowledge tells a child that may have one push under way that it is taken.
func (s *stem) acknowledge(ctx context.Context, child int) error {
	relay := s.tree.relay(child, s.at.rank) != nil
	if !relay && !s.job.threaded() {
		return nil
	}
	return s.tell(ctx, child, comm.NewFrame(s.job.takenBelow(relay, s.id), comm.NewBuffer(0)))
}

// fold adds up what waits, in rank order.
func (s *stem) fold() error {
	slices.SortStableFunc(s.waiting, func(a, b parcelled) int { return cmp.Compare(a.Header.From, b.Header.From) })
	for i := range s.waiting {
		p := &s.waiting[i]
		s.of = append(s.of, p.of...)
		err := s.add(p.Frame)
		p.Frame.Release()
		if err != nil {
			return fmt.Errorf("shard %d, payload of rank %d: %w", s.id, p.Header.From, err)
		}
	}
	s.waiting = s.waiting[:0]
	return nil
}

func (s *stem) add(f comm.Frame) error {
	if s.job.Weightless {
		return nil
	}
	in := s.in[int(f.Header.From)]
	from := compress.From{Rank: int(f.Header.From), Step: int(f.Header.Step)}
	if s.sum.F() == nil {
		s.sum = wire.NewVector(s.shard.Size())
		return in.Set(s.shard.Whole, s.sum.F(), false, 1, f.Body, from)
	}
	return in.AddTo(s.shard.Whole, s.sum.F(), false, 1, f.Body, from)
}

// due says whether the sum is to be passed on. In an open run words wait for nothing, and
// stay behind the gradients that came before them.
func (s *stem) due() bool {
	if s.open && len(s.words) > 0 {
		return s.n > 0
	}
	if s.job.synchronous() {
		return s.n == len(s.phase)
	}
	at := 0
	for _, p := range s.phase {
		if p == active {
			at++
		}
	}
	enough := s.n >= min(at, s.job.policy().PerUpdate)
	return s.n > 0 && (at == 0 || !s.busy && enough)
}

// pass sends the sum up.
func (s *stem) pass(ctx context.Context) error {
	if err := s.fold(); err != nil {
		return err
	}
	if err := Elapse(ctx, s.h, s.out.Encoding(s.shard.Whole, false)); err != nil {
		return err
	}
	sum, word := onTree.As(comm.Gradient), treeWord{code: codeSum, shard: s.id, step: uint64(s.sent)}
	step := int(s.of[0].Step)
	f, err := s.out.Frame(sum.Header(s.job, word, 0), s.shard.Whole, s.sum, false,
		compress.Step{N: s.sent, Epoch: s.job.ProgressOf(step).Epoch, Seed: s.job.sender(s.at, 0).Seed})
	if err != nil {
		return fmt.Errorf("sum %d: %w", s.sent, err)
	}
	s.sum.Release()
	word.code = codeRoll
	if err := s.above(sum.Carry(ctx, s.Rank, s.up, word, 0, roll(s.of))); err != nil {
		return err
	}
	s.of, s.n, s.busy = s.of[:0], 0, true
	s.sent++
	s.passed++
	return s.above(s.h.Send(ctx, s.up, f))
}

// supply takes up the parent's answer.
func (s *stem) supply(ctx context.Context, f comm.Frame) error {
	hd := f.Header
	s.asking, s.newest = false, hd.Version+1
	s.flags |= hd.Flags & (FlagStop | FlagDone)
	if hd.Kind == comm.Parameters {
		s.params.Release()
		s.params, s.has = f, s.newest
	} else {
		f.Release()
	}
	return s.serve(ctx, true)
}

// serve gives children what they wait for, as far as it is there, and asks for
// the rest. fresh says that the parent has just answered.
func (s *stem) serve(ctx context.Context, fresh bool) error {
	keep := s.pulls[:0]
	least := uint64(0)
	for _, p := range s.pulls {
		none := s.flags != 0 || fresh && !s.job.lasting() && p.have == s.newest
		if s.has <= p.have && !none {
			if len(keep) == 0 || p.have < least {
				least = p.have
			}
			keep = append(keep, p)
			continue
		}
		if err := s.give(ctx, p); err != nil {
			return err
		}
	}
	if s.pulls = keep; len(keep) == 0 || s.asking {
		return nil
	}
	s.asking, s.drained = true, false
	return s.above(onTree.Send(ctx, s.Rank, s.up, treeWord{code: codePull, shard: s.id, have: max(s.has, least)}, 0))
}

// give answers a child's wish: with the parameters, if they are newer.
func (s *stem) give(ctx context.Context, p wanted) error {
	relay := s.tree.relay(p.child, s.at.rank) != nil
	if s.has <= p.have {
		return s.tell(ctx, p.child, comm.NewFrame(s.job.paramsBelow(relay, comm.Control, s.id, s.newest-1, s.flags), comm.NewBuffer(0)))
	}
	f := s.params.Share()
	f.Header = s.job.paramsBelow(relay, comm.Parameters, s.id, s.has-1, s.flags)
	return s.tell(ctx, p.child, f)
}

// tell sends a child f. That it is dead is told in Recv.
func (s *stem) tell(ctx context.Context, child int, f comm.Frame) error {
	if err := s.h.Send(ctx, child, f); err != nil && (s.job.synchronous() || !isGone(err)) {
		return err
	}
	return nil
}

// advance passes on what is due.
func (s *stem) advance(ctx context.Context) error {
	if s.due() {
		if err := s.pass(ctx); err != nil {
			return err
		}
	}
	working := slices.Contains(s.phase, active)
	if len(s.words) == 0 || working && !s.open {
		return nil
	}
	for _, w := range s.words {
		if err := s.above(onTree.Send(ctx, s.Rank, s.up, w.treeWord, w.flags)); err != nil {
			return err
		}
	}
	if s.words = s.words[:0]; working {
		return nil
	}
	s.drained = true
	for w, p := range s.phase {
		if p == resting && !s.open { // until the servers let it go on
			s.phase[w] = active
		}
	}
	if !s.job.synchronous() { // as a run does that is resumed from here
		s.params.Release()
		s.has = 0
	}
	return nil
}

// keep adds what the relay has to remember to the state of the learner beside it,
// once nothing is under way.
func (r *relay) keep(ctx context.Context) error {
	if r.open {
		return r.tells(ctx)
	}
	if r.hand == nil || slices.ContainsFunc(r.stems, func(s *stem) bool { return !s.drained }) {
		return nil
	}
	st := r.hand
	r.hand = nil
	k := checkpoint.Saving(st)
	if r.Keep(k); k.Err() != nil {
		return k.Err()
	}
	return r.sendState(ctx, st)
}

// Keep keeps what the relay has to remember.
func (r *relay) Keep(k *checkpoint.Keeper) {
	for _, s := range r.stems {
		k.Int(checkpoint.Key(keyRelay, r.at.rank, s.id), &s.sent)
		s.out.Keep(k, checkpoint.Under(keyRelayed, r.at.rank))
		for c, in := range s.in {
			if s.below(c) && !k.Lived(c) {
				continue // it begins anew
			}
			in.KeepReceivers(k, checkpoint.Under(keyRelayed, r.at.rank, c))
		}
	}
}
