package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/par"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/staleness"
)

// server runs one shard: the core decides, the store applies, this loop talks.
type server struct {
	job   *Job
	id    int // of the shard
	rank  int
	shard *shard
	store *store
	core  *ps.Core
	down  *downlink
	acks  bool // pushes are answered without parameters
	own   bool // workers have parameters of their own, which only they ask to renew

	h       comm.Host
	parts   [][]comm.Frame // by worker: of a push that is not whole yet
	saved   map[int]bool   // workers at the present checkpoint mark
	ended   map[int]bool   // workers that said bye or saved to stop
	stop    bool
	halts   bool          // at the present mark: all shards know it alike
	keeping bool          // asks workers for their states
	kept    bool          // this server's state is told, in passing, at the present version
	waiting []comm.Header // pulls that wait for a version
	prog    progressMeter
	meas    *measures
	order   *orderLog
	trunk   *trunk  // nil: workers come without a tree
	tariff  *tariff // of decoding pushes
	times   timer
	lost    []string
	voids   []uint64 // sent to each worker
	holds   []uint64 // version of the parameters each worker was last sent
	past    uint64   // pushes of workers that died, before a resume began them anew
}

func newServer(j *Job, id int, sh *shard) (*server, error) {
	t, trunk := j.traits(), newTrunk(j)
	s := &server{job: j, id: id, rank: j.Workers + id, shard: sh, acks: t.Acked, own: t.PerPush > 0 || trunk != nil, trunk: trunk,
		parts: make([][]comm.Frame, j.Workers), saved: map[int]bool{}, ended: map[int]bool{},
		voids: make([]uint64, j.Workers), holds: make([]uint64, j.Workers),
		meas: newMeasures(j.Workers), order: newOrderLog(j, id), tariff: j.tariff(sh, false, true)}
	policy, err := j.Policy.New(j.Workers)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if compress.KeepsReceiver(j.Codec) && j.policy().Drops {
		return nil, fmt.Errorf("policy %s may drop a push, and the two ends of codec %s would then disagree; use a policy that takes every push", staleness.Policies.Spec(j.Policy), compress.Spec(j.Codec))
	}
	if w, ok := j.Optimizer.(sgd.Whole); ok && w.NeedsWhole() && j.Servers > 1 {
		return nil, fmt.Errorf("optimizer %s needs norms over all tensors and cannot be split over %d servers; use servers=1 or clipvalue", sgd.Optimizers.Spec(j.Optimizer), j.Servers)
	}
	if s.store, err = newStore(j, sh); err != nil {
		return nil, err
	}
	s.store.times = &s.times
	if s.down, err = newDownlink(j, id, sh); err != nil {
		return nil, err
	}
	s.core = ps.New(j.Workers, j.Updates, policy, j.Corrector, s.store)
	s.core.Applied = func(h comm.Header, _ int) { s.meas.applied(h, s.h.Now()) }
	return s, nil
}

// store holds a shard's parameters and its part of the optimizer.
type store struct {
	job                *Job
	params             vector // packed; frames on their way to workers may share it
	sum                vector // of the gradients of the next update, weighted; empty at first
	only               vector // in place of sum: a single raw gradient of weight 1
	sole               bool   // but for its frame, nobody else reads it, and it is all of its buffer
	opt                *stepper
	in                 []*packer // one decoder per worker; nil: it pushes to somebody else
	sched              lrschedule.Schedule
	rate               float64     // of the next update
	amend              *amending   // nil: the corrector only scales
	sent               *sentCopies // nil: nobody compares with them
	trainable, buffers []sgd.Range
	times              *timer
	gap                gauge
	gaps               []float64 // of the next update's gradients
}

func newStore(j *Job, sh *shard) (*store, error) {
	st := &store{job: j}
	var err error
	if st.sched, err = j.schedule(); err != nil || j.Weightless {
		return st, err
	}
	st.params = newVector(sh.size())
	sh.gather(st.params.f, j.initial())
	if st.opt, err = newStepper(j.Optimizer, sh.layout, par.Threads()); err != nil {
		return nil, fmt.Errorf("optimizer: %w", err)
	}
	st.rate = st.sched(j.progress(0, 0))
	st.trainable, st.buffers = byRole(sh.layout)
	if st.amend, err = newAmending(j, sh.layout, false); err != nil {
		return nil, err
	}
	if st.sent, err = newSentCopies(j, st.params); err != nil {
		return nil, err
	}
	tree := j.tree()
	for w := 0; w < j.Workers; w++ {
		var relay *branch
		if tree != nil {
			if !slices.Contains(tree.top, w) {
				st.in = append(st.in, nil)
				continue
			}
			relay = tree.relay(w, servers)
		}
		p, err := j.newPacker(sh, j.Codec, j.sender(relay, w))
		if err != nil {
			return nil, err
		}
		st.in = append(st.in, p)
	}
	return st, nil
}

func (st *store) Reset() {
	st.sum.release()
	st.only.release()
	st.gaps = st.gaps[:0]
}

// Add keeps a first gradient that needs no decoding as it is: often it remains
// the only one.
func (st *store) Add(f comm.Frame, weight float64, past staleness.Past) error {
	if st.job.Weightless {
		return nil
	}
	defer st.times.decoded(st.times.start())
	from := compress.From{Rank: int(f.Header.From), Step: int(f.Header.Step)}
	in := st.in[from.Rank]
	if st.job.Gap {
		st.gaps = append(st.gaps, st.distance(f.Header.Version))
	}
	if st.amend != nil {
		return st.addAmended(f, weight, past, from)
	}
	switch {
	case st.sum.f == nil && st.only.f == nil && weight == 1 && in.raw && len(f.Body) == 4*len(st.params.f):
		sole := f.Buffer() != nil && f.Buffer().Sole() && len(f.Buffer().B) == len(f.Body)
		if v, ok := received(f); ok {
			st.only, st.sole = v, sole
			return nil
		}
	case st.only.f != nil:
		st.copyOnly()
	}
	if st.sum.f == nil {
		st.sum = newVector(len(st.params.f))
		return in.set(in.shard.whole, st.sum.f, false, float32(weight), f.Body, from)
	}
	return in.addTo(in.shard.whole, st.sum.f, false, float32(weight), f.Body, from)
}

// copyOnly makes the single gradient the sum.
func (st *store) copyOnly() {
	st.sum = newVector(len(st.params.f))
	copy(st.sum.f, st.only.f)
	st.only.release()
}

// gradient is the sum, with the reference that was the store's. Nobody else
// reads it, but for the frame of a gradient that is the only one.
func (st *store) gradient() (g vector) {
	if st.only.f != nil && !st.sole {
		st.copyOnly()
	}
	if st.only.f != nil {
		g, st.only = st.only, g
	} else {
		g, st.sum = st.sum, g
	}
	return g
}

// Step makes the update in the memory of the gradient. Where others read the
// parameters, as they were or are on their way to workers, the new ones come to
// lie there too; else they take the place of the old.
func (st *store) Step(u ps.Update) error {
	if st.job.Weightless {
		return nil
	}
	defer st.times.updated(st.times.start())
	grad := st.gradient()
	if u.Delay > 0 {
		st.calm(grad.f, u.Delay)
	}
	p := st.job.progress(u.Version, (u.Taken-u.Pushes)*st.job.perPush())
	s := sgd.Step{N: u.Version, Epoch: p.Epoch, LR: st.sched(p), Delay: u.Delay, Seed: st.job.Seed}
	if st.params.shared() {
		st.opt.renew(grad.f, st.params.f, s)
		grad, st.params = st.params, grad
	} else {
		st.opt.advance(grad.f, st.params.f, s)
	}
	grad.release()
	for _, x := range st.gaps {
		st.gap.add(x)
	}
	st.Reset()
	st.rate = st.sched(st.job.progress(u.Version+1, u.Taken*st.job.perPush()))
	st.moved()
	return nil
}

// calm shares what late workers say of buffers out among as many as said it: each
// tells how far the statistics were from those of its batch when it began, and if
// τ of them, one behind the other, moved the whole way, they would swing.
func (st *store) calm(grad []float32, delay int) {
	for _, b := range st.buffers {
		f32.Scale(grad[b.Lo:b.Hi], 1/float32(1+delay))
	}
}

// serve is the program of a server's rank.
func (j *Job) serve(rank int, sh []*shard) (comm.Program, error) {
	s, err := newServer(j, rank-j.Workers, sh[rank-j.Workers])
	if err != nil {
		return nil, err
	}
	return s.program, nil
}

// program is what the server's rank does.
func (s *server) program(ctx context.Context, h comm.Host) error {
	s.h = h
	start, err := receiveStart(ctx, h, s.job)
	if err != nil {
		return err
	}
	s.times.begin(h, false)
	if start != nil {
		if err := s.load(start); err != nil {
			return fmt.Errorf("server %d: %w", s.id, err)
		}
		for w := 0; w < s.job.Workers; w++ {
			if !s.core.Live(w) {
				s.past += s.core.Received()[w]
				s.core.Join(w, s.job.Incarnation)
			}
			if err := s.resume(ctx, w, start); err != nil {
				return err
			}
		}
	}
	for len(s.ended) < s.core.NumLive() {
		f, err := h.Recv(ctx, comm.AnyRank, comm.AnyTag)
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
	if err := s.snapshot(ctx, true); err != nil {
		return err
	}
	return s.final(ctx)
}

// lose copes with the death of a peer: asynchronous policies go on without a
// worker, everything else ends here, with the reason.
func (s *server) lose(ctx context.Context, err error) error {
	var p *comm.PeerError
	if !errors.As(err, &p) || p.Rank >= s.job.Workers || s.job.synchronous() {
		return err
	}
	if !s.core.Live(p.Rank) {
		return nil
	}
	if err := s.trunk.cut(p); err != nil {
		return err
	}
	delete(s.ended, p.Rank)
	delete(s.saved, p.Rank)
	for _, f := range s.parts[p.Rank] {
		f.Release()
	}
	s.parts[p.Rank] = nil
	s.lost = append(s.lost, fmt.Sprintf("worker %d after version %d of shard %d: %s", p.Rank, s.core.Version(), s.id, p.Cause))
	before := s.core.Version()
	replies, err := s.core.Leave(p.Rank)
	if err != nil {
		return err
	}
	if s.core.NumLive() == 0 {
		return fmt.Errorf("all workers are gone; the last one: %w", p)
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
	if s.core.Version() != before && s.job.synchronous() {
		s.keeping, s.kept = false, false
	}
	if err := s.pulls(ctx); err != nil {
		return err
	}
	return s.feed(ctx)
}

// keepInPassing tells the server's state before f, the first word of the next step,
// changes it.
func (s *server) keepInPassing(ctx context.Context, f comm.Frame) error {
	s.kept = true
	st := newState()
	if err := s.save(st); err != nil {
		return err
	}
	if f.Header.Kind == comm.Gradient { // it comes again
		st.Ints[fmt.Sprintf("bytes_up/%d", s.rank)] -= int64(f.Billed)
	}
	st.Ints[going] = 1
	return sendState(ctx, s.h, s.job, st)
}

// rest notes that a worker is at a checkpoint mark.
func (s *server) rest(ctx context.Context, worker int, flags uint16) error {
	s.saved[worker] = true
	s.halts = s.halts || flags&flagStop != 0
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
	if err := s.order.note(ctx, s.h, s.job, h); err != nil {
		return err
	}
	switch h.Tag {
	case tagSave:
		f.Release()
		return s.rest(ctx, int(h.From), h.Flags)
	case tagPull:
		f.Release()
		s.waiting = append(s.waiting, h)
		return s.pulls(ctx)
	}
	before, rejected := s.core.Version(), s.core.Ledger().Rejected
	s.prog.add(h)
	s.meas.pushed(h, s.h.Now())
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

func (s *server) handle(ctx context.Context, f comm.Frame) error {
	h := f.Header
	if h.Run != s.job.Run {
		f.Release()
		return fmt.Errorf("rank %d belongs to run %x, not %x", h.From, h.Run, s.job.Run)
	}
	if h.Tag == tagReached {
		f.Release()
		s.stop = true
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
	if h.Flags&flagKeep != 0 && !s.kept { // the first word of a step before which all have told their states
		if err := s.keepInPassing(ctx, f); err != nil {
			f.Release()
			return err
		}
	}
	switch h.Tag {
	case tagPush, tagPull, tagSave:
		if h.Tag == tagPush {
			if err := s.times.decoding(ctx, s.serving(f)); err != nil {
				return err
			}
			var whole bool
			var err error
			if f, whole, err = s.join(f); err != nil || !whole {
				return err
			}
			plainly(s.h, s.shard.whole)
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
	case tagRelay:
		return s.word(ctx, f)
	case tagBye:
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
		k = max(0, len(s.shard.parts)-1-len(s.parts[from]))
	}
	pt := s.shard.parts[k]
	return s.job.serving(s.tariff, pt.lo, pt.hi, f.Billed)
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

// pulls answers those who asked for parameters of a version that is there, or
// that worker 0, who warms up alone, is no longer there to reach.
func (s *server) pulls(ctx context.Context) error {
	keep := s.waiting[:0]
	for _, h := range s.waiting {
		if int(h.Version) > s.core.Version() && !s.core.Done() && !s.stop && s.core.Live(0) {
			keep = append(keep, h)
			continue
		}
		if err := s.answer(ctx, s.core.Pull(int(h.From), h.Step), tagFetched); err != nil {
			return err
		}
	}
	s.waiting = keep
	return nil
}

func (s *server) reply(ctx context.Context, replies []ps.Reply) error {
	if s.stop && !s.job.synchronous() {
		replies = append(replies, s.core.ReleaseAll()...)
	}
	for _, r := range replies {
		if err := s.answer(ctx, r, tagAnswer); err != nil {
			return err
		}
	}
	return nil
}

// answer sends a reply, with parameters unless the push was refused or is only
// to be acknowledged.
func (s *server) answer(ctx context.Context, r ps.Reply, tag comm.Tag) error {
	hd := s.job.header(comm.Parameters, tag)
	hd.Shard, hd.Step, hd.Version = uint16(s.id), r.Step, uint64(s.core.Version())
	// With a barrier all must hear of a wish behind the same step: with the answers
	// to their pushes, which leave together.
	together := tag == tagAnswer || !s.job.synchronous()
	if s.stop && together {
		hd.Flags |= flagStop
	}
	if s.core.Done() {
		hd.Flags |= flagDone
	} else if s.keeping && together {
		hd.Flags |= flagKeep
	}
	var f comm.Frame
	switch {
	case r.Kind == ps.Rejected:
		hd.Kind, hd.Code = comm.Control, codeRejected
		cause := comm.NewBuffer(len(r.Cause))
		copy(cause.B, r.Cause)
		f = comm.NewFrame(hd, cause)
	case s.acks && tag == tagAnswer && r.Kind != ps.Void:
		hd.Kind = comm.Control
		f = comm.NewFrame(hd, comm.NewBuffer(0))
	default:
		if r.Kind == ps.Void {
			hd.Code = codeVoid
			s.voids[r.Worker]++
		}
		return s.parameters(ctx, hd, r.Worker)
	}
	return s.send(ctx, r.Worker, f)
}

// parameters sends a worker the parameters, part by part.
func (s *server) parameters(ctx context.Context, hd comm.Header, worker int) error {
	hd.Kind = comm.Parameters
	out := s.dispatch(worker)
	for k := range s.shard.parts {
		part := hd
		if k < len(s.shard.parts)-1 {
			part.Flags |= flagMore
		}
		if err := s.times.encoding(ctx, s.down.encoding(worker, k)); err != nil {
			return err
		}
		began := s.times.start()
		f, err := s.down.frame(part, worker, k, out, s.core.Version())
		s.times.encoded(began)
		if err != nil {
			return fmt.Errorf("parameters for worker %d: %w", worker, err)
		}
		plainly(s.h, s.shard.parts[k])
		if err := s.send(ctx, worker, f); err != nil {
			return err
		}
	}
	return nil
}

// send sends a worker f. That it is dead is told in Recv.
func (s *server) send(ctx context.Context, worker int, f comm.Frame) error {
	if err := s.h.Send(ctx, worker, f); err != nil && (s.job.synchronous() || !isGone(err)) {
		return err
	}
	return nil
}

// isGone says whether err is the death of a peer.
func isGone(err error) bool {
	var p *comm.PeerError
	return errors.As(err, &p)
}

// dispatch is what worker w is to be sent now; it is noted down.
func (s *server) dispatch(w int) vector {
	v, out := uint64(s.core.Version()), s.store.outgoing()
	s.holds[w] = v
	s.store.sent.sent(w, v, out)
	s.meas.sent(w, v, s.h.Now())
	return out
}

// checkpoint completes a mark once all live workers have reached it.
func (s *server) checkpoint(ctx context.Context) error {
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
	var st *State // none: the run is over, or there is nothing to go on from
	if !s.core.Done() && !s.job.Weightless {
		st = newState()
		if err := s.save(st); err != nil {
			return err
		}
	}
	if err := sendState(ctx, s.h, s.job, st); err != nil {
		return err
	}
	// Everybody goes on at the instant the checkpoint is whole, as a resumed
	// run does, which has encoded nothing yet.
	clear(s.down.billed)
	f, err := s.h.Recv(ctx, s.job.Observer(), tagGo)
	if err != nil {
		return err
	}
	s.halts = s.halts || f.Header.Flags&flagStop != 0
	s.stop = s.stop || s.halts
	s.keeping = false
	f.Release()
	for w := 0; w < s.job.Workers; w++ {
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
func (s *server) resume(ctx context.Context, w int, st *State) error {
	if !s.job.synchronous() {
		return s.goOn(ctx, w, !s.own && s.down.absolute)
	}
	if s.job.restored() {
		hd := s.job.header(comm.Report, tagRestored)
		hd.Shard, hd.Version = uint16(s.id), uint64(s.core.Version())
		for k := range s.shard.parts {
			f, err := s.down.frame(hd, w, k, s.store.outgoing(), s.core.Version())
			if err != nil {
				return fmt.Errorf("parameters for worker %d: %w", w, err)
			}
			if err := s.send(ctx, w, f); err != nil {
				return err
			}
		}
	}
	if _, ok := st.Ints[left(w)]; ok && s.h.Virtual() {
		return nil
	}
	return s.goOn(ctx, w, false)
}

// goOn lets a worker go on from a mark.
func (s *server) goOn(ctx context.Context, w int, params bool) error {
	hd := s.job.header(comm.Control, tagSaved)
	hd.Shard, hd.Version, hd.Seq = uint16(s.id), uint64(s.core.Version()), s.voids[w]
	if s.halts {
		hd.Flags |= flagStop
	}
	if s.core.Done() {
		hd.Flags |= flagDone
	}
	if !params {
		return s.send(ctx, w, comm.NewFrame(hd, comm.NewBuffer(0)))
	}
	return s.parameters(ctx, hd, w)
}

func (s *server) save(st *State) error {
	st.Vectors["param"] = s.store.params.f
	if o, ok := s.store.opt.opt.(sgd.Stateful); ok {
		for _, sl := range o.Slots() {
			st.Vectors["opt/"+sl.Name] = sl.V
		}
	}
	st.Ints["version"] = int64(s.core.Version())
	st.Ints[fmt.Sprintf("past/%d", s.id)] = int64(s.past)
	for w, v := range s.holds {
		st.Ints[fmt.Sprintf("holds/%d/%d", w, s.id)] = int64(v)
	}
	up, down := s.bytes()
	tallied(st, s.rank, s.h, up, down)
	if err := s.down.save(st); err != nil {
		return err
	}
	for w, in := range s.store.in {
		if in == nil {
			continue
		}
		if err := in.saveReceivers(st, fmt.Sprintf("codec/in/%d/%d/", s.id, w)); err != nil {
			return err
		}
	}
	s.store.amend.save(st, fmt.Sprintf("amend/%d/", s.id))
	s.store.sent.save(st, fmt.Sprintf("sent/%d/", s.id), s.core.Holds)
	if err := s.keep(st); err != nil {
		return err
	}
	return saveState(st, fmt.Sprintf("core/%d", s.id), s.core)
}

func (s *server) load(st *State) error {
	packed := func(name string, dst []float32) error {
		full := make([]float32, s.job.Model.Layout().Size())
		if err := st.vector(name, full); err != nil {
			return err
		}
		s.shard.gather(dst, full)
		return nil
	}
	if err := packed("param", s.store.params.f); err != nil {
		return err
	}
	if o, ok := s.store.opt.opt.(sgd.Stateful); ok {
		for _, sl := range o.Slots() {
			if err := packed("opt/"+sl.Name, sl.V); err != nil {
				return err
			}
		}
	}
	if err := s.down.load(st); err != nil {
		return err
	}
	for w, in := range s.store.in {
		if in == nil {
			continue
		}
		if err := in.loadReceivers(st, fmt.Sprintf("codec/in/%d/%d/", s.id, w)); err != nil {
			return err
		}
	}
	for w := range s.holds {
		s.holds[w] = uint64(st.Ints[fmt.Sprintf("holds/%d/%d", w, s.id)])
	}
	s.past = uint64(st.Ints[fmt.Sprintf("past/%d", s.id)])
	if err := s.store.amend.load(st, fmt.Sprintf("amend/%d/", s.id)); err != nil {
		return err
	}
	if err := s.store.sent.load(st, fmt.Sprintf("sent/%d/", s.id), s.shard.size()); err != nil {
		return err
	}
	if err := loadState(st, fmt.Sprintf("core/%d", s.id), s.core); err != nil {
		return err
	}
	s.store.rate = s.store.sched(s.job.progress(s.core.Version(), s.core.Taken()*s.job.perPush()))
	return s.regain(st)
}

// report tells the observer about an update: progress now and then, of which the
// first server knows all but the others' bytes, and a snapshot at evaluations.
func (s *server) report(ctx context.Context) error {
	v := s.core.Version()
	switch due := v%s.job.reportEvery() == 0 || s.core.Done(); {
	case !due:
	case s.id > 0:
		m := Progress{Step: v}
		m.BytesUp, m.BytesDown = s.bytes()
		if err := sendJSON(ctx, s.h, s.job, tagProgress, m); err != nil {
			return err
		}
	default:
		p := s.job.progress(v, s.core.Taken()*s.job.perPush())
		m := Progress{Step: v, Samples: p.Samples, Epoch: p.Epoch, Seconds: s.h.Now().Seconds(), LR: s.store.sched(p)}
		s.prog.fill(&m, s.core.Delays())
		s.prog.measured(&m, &s.meas.age, &s.store.gap)
		m.BytesUp, m.BytesDown = s.bytes()
		if err := sendJSON(ctx, s.h, s.job, tagProgress, m); err != nil {
			return err
		}
	}
	if e := s.job.EvalEvery; e > 0 && v%e == 0 && !s.core.Done() {
		return s.snapshot(ctx, false)
	}
	return nil
}

// bytes counts what workers sent up and were sent down, by this shard.
func (s *server) bytes() (up, down uint64) {
	c := s.h.Traffic().Count()
	return c.RecvBytes[comm.Gradient], c.SentBytes[comm.Parameters]
}

func (s *server) snapshot(ctx context.Context, last bool) error {
	up, down := s.bytes()
	p := s.job.progress(s.core.Version(), s.core.Taken()*s.job.perPush())
	m := mark{Shard: s.id, Version: s.core.Version(), Samples: p.Samples, Epoch: p.Epoch, Seconds: s.h.Now().Seconds(), Up: up, Down: down, Last: last, Bare: s.job.Weightless}
	if m.Bare {
		return sendJSON(ctx, s.h, s.job, tagMark, m)
	}
	return sendSnapshot(ctx, s.h, s.job, m, s.store.params)
}

func (s *server) final(ctx context.Context) error {
	if err := s.order.flush(ctx, s.h, s.job); err != nil {
		return err
	}
	r := RankReport{Rank: s.rank, Role: "server", Shard: s.id, Version: s.core.Version(), Ledger: s.core.Ledger(),
		Delays: s.core.Delays(), Taken: s.core.Received(), Past: s.past, Causes: s.core.Causes(), Lost: s.lost, Stopped: s.stop && !s.core.Done(),
		Age: s.meas.age.spread(), Gap: s.store.gap.spread(), Waits: s.meas.waits}
	return r.send(ctx, s.h, s.job, &s.times)
}

func sendJSON(ctx context.Context, h comm.Host, j *Job, tag comm.Tag, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	buf := comm.NewBuffer(len(b))
	copy(buf.B, b)
	return h.Send(ctx, j.Observer(), comm.NewFrame(j.header(comm.Report, tag), buf))
}

// sendSnapshot announces and sends parameters. They may be shared with the
// frame, as in packer.frame.
func sendSnapshot(ctx context.Context, h comm.Host, j *Job, m mark, params vector) error {
	if err := sendJSON(ctx, h, j, tagMark, m); err != nil {
		return err
	}
	hd := j.header(comm.Report, tagSnapshot)
	f, ok := params.frame(hd, 0, len(params.f))
	if !ok {
		f = comm.NewFrame(hd, comm.NewBuffer(4*len(params.f)))
		f32.AppendBytes(f.Body[:0], params.f)
	}
	return h.Send(ctx, j.Observer(), f)
}

// sendState tells the observer a rank's state at a mark; nil, or without weights:
// it has none to go on from.
func sendState(ctx context.Context, h comm.Host, j *Job, st *State) error {
	var b []byte
	if st != nil && !j.Weightless {
		if c := h.Traffic().Count(); c.WireSent+c.SharedSent > 0 {
			links := map[string]uint64{"wire": c.WireSent, "shared": c.SharedSent, "report": c.SentBody[comm.Report],
				"body": c.SentBody[comm.Gradient] + c.SentBody[comm.Parameters] + c.SentBody[comm.Report]}
			for name, n := range links {
				st.Ints[fmt.Sprintf("%s/%d", name, h.Rank())] = int64(n)
			}
		}
		var err error
		if b, err = st.Encode(nil, sgd.Layout{}); err != nil {
			return err
		}
	}
	buf := comm.NewBuffer(len(b))
	copy(buf.B, b)
	return h.Send(ctx, j.Observer(), comm.NewFrame(j.header(comm.Report, tagState), buf))
}

// receiveStart waits for the observer's word to begin; nil: from scratch.
func receiveStart(ctx context.Context, h comm.Host, j *Job) (*State, error) {
	f, err := h.Recv(ctx, j.Observer(), tagStart)
	if err != nil {
		return nil, err
	}
	j.cores.begun()
	if len(f.Body) == 0 {
		f.Release()
		return nil, nil
	}
	// The state aliases the body, so the frame is left to the collector.
	return openState(f.Body)
}
