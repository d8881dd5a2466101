package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/wire"
	"github.com/gradlab/gradlab/staleness"
)

// pulling is a worker's wish for parameters.
type pulling struct {
	Pulled
	from int
}

// server runs one shard: the core decides, the store applies, this loop talks.
type server struct {
	shardEnd
	store *store
	core  *ps.Core
	acks  bool // pushes are answered without parameters
	own   bool // workers have parameters of their own, which only they ask to renew

	parts   [][]comm.Frame // by worker: of a push that is not whole yet
	saved   map[int]bool   // workers at the present checkpoint mark
	ended   map[int]bool   // workers that said bye or saved to stop
	stop    bool
	halts   bool      // at the present mark: all shards know it alike
	keeping bool      // asks workers for their states
	kept    bool      // this server's state is told, in passing, at the present version
	waiting []pulling // that wait for a version
	prog    Meter
	meas    *measures
	order   *orderLog
	trunk   *trunk // nil: workers come without a tree
	lost    []string
	voids   []uint64 // sent to each worker
	holds   []uint64 // version of the parameters each worker was last sent
	past    []uint64 // by worker: pushes of those that died, before a resume began them anew
	made    []uint64 // of an elastic run, by worker of the run: pushes before the present epoch
	told    []uint64 // of these, what it has told itself, with its last report
	guests  *guests  // of an open run; else nil
}

func newServer(r *Rank, all []*wire.Shard) (*server, error) {
	j, t, trunk := r.job, r.job.Traits(), newTrunk(r.job)
	to, err := newShardEnd(r, all)
	if err != nil {
		return nil, err
	}
	s := &server{shardEnd: to, acks: t.Acked, own: t.PerPush > 0 || trunk != nil, trunk: trunk,
		parts: make([][]comm.Frame, j.Workers), saved: map[int]bool{}, ended: map[int]bool{},
		past: make([]uint64, j.Workers), voids: make([]uint64, j.Workers), holds: make([]uint64, j.Workers),
		meas: newMeasures(j), order: newOrderLog(j, to.id)}
	policy, err := j.Policy.New(j.Workers)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if compress.KeepsReceiver(j.Codec) && j.policy().Drops {
		return nil, fmt.Errorf("policy %s may drop a push, and the two ends of codec %s would then disagree; use a policy that takes every push", staleness.Policies.Spec(j.Policy), compress.Spec(j.Codec))
	}
	if w, ok := j.Optimizer.(sgd.Whole); ok && w.NeedsWhole() && j.Servers > 1 {
		return nil, fmt.Errorf("optimizer %s needs whole tensors, or norms of them, and cannot be split over %d servers; use servers=1, or clipvalue in place of clip", sgd.Optimizers.Spec(j.Optimizer), j.Servers)
	}
	if s.store, err = newStore(j, to.shard); err != nil {
		return nil, err
	}
	s.store.times = s.times
	if j.NoiseScale && !j.Weightless {
		s.store.noise = &s.prog.Noise
	}
	corrector := j.Corrector
	if corrector == nil {
		corrector = staleness.None{}
	}
	if j.joined != nil {
		n := j.joined.of.Workers
		s.past, s.made, s.told = make([]uint64, n), make([]uint64, n), make([]uint64, n)
	}
	if j.open() {
		s.newGuests()
	}
	s.core = ps.New(j.Workers, j.Updates, policy, corrector, s.store)
	s.core.Applied = func(h comm.Header, _ int) { s.meas.applied(h, s.h.Now()) }
	return s, nil
}

// Run implements Part.
func (s *server) Run(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	for len(s.ended) < s.core.NumLive() {
		f, err := s.h.Recv(ctx, comm.AnyRank, comm.AnyTag)
		if err != nil {
			if err = s.lose(ctx, err); err != nil {
				return err
			}
			continue
		}
		if err := s.handle(ctx, f); err != nil {
			return err
		}
	}
	if err := s.closes(ctx); err != nil {
		return err
	}
	if err := s.snapshot(ctx, true); err != nil {
		return err
	}
	return s.order.flush(ctx, s.Rank)
}

// begin lets the workers begin, or go on.
func (s *server) begin(ctx context.Context) error {
	if s.again {
		if err := s.forms(ctx); err != nil {
			return err
		}
		return s.starting()
	}
	if s.guests != nil {
		if err := s.invites(); err != nil {
			return err
		}
	}
	for w := 0; w < s.job.Workers && s.Resumes(); w++ {
		switch {
		case s.core.Live(w):
		case s.guests != nil: // it comes later
			continue
		default:
			s.past[w] += s.core.Received()[w]
			s.core.Join(w, s.job.Incarnation)
			if err := s.rejoins(w); err != nil {
				return err
			}
		}
		if err := s.resume(ctx, w); err != nil {
			return err
		}
	}
	return s.starting()
}

// rejoins begins anew, in a resumed run, what is kept for a worker that had died, as its
// codec begins anew too. What it pushed and is held cannot be decoded then.
func (s *server) rejoins(w int) error {
	if !compress.KeepsReceiver(s.job.Codec) || !s.trunk.direct(w) {
		return nil
	}
	for _, h := range s.core.Forgo(w) {
		s.meas.rejected(h)
	}
	return s.renewIn(w)
}

// lose copes with the death of a peer: asynchronous policies go on without a
// worker, everything else ends here, with the reason.
func (s *server) lose(ctx context.Context, err error) error {
	var p *comm.PeerError
	if !errors.As(err, &p) || p.Rank >= s.job.Workers || s.job.synchronous() {
		return err
	}
	if s.guests != nil {
		return s.loses(ctx, p)
	}
	if !s.core.Live(p.Rank) {
		return nil
	}
	return s.without(ctx, p)
}

// without goes on without a worker that has died.
func (s *server) without(ctx context.Context, p *comm.PeerError) error {
	if err := s.trunk.cut(p); err != nil {
		return err
	}
	s.lost = append(s.lost, fmt.Sprintf("worker %d after version %d of shard %d: %s", p.Rank, s.core.Version(), s.id, p.Cause))
	if s.guests != nil {
		s.settles(p.Rank)
		s.forget(p.Rank)
	}
	return s.goesOn(ctx, p)
}

// goesOn goes on without a worker that is gone.
func (s *server) goesOn(ctx context.Context, p *comm.PeerError) error {
	delete(s.ended, p.Rank)
	delete(s.saved, p.Rank)
	s.waiting = slices.DeleteFunc(s.waiting, func(wish pulling) bool { return wish.from == p.Rank })
	for _, f := range s.parts[p.Rank] {
		f.Release()
	}
	s.parts[p.Rank] = nil
	before := s.core.Version()
	replies, err := s.core.Leave(p.Rank)
	if err != nil {
		return err
	}
	switch n := s.core.NumLive(); {
	case n == 0:
		return fmt.Errorf("all workers are gone; the last one: %w", p)
	case s.guests != nil && n < s.job.MinWorkers && !s.core.Done():
		return fmt.Errorf("%d workers are left, and the run goes on with min_workers=%d or more: %w", n, s.job.MinWorkers, p)
	}
	if err := s.moved(ctx, before, replies); err != nil {
		return err
	}
	return s.checkpoint(ctx)
}

// moved tells everybody what the core did since version before.
func (s *server) moved(ctx context.Context, before int, replies []ps.Reply) error {
	if s.core.Version() != before {
		s.down.changed()
		if err := s.report(ctx); err != nil {
			return err
		}
		if s.trunk != nil {
			s.trunk.halt = s.stop
		}
	}
	if err := s.reply(ctx, replies); err != nil {
		return err
	}
	asked := s.keeping
	if s.core.Version() != before && s.job.synchronous() {
		s.keeping, s.kept = false, false
	}
	if err := s.pulls(ctx); err != nil {
		return err
	}
	if s.guests != nil {
		if err := s.calls(ctx); err != nil {
			return err
		}
	}
	if err := s.feed(ctx); err != nil || s.core.Version() == before {
		return err
	}
	return s.boundary(ctx, asked)
}

// keepInPassing tells the server's state before f, the first word of the next step,
// changes it.
func (s *server) keepInPassing(ctx context.Context, f comm.Frame) error {
	s.kept = true
	st, err := s.state(s)
	if err != nil {
		return err
	}
	if f.Header.Kind == comm.Gradient { // it comes again
		st.Ints[checkpoint.Key(keyBytesUp, s.rank)] -= int64(f.Billed)
	}
	st.Ints[keyGoing] = 1
	return s.sendState(ctx, st)
}

// rest notes that a worker is at a checkpoint mark.
func (s *server) rest(ctx context.Context, worker int, flags message.Flags) error {
	s.saved[worker] = true
	s.halts = s.halts || flags&FlagStop != 0
	s.stop = s.stop || s.halts
	if !s.job.synchronous() { // nobody waits for one who waits at a mark
		before := s.core.Version()
		replies, err := s.core.Rest(worker)
		if err == nil {
			err = s.moved(ctx, before, replies)
		}
		if err != nil {
			return err
		}
	}
	if s.stop && !s.job.synchronous() {
		if err := s.reply(ctx, s.core.ReleaseAll()); err != nil {
			return err
		}
		if err := s.pulls(ctx); err != nil {
			return err
		}
	}
	return s.checkpoint(ctx)
}

// asked handles a push, a pull or the word that a worker is at a mark.
func (s *server) asked(ctx context.Context, f comm.Frame) error {
	h := f.Header
	if err := s.order.note(ctx, s.Rank, h); err != nil {
		return err
	}
	switch h.Tag {
	case onSave.Tag():
		f.Release()
		return s.rest(ctx, int(h.From), h.Flags)
	case OnPull.Tag():
		f.Release()
		s.waiting = append(s.waiting, pulling{OnPull.Read(h), int(h.From)})
		return s.pulls(ctx)
	}
	if s.doubled(h) {
		f.Release()
		return nil
	}
	before, rejected := s.core.Version(), s.core.Ledger().Rejected
	s.prog.Add(int(h.From), h.Value)
	s.meas.pushed(h, s.h.Now())
	f.Header.Tag = keptTag
	replies, err := s.core.Push(f)
	if err != nil {
		return err
	}
	if n := s.core.Causes()[ps.CauseDropped]; n > 0 && compress.KeepsReceiver(s.job.Codec) {
		return fmt.Errorf("policy %s dropped a push of codec %s, whose two ends then disagree: use a policy that takes every push", staleness.Policies.Spec(s.job.Policy), compress.Spec(s.job.Codec))
	}
	if s.core.Ledger().Rejected != rejected {
		s.meas.rejected(h)
	}
	for _, r := range replies {
		if r.Kind == ps.Answer {
			s.meas.answered(r.Worker, int(h.From), s.h.Now())
		}
	}
	s.store.sent.forget(s.core.Holds)
	return s.moved(ctx, before, replies)
}

// doubled says whether a push came before, and was answered then. No net here delivers one
// twice; one that did would not harm.
func (s *server) doubled(h comm.Header) bool {
	taken := s.core.Received()
	return h.Tag == OnPush.Tag() && int(h.From) < len(taken) && h.Seq < taken[h.From]
}

func (s *server) handle(ctx context.Context, f comm.Frame) error {
	h := f.Header
	if h.Run != s.job.Run {
		f.Release()
		return fmt.Errorf("rank %d belongs to run %x, not %x", h.From, h.Run, s.job.Run)
	}
	if h.Tag == onReached.Tag() {
		f.Release()
		if s.stop = true; s.member != nil { // whoever serves in the next epoch is to know
			s.job.reached.Store(true)
		}
		return nil
	}
	stop, err := s.job.stopsHere(s.h, s.core.Version())
	if err != nil {
		f.Release()
		return err
	}
	s.stop = s.stop || stop
	if s.id == 0 && !s.stop && s.job.keepsHere(s.h, s.job.isLast(s.core.Version())) {
		s.keeping = true
	}
	if h.Flags&FlagKeep != 0 && !s.kept { // the first word of a step before which all have told their states
		if err := s.keepInPassing(ctx, f); err != nil {
			f.Release()
			return err
		}
	}
	if handled, err := s.visits(ctx, f); handled {
		return err
	}
	switch h.Tag {
	case OnPush.Tag(), OnPull.Tag(), onSave.Tag():
		if h.Tag == OnPush.Tag() {
			if err := s.times.Decoding(ctx, s.serving(f)); err != nil {
				return err
			}
			var whole bool
			var err error
			if f, whole, err = s.join(f); err != nil || !whole {
				return err
			}
			pushed(s.h, s.job, s.shard.Whole)
		}
		for {
			due, ok, err := s.order.next(f)
			if err != nil || !ok {
				return err
			}
			if err := s.asked(ctx, due); err != nil || !s.order.replayed() {
				return err
			}
			f = comm.Frame{}
		}
	case onTree.Tag():
		return s.word(ctx, f)
	case OnBye.Tag():
		f.Release()
		s.ended[int(h.From)] = true
		return s.checkpoint(ctx)
	}
	f.Release()
	return fmt.Errorf("rank %d sent a frame with tag %d, which a server does not know", h.From, h.Tag)
}

// serving is the virtual time in which the server decodes what a frame of a push
// holds and adds it up: parts come last ones first.
func (s *server) serving(f comm.Frame) time.Duration {
	k := 0
	if from := int(f.Header.From); f.Header.Flags&flagMore != 0 && from >= 0 && from < len(s.parts) {
		k = max(0, len(s.shard.Parts)-1-len(s.parts[from]))
	}
	pt := s.shard.Parts[k]
	return s.job.serving(s.tariff, pt.Lo, pt.Hi, f.Billed)
}

// join makes one push of parts, of which the last pieces came first; whole is
// false while parts are missing.
func (s *server) join(f comm.Frame) (push comm.Frame, whole bool, err error) {
	from := int(f.Header.From)
	if from < 0 || from >= len(s.parts) {
		f.Release()
		return f, false, fmt.Errorf("rank %d, which is no worker, sent a push", from)
	}
	parts := s.parts[from]
	if f.Header.Flags&flagMore != 0 {
		s.parts[from] = append(parts, f)
		return f, false, nil
	}
	if len(parts) == 0 {
		return f, true, nil
	}
	s.parts[from] = parts[:0]
	push = comm.Frame{Header: f.Header, Billed: f.Billed}
	size := len(f.Body)
	for _, p := range parts {
		push.Billed += p.Billed
		size += len(p.Body)
	}
	if s.job.Weightless {
		return push, true, nil
	}
	buf := comm.NewBuffer(size)
	n := copy(buf.B, f.Body)
	f.Release()
	for i := len(parts) - 1; i >= 0; i-- {
		n += copy(buf.B[n:], parts[i].Body)
		parts[i].Release()
	}
	return comm.NewFrame(push.Header, buf), true, nil
}

// checkpoint completes a mark once all live workers have reached it.
func (s *server) checkpoint(ctx context.Context) error {
	if s.guests != nil && s.guests.halted { // who came while it was made
		return s.goesOnFrom(ctx, s.list(), 0)
	}
	n := 0
	for w := 0; w < s.job.Workers; w++ {
		if s.core.Live(w) && !s.saved[w] && !s.ended[w] {
			return nil
		}
		if s.core.Live(w) && s.saved[w] {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	var st *checkpoint.State // none: the run is over, or there is nothing to go on from
	if !s.core.Done() {
		var err error
		if st, err = s.state(s); err != nil {
			return err
		}
		if s.guests != nil {
			m := marked{Mark: s.guests.marks, Workers: s.list()}
			if s.trunk != nil {
				m.Got = s.trunk.got
			}
			checkpoint.Saving(st).Record(keyMarked, m)
		}
	}
	if err := s.sendState(ctx, st); err != nil {
		return err
	}
	if s.guests != nil { // workers may come meanwhile
		s.guests.asked = true
		return nil
	}
	_, flags, err := onGo.Hear(ctx, s.Rank, s.job.Observer())
	if err != nil {
		return err
	}
	if err := s.goesOnFrom(ctx, s.list(), flags); err != nil || s.member == nil || s.halts {
		return err
	}
	return leavingAt(s.Rank)
}

// goesOnFrom lets workers go on from a mark: at the instant the checkpoint is whole, as a
// resumed run does, which has encoded nothing yet.
func (s *server) goesOnFrom(ctx context.Context, at []int, flags message.Flags) error {
	clear(s.down.billed)
	s.halts = s.halts || flags&FlagStop != 0
	s.stop = s.stop || s.halts
	s.keeping = false
	for _, w := range at {
		if !s.saved[w] || !s.core.Live(w) {
			continue
		}
		delete(s.saved, w)
		s.core.Wake(w)
		if s.halts {
			s.ended[w] = true
		}
		// At a mark of an asynchronous run all take up the present parameters,
		// stopped or not, so that both go on alike.
		if err := s.goOn(ctx, w, !s.halts && !s.own && !s.job.synchronous() && s.down.absolute); err != nil {
			return err
		}
	}
	return nil
}

// resume lets a worker go on from where the run was stopped. With a barrier it had
// the parameters already: they are told beside, and cost nothing.
func (s *server) resume(ctx context.Context, w int) error {
	if !s.job.synchronous() {
		return s.goOn(ctx, w, !s.own && s.down.absolute)
	}
	if s.job.restored() {
		hd := onRestored.Header(s.job, answerWord{Shard: s.id, Version: uint64(s.core.Version())}, 0)
		for k := range s.shard.Parts {
			f, err := s.down.frame(hd, w, k, s.store.outgoing(), s.core.Version())
			if err != nil {
				return fmt.Errorf("parameters for worker %d: %w", w, err)
			}
			if err := s.send(ctx, w, f); err != nil {
				return err
			}
		}
	}
	if _, ok := s.start.Ints[checkpoint.Key(keyLeft, w)]; ok && s.h.Virtual() {
		return nil
	}
	return s.goOn(ctx, w, false)
}

// goOn lets a worker go on from a mark.
func (s *server) goOn(ctx context.Context, w int, params bool) error {
	word, flags := savedWord{s.id, uint64(s.core.Version()), s.voids[w]}, message.Flags(0)
	if s.halts {
		flags |= FlagStop
	}
	if s.core.Done() {
		flags |= FlagDone
	}
	if !params {
		return s.send(ctx, w, comm.NewFrame(onSaved.Header(s.job, word, flags), comm.NewBuffer(0)))
	}
	return s.parameters(ctx, onSaved.As(comm.Parameters).Header(s.job, word, flags), w)
}
