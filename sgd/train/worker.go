package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/staleness"
)

// Server is the parameter-server mode with push and pull in one exchange: a
// worker pushes the gradient of a step to every shard, and the answer to a push
// is the next parameters. When the answer comes is the policy's business: bsp
// holds it until all have pushed, asp answers at once.
//
// With overlap a push leaves in parts of about bucket bytes, as the backward pass
// makes them, and its answer comes in the same parts, first layers first.
//
// With Barrier a push is answered without parameters, and a worker asks for them
// once all shards have answered: what TensorFlow's synchronous replicas do, whose
// tokens come when every variable has been updated. It costs a round trip.
//
// Rule: w ← w − rate·direction(mean of the gradients that the policy lets
// through).
//
// Paper: none of its own; the policies have theirs.
//
// Tuning: as many servers as the network needs, placement=balanced;
// overlap=true.
//
// Cost: a gradient up and parameters down a step and worker, all through the
// servers' NICs.
type Server struct{ Barrier bool }

var _ = Modes.Add("server", "parameter servers; a push is answered with the next parameters", Server{})

// Traits implements Mode.
func (m Server) Traits(j *Job) Traits {
	together := j.synchronous()
	return Traits{Servers: j.served(), PerUpdate: j.policy().PerUpdate, Acked: m.Barrier,
		Timeless: together, Outlives: !together, Weightless: true, Steady: true,
		Codec: TakesAll, Down: TakesForgetful, Heeds: serverHeeds, Refuses: serverRefuses}
}

var (
	serverHeeds   = []string{"servers", "placement", "policy", "corrector", "down_codec", "overlap", "bucket"}
	serverRefuses = map[string]string{"down_codec": whyForgetful}
)

// whyForgetful is why parameters travel through codecs without memory only.
const whyForgetful = "the next difference makes up for what the codec leaves out, and a codec that keeps it would add it a second time, until the parameters diverge; use the codec inside by itself, or one without memory (feedback permits it with unchecked=true)"

// Check implements Mode.
func (m Server) Check(j *Job) error {
	if m.Barrier && j.policy().Voids {
		return fmt.Errorf("policy %s sends parameters unasked, which barrier=true does not; use mode server", staleness.Policies.Spec(j.Policy))
	}
	if j.Overlap && j.policy().Voids {
		return fmt.Errorf("policy %s cancels gradients that are being computed, of which with overlap a part has left already; use overlap=false", staleness.Policies.Spec(j.Policy))
	}
	if (j.LogOrder || j.Replay != nil) && j.Servers > 1 && j.policy().Voids {
		return fmt.Errorf("policy %s cancels gradients, and with several servers the order of their words is not all that counts: order_log needs servers=1", staleness.Policies.Spec(j.Policy))
	}
	return checkServers(j)
}

// shards are the shards of a job with servers, cut into parts.
func (j *Job) shards() []*shard {
	sh := shards(j.Model.Layout(), j.Cuts())
	if j.Overlap && j.Heeds("bucket") {
		for _, s := range sh {
			s.cut(j.bucket())
		}
	}
	return sh
}

// bucket is about how many bytes of gradient travel together with overlap.
func (j *Job) bucket() int {
	if j.Bucket > 0 {
		return j.Bucket
	}
	return 1 << 20
}

// Program implements Mode.
func (m Server) Program(j *Job, rank int) (comm.Program, error) {
	sh := j.shards()
	if rank >= j.Workers {
		return j.serve(rank, sh)
	}
	w, err := newWorker(j, rank, sh)
	if err != nil {
		return nil, err
	}
	return w.program, nil
}

// checkServers builds the parts of a server job once, so that what cannot work
// is refused before anything starts.
func checkServers(j *Job) error {
	sh := j.shards()
	if _, err := newServer(j, 0, sh[0]); err != nil {
		return err
	}
	_, err := newWorker(j, 0, sh)
	return err
}

// worker is one replica: its parameters, and a link to every shard.
//
// A worker keeps no parameters of its own if it can do without: from the answer to
// a push until its next gradient is made it reads what all share who compute on
// that version. See cores.assemble.
type worker struct {
	job     *Job
	rank    int
	params  vector
	shares  bool // params are read only
	keeps   bool // params until newer ones come
	pushing bool // beside computing, by another activity
	barrier bool // parameters are asked for
	grad    vector
	links   []*link
	step    int
	h       comm.Host
	seat    seat
	work    comm.Work // of a round

	// The gradient leaves in marks: parts of shards in the order in which the
	// backward pass completes them.
	order []parcel
	spans [][]parcel // the parts that contain a span
	flags uint16     // of the answers to the last step
	asked bool       // for its state
	told  bool       // and has told it, with nothing pushed since
	loss  float64    // of the present step, for the headers of its pushes
	amend *amending  // of a corrector that works here
	voids bool       // the policy may cancel a gradient while it is computed
	sent  bool       // this step's gradient was whole before that
	stats workerStats
	times timer
}

// parcel is a part of a shard.
type parcel struct {
	link *link
	k    int        // in shard.parts
	next comm.Frame // of the present push, but for its sequence number
}

// link is a worker's side of one shard.
type link struct {
	id      int
	rank    int // pushes and pulls go there
	server  int // of the shard
	shard   *shard
	out     *packer
	in      *uplink
	version uint64
	seq     uint64
	waiting bool         // a push, or a pull, is unanswered
	due     comm.Tag     // of the answer
	got     int          // parts of the answer that are there
	done    bool         // the shard has made its updates
	voids   uint64       // taken from it
	fresh   []comm.Frame // by part: parameters not taken up yet, of a worker that shares
	fetched comm.Frame   // downpour: parameters that no one has waited for yet
}

type workerStats struct {
	zeroed uint64
	voided uint64
	stale  int // updates that others made between its last two answers
}

func newWorker(j *Job, rank int, sh []*shard) (*worker, error) {
	w := &worker{job: j, rank: rank, params: vector{f: j.initial()}, seat: seat{job: j}, voids: j.policy().Voids}
	w.spans = make([][]parcel, len(j.Model.Layout().Spans))
	for i, s := range sh {
		l := &link{id: i, rank: j.Workers + i, server: j.Workers + i, shard: s, fresh: make([]comm.Frame, len(s.parts))}
		var err error
		if l.out, err = j.packer(s, j.Codec, compress.Block{Rank: rank, World: j.Workers, Peer: l.rank, Dir: compress.Up, Seed: j.Seed}); err != nil {
			return nil, err
		}
		if l.in, err = newUplink(j, s, rank); err != nil {
			return nil, err
		}
		w.links = append(w.links, l)
		for k := len(s.parts) - 1; k >= 0; k-- {
			w.order = append(w.order, parcel{link: l, k: k})
			for _, pc := range s.pieces[s.parts[k].lo:s.parts[k].hi] {
				w.spans[pc.span] = append(w.spans[pc.span], parcel{link: l, k: k})
			}
		}
	}
	var err error
	if w.amend, err = newAmending(j, j.Model.Layout(), true); err != nil {
		return nil, err
	}
	t := j.traits()
	w.barrier = t.Acked && t.PerPush == 0
	// An answer that voids a gradient renews one shard's parameters and no other's;
	// what a difference is to is each worker's own.
	alone := j.Workers == 1 || j.Here == 1
	w.shares = !j.Weightless && isCast(j.DownCodec) && (whole(w.links) || !alone && (len(sh) == 1 || !w.voids))
	if !w.shares {
		w.keep()
	}
	// A part is complete once its first span is.
	slices.SortStableFunc(w.order, func(a, b parcel) int { return b.firstSpan() - a.firstSpan() })
	return w, nil
}

// keep gives the worker parameters of its own.
func (w *worker) keep() {
	w.shares, w.params = false, vector{f: slices.Clone(w.params.f)}
}

func (p parcel) part() part { return p.link.shard.parts[p.k] }

// encoding is the virtual time in which the parcel's payload is made.
func (p parcel) encoding() time.Duration { return p.link.out.encoding(p.part(), true) }

func (p parcel) firstSpan() int {
	if pt := p.part(); pt.lo < pt.hi {
		return p.link.shard.pieces[pt.lo].span
	}
	return 1 << 30 // an empty shard is complete at once
}

func (w *worker) program(ctx context.Context, h comm.Host) error {
	w.h = h
	if w.shares && w.job.Overlap && !h.Virtual() {
		w.keep() // a pass begins before all parameters are there
	}
	w.plan(ctx)
	start, err := receiveStart(ctx, h, w.job)
	if err != nil {
		return err
	}
	w.times.begin(h, false)
	if start != nil {
		if err := w.load(start); err != nil {
			return fmt.Errorf("worker %d: %w", w.rank, err)
		}
		if err := w.resume(ctx, start); err != nil {
			return err
		}
	}
	for w.flags&(flagDone|flagStop) == 0 {
		if err := w.round(ctx); err != nil && !errors.Is(err, errEnded) {
			return err
		}
		if w.barrier {
			if err := w.pull(ctx); err != nil {
				return err
			}
		}
		if err := w.times.tell(ctx, w.job, w.rank, w.step, w.stats.stale); err != nil {
			return err
		}
		mark := w.job.CheckpointEvery > 0 && w.step%w.job.CheckpointEvery == 0
		if !w.job.Overlap || mark || w.flags != 0 || w.asked {
			if err := w.awaitAll(ctx); err != nil {
				return err
			}
		}
		if mark, err = w.heeds(ctx, mark, w.state); err != nil {
			return err
		}
		if w.flags&flagDone == 0 && (mark || w.flags&flagStop != 0) {
			if err := w.checkpoint(ctx); err != nil {
				return err
			}
		}
	}
	if w.flags&flagDone != 0 {
		for _, l := range w.links {
			if err := h.Send(ctx, l.rank, comm.NewFrame(w.job.header(comm.Control, tagBye), comm.NewBuffer(0))); err != nil {
				return err
			}
		}
	}
	return w.final(ctx)
}

// errEnded ends a pass in which the answer that is waited for says that the run
// is over.
var errEnded = errors.New("the run is over")

// plan makes the work of a round.
func (w *worker) plan(ctx context.Context) {
	w.work = comm.Work{
		Cost: make([]time.Duration, len(w.order)),
		Run:  func(at func(int) error) error { return w.pass(ctx, at) },
		Then: func(mark int) error { return w.push(ctx, mark) },
	}
	if w.job.Overlap {
		w.work.Run = func(at func(int) error) error { return w.overlapped(ctx, at) }
	}
}

// do performs the work of a round.
func (w *worker) do(ctx context.Context) error {
	if w.voids {
		return w.voidable(ctx)
	}
	return w.h.Do(ctx, w.work)
}

// round computes one gradient and pushes it.
func (w *worker) round(ctx context.Context) error {
	tl := w.job.timeline(w.rank, w.step)
	began := w.times.read()
	coding := time.Duration(0)
	for i := range w.order {
		coding += w.order[i].encoding()
	}
	if !w.job.Overlap {
		w.work.Cost[0] = tl.total + coding
	} else {
		if w.h.Virtual() { // parameters arrive while the forward pass goes on
			for span, share := range tl.span {
				if err := w.need(ctx, span); err != nil {
					return err
				}
				if err := w.h.Sleep(ctx, time.Duration(share*float64(tl.forward))); err != nil {
					return err
				}
			}
		}
		w.backward(tl)
	}
	err := w.do(ctx)
	w.grad.release()
	if err != nil {
		return err
	}
	w.times.price(coding)
	w.times.computed(began)
	w.told = false
	w.step++
	return nil
}

// pass makes the gradient, then all pushes.
func (w *worker) pass(ctx context.Context, at func(int) error) error {
	if err := w.makeAll(ctx); err != nil {
		return err
	}
	w.computed()
	for i := range w.order {
		if err := at(i); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) makeAll(ctx context.Context) error {
	if w.job.Weightless {
		return w.sizeAll()
	}
	d := w.seat.take()
	defer w.seat.give(d)
	if err := w.compute(ctx, d, nil, nil); err != nil {
		return err
	}
	w.finish()
	for i := range w.order {
		if err := w.encode(i, w.grad); err != nil {
			return err
		}
	}
	return nil
}

// sizeAll makes every push without weights.
func (w *worker) sizeAll() error {
	for i := range w.order {
		if err := w.encode(i, vector{}); err != nil {
			return err
		}
	}
	return nil
}

// overlapped makes every push as soon as the backward pass has completed its
// shard. On a real clock the forward pass waits for parameters where it needs
// them; on the virtual clock they are there.
func (w *worker) overlapped(ctx context.Context, at func(int) error) error {
	if w.job.Weightless {
		if err := w.sizeAll(); err != nil {
			return err
		}
		return all(len(w.order), at)
	}
	d := w.seat.take()
	defer w.seat.give(d)
	need := func(span int) error {
		if !w.lacks(span) {
			return nil
		}
		return w.job.cores.away(func() error { return w.need(ctx, span) })
	}
	defer w.computed()
	back, mark := newDescent(len(w.spans)), 0
	return w.compute(ctx, d, need, func(span int) error {
		back.pass(span)
		for ; mark < len(w.order) && w.order[mark].firstSpan() >= back.left; mark++ {
			if err := w.encode(mark, w.grad); err != nil {
				return err
			}
			if err := at(mark); err != nil {
				return err
			}
		}
		return nil
	})
}

// backward fills in the virtual time of the backward pass up to each mark.
func (w *worker) backward(tl timeline) {
	cost := w.work.Cost
	done := time.Duration(0)
	sum, span := 0.0, len(tl.span)-1
	for i, p := range w.order {
		for ; span >= 0 && span >= p.firstSpan(); span-- {
			sum += tl.span[span]
		}
		if i == len(w.order)-1 { // whatever is left of the pass
			sum = 1
		}
		at := time.Duration(2 * sum * float64(tl.forward))
		cost[i] = max(at-done, 0) + p.encoding()
		done = max(at, done)
	}
}

// computed gives up what nobody needs once the pushes are encoded: the server
// then changes parameters that all have given up in place, and has the gradient
// to itself.
func (w *worker) computed() {
	w.grad.release()
	if w.shares && !w.keeps {
		w.params.release()
	}
}

// compute runs the forward and backward pass of the present step.
func (w *worker) compute(ctx context.Context, d *desk, need, ready func(int) error) error {
	if err := w.takeUp(); err != nil {
		return err
	}
	w.grad = newVector(len(w.params.f))
	loss, bad, err := w.job.gradient(ctx, d, w.params.f, w.grad.f, w.rank, w.step, need, ready)
	if bad {
		w.stats.zeroed++
	}
	w.loss = loss
	return err
}

// finish lets a corrector that works at the worker have the gradient.
func (w *worker) finish() {
	if w.amend != nil {
		w.amend.amend(w.grad.f, w.params.f, w.params.f, staleness.Past{Worker: w.rank, Update: w.step})
	}
}

// encode makes the payload of mark i.
func (w *worker) encode(i int, grad vector) error {
	p := &w.order[i]
	l := p.link
	hd := w.job.header(comm.Gradient, tagPush)
	hd.Shard, hd.Step, hd.Version, hd.Value = uint16(l.id), uint64(w.step), l.version, w.loss
	hd.Flags = w.passed()
	if p.k > 0 { // parts leave last ones first
		hd.Flags |= flagMore
	}
	began := w.times.start()
	var err error
	p.next, err = l.out.frame(hd, p.part(), grad, true, w.codecStep())
	w.times.encoded(began)
	if err != nil {
		return fmt.Errorf("worker %d, step %d: %w", w.rank, w.step, err)
	}
	return nil
}

func (w *worker) codecStep() compress.Step {
	p := w.job.progress(w.step, w.step*w.job.Workers)
	return compress.Step{N: w.step, Epoch: p.Epoch, Seed: w.job.Seed}
}

// push sends the payload of mark i.
func (w *worker) push(ctx context.Context, i int) error {
	p := &w.order[i]
	l, f := p.link, p.next
	p.next = comm.Frame{}
	f.Header.Seq = l.seq
	if p.k == 0 {
		l.seq++
		l.expect(tagAnswer)
	}
	return w.h.Send(ctx, l.rank, f)
}

func (l *link) expect(tag comm.Tag) { l.waiting, l.due, l.got = true, tag, 0 }

// lacks says whether parameters of a span are still on their way.
func (w *worker) lacks(span int) bool {
	return slices.ContainsFunc(w.spans[span], func(p parcel) bool { return p.link.waiting && p.link.got <= p.k })
}

// need waits for the parts that hold a span.
func (w *worker) need(ctx context.Context, span int) error {
	for _, p := range w.spans[span] {
		if err := w.await(ctx, p.link, p.k); err != nil {
			return err
		}
	}
	if w.flags != 0 {
		return errEnded
	}
	return nil
}

func (w *worker) awaitAll(ctx context.Context) error {
	for _, l := range w.links {
		if err := w.await(ctx, l, math.MaxInt); err != nil {
			return err
		}
	}
	return nil
}

// await takes the answer that a shard still owes, up to part k.
func (w *worker) await(ctx context.Context, l *link, k int) error {
	for l.waiting && l.got <= k {
		from := l.rank
		if l.due == tagSaved {
			from = l.server
		}
		f, err := w.h.Recv(ctx, from, l.due)
		if err != nil {
			return fmt.Errorf("worker %d, step %d, waiting for shard %d: %w", w.rank, w.step, l.id, err)
		}
		if l.due == tagSaved {
			err = w.catchUp(ctx, l, f.Header.Seq)
		}
		if err == nil {
			err = w.answer(l, f)
		}
		f.Release()
		if err != nil {
			return err
		}
		if f.Header.Kind == comm.Parameters && f.Header.Code != codeVoid {
			if err := w.times.decoding(ctx, l.in.taking(l.got-1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// pull asks all shards for parameters once they have all taken the push.
func (w *worker) pull(ctx context.Context) error {
	if err := w.awaitAll(ctx); err != nil || w.flags&flagDone != 0 {
		return err
	}
	for _, l := range w.links {
		hd := w.job.header(comm.Control, tagPull)
		hd.Shard, hd.Step = uint16(l.id), uint64(w.step)
		if err := w.h.Send(ctx, l.rank, comm.NewFrame(hd, comm.NewBuffer(0))); err != nil {
			return err
		}
		l.expect(tagFetched)
	}
	return nil
}

// answer takes the parameters of an answer and notes what it says.
func (w *worker) answer(l *link, f comm.Frame) error {
	w.hear(l, f.Header.Flags)
	if f.Header.Code == codeVoid { // beside what is waited for
		l.voids++
		return w.take(l, 0, f)
	}
	k := l.got
	if l.got++; f.Header.Flags&flagMore == 0 {
		l.waiting = false
	}
	switch {
	case f.Header.Code == codeRejected:
		return fmt.Errorf("worker %d, step %d: server %d refused the push: %s", w.rank, w.step, l.id, f.Body)
	case f.Header.Kind != comm.Parameters:
		return nil
	case k >= len(l.shard.parts):
		return fmt.Errorf("worker %d, step %d: server %d sent more than the %d parts of its shard", w.rank, w.step, l.id, len(l.shard.parts))
	}
	return w.take(l, k, f)
}

// hear notes what a frame's flags say. The run is over when all shards have made
// their updates.
func (w *worker) hear(l *link, flags uint16) {
	w.flags |= flags &^ (flagMore | flagDone | flagKeep)
	w.asked = w.asked || flags&flagKeep != 0
	l.done = l.done || flags&flagDone != 0
	if !slices.ContainsFunc(w.links, func(l *link) bool { return !l.done }) {
		w.flags |= flagDone
	}
}

// renewed notes the version that a shard's parameters now have.
func (w *worker) renewed(l *link, version uint64) {
	if l.id == 0 && version > l.version {
		w.stats.stale = int(version-l.version) - 1
	}
	l.version = version
}

// take takes part k of a shard's parameters.
func (w *worker) take(l *link, k int, f comm.Frame) error {
	w.renewed(l, f.Header.Version)
	if w.shares {
		w.params.release()
		l.fresh[k].Release()
		l.fresh[k] = f.Share()
		return nil
	}
	began := w.times.start()
	err := l.in.take(w.params.f, k, f)
	w.times.decoded(began)
	if err != nil {
		return fmt.Errorf("worker %d, step %d: parameters of server %d: %w", w.rank, w.step, l.id, err)
	}
	return nil
}

// takeUp makes what has come the parameters, before they are read.
func (w *worker) takeUp() (err error) {
	if w.params.f == nil {
		began := w.times.start()
		w.params, err = w.job.cores.assemble(w.links)
		w.times.within(began)
		for _, l := range w.links {
			for k := range l.fresh {
				l.fresh[k].Release()
			}
		}
	}
	if err != nil {
		return fmt.Errorf("worker %d, step %d: %w", w.rank, w.step, err)
	}
	return nil
}

// checkpoint reports the worker's state and waits until all have done so.
func (w *worker) checkpoint(ctx context.Context) error {
	st, err := w.state()
	if err != nil {
		return err
	}
	return w.mark(ctx, st)
}

func (w *worker) state() (*State, error) {
	st := newState()
	return st, w.save(st)
}

// heeds heeds the servers' wish for the worker's state. With a barrier, where all
// heed it behind the same step, it is told in passing; others come to rest as at a
// mark.
func (w *worker) heeds(ctx context.Context, mark bool, state func() (*State, error)) (bool, error) {
	asked := w.asked
	w.asked = false
	if !asked || mark || w.flags != 0 {
		return mark, nil
	}
	if !w.job.synchronous() {
		return true, nil
	}
	st, err := state()
	if err != nil {
		return false, err
	}
	w.told = true
	st.Ints[going] = 1
	leave(st, w.h, w.rank, w.h.Now())
	return false, sendState(ctx, w.h, w.job, st)
}

// passed is the flag of what is sent in the step behind one at which the state was
// told.
func (w *worker) passed() uint16 {
	if w.told {
		return flagKeep
	}
	return 0
}

// mark tells the worker's state and waits until all have done so.
func (w *worker) mark(ctx context.Context, st *State) error {
	if err := sendState(ctx, w.h, w.job, st); err != nil {
		return err
	}
	for _, l := range w.links {
		hd := w.job.header(comm.Control, tagSave)
		hd.Flags = w.flags & flagStop
		if err := w.h.Send(ctx, l.rank, comm.NewFrame(hd, comm.NewBuffer(0))); err != nil {
			return err
		}
	}
	return w.goOn(ctx)
}

// resume goes on from where the run was stopped; see server.resume.
func (w *worker) resume(ctx context.Context, st *State) error {
	if err := w.restore(ctx); err != nil {
		return err
	}
	if ok, err := resumeAt(ctx, st, w.h, w.rank); ok {
		return err
	}
	return w.goOn(ctx)
}

// restore takes up the parameters that the worker had when the run was stopped.
func (w *worker) restore(ctx context.Context) error {
	if w.job.restored() {
		for _, l := range w.links {
			for l.expect(tagRestored); l.got < len(l.shard.parts); {
				f, err := w.h.Recv(ctx, l.server, tagRestored)
				if err != nil {
					return err
				}
				l.got++
				err = w.take(l, l.got-1, f)
				f.Release()
				if err != nil {
					return err
				}
			}
			l.waiting = false
		}
	}
	return nil
}

// restored says whether the workers of a resumed run are told the parameters that
// they had, beside the run: they are neither changed by them nor in the checkpoint.
func (j *Job) restored() bool {
	return j.synchronous() && j.numShards() > 0 && j.traits().PerPush == 0 && isCast(j.DownCodec) && !j.Weightless
}

// goOn waits at a mark until every server lets the worker go on.
func (w *worker) goOn(ctx context.Context) error {
	for _, l := range w.links {
		l.expect(tagSaved)
	}
	return w.awaitAll(ctx)
}

func (w *worker) save(st *State) error {
	w.amend.save(st, fmt.Sprintf("amend/worker/%d/", w.rank))
	st.Ints[fmt.Sprintf("step/%d", w.rank)] = int64(w.step)
	st.Ints[fmt.Sprintf("zeroed/%d", w.rank)] = int64(w.stats.zeroed)
	st.Ints[fmt.Sprintf("voided/%d", w.rank)] = int64(w.stats.voided)
	mark := w.job.CheckpointEvery > 0 && w.step%w.job.CheckpointEvery == 0 // all go on together
	if !mark && w.flags&flagStop != 0 && w.job.synchronous() && w.job.tree() == nil {
		leave(st, w.h, w.rank, w.h.Now())
	}
	for _, l := range w.links {
		st.Ints[fmt.Sprintf("seq/%d/%d", w.rank, l.id)] = int64(l.seq)
		if err := l.out.save(st, fmt.Sprintf("codec/up/%d/", w.rank)); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) load(st *State) error {
	step, alive := st.Ints[fmt.Sprintf("step/%d", w.rank)]
	w.step = int(step)
	for r := 0; r < w.job.Workers && !alive; r++ { // it was dead: it begins anew, with the others
		w.step = max(w.step, int(st.Ints[fmt.Sprintf("step/%d", r)]))
	}
	w.times.earlier = w.step
	w.stats.zeroed = uint64(st.Ints[fmt.Sprintf("zeroed/%d", w.rank)])
	w.stats.voided = uint64(st.Ints[fmt.Sprintf("voided/%d", w.rank)])
	if alive {
		if err := w.amend.load(st, fmt.Sprintf("amend/worker/%d/", w.rank)); err != nil {
			return err
		}
	}
	for _, l := range w.links {
		l.seq = uint64(st.Ints[fmt.Sprintf("seq/%d/%d", w.rank, l.id)])
		l.version = uint64(st.Ints[fmt.Sprintf("holds/%d/%d", w.rank, l.id)])
		if alive {
			if err := l.out.load(st, fmt.Sprintf("codec/up/%d/", w.rank)); err != nil {
				return err
			}
		}
		if l.in.absolute {
			continue
		}
		held := make([]float32, l.shard.size())
		if err := st.vector(fmt.Sprintf("held/%d/%d", l.id, w.rank), held); err != nil {
			return err
		}
		l.shard.scatter(w.params.f, held)
	}
	return nil
}

func (w *worker) final(ctx context.Context) error {
	sent := uint64(0)
	for _, l := range w.links {
		sent += l.seq
	}
	r := RankReport{Rank: w.rank, Role: "worker", Sent: sent, Zeroed: w.stats.zeroed, Voided: w.stats.voided, Steps: w.step}
	return r.send(ctx, w.h, w.job, &w.times)
}

// Tokens by which the activities of a rank wake each other.
const (
	tokenFetch comm.Tag = tagToken + (iota+1)<<8
	tokenFetched
	tokenPush
	tokenPushed
	tokenRelay // the relay beside a learner has ended
)

// token wakes another activity.
func (w *worker) token(ctx context.Context, tag comm.Tag, hd comm.Header) error {
	hd.Run, hd.Kind, hd.Tag = w.job.Run, comm.Control, tag
	return w.h.Send(ctx, w.rank, comm.NewFrame(hd, comm.NewBuffer(0)))
}

// wait waits for a token.
func (w *worker) wait(ctx context.Context, tag comm.Tag) (comm.Header, error) {
	f, err := w.h.Recv(ctx, w.rank, tag)
	if err != nil {
		return comm.Header{}, err
	}
	defer f.Release()
	return f.Header, nil
}

// pushed waits until the push under way, which another activity makes, is taken.
func (w *worker) pushed(ctx context.Context) error {
	if !w.pushing {
		return nil
	}
	w.pushing = false
	began := w.times.read()
	hd, err := w.wait(ctx, tokenPushed)
	w.times.stood(began)
	w.flags |= hd.Flags &^ flagKeep
	w.asked = w.asked || hd.Flags&flagKeep != 0
	return err
}
