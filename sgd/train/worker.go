package train

import (
	"context"
	"errors"
	"fmt"
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
type Server struct{}

var _ = Modes.Add("server", "parameter servers; a push is answered with the next parameters", Server{})

// Servers implements Mode.
func (Server) Servers(n int) int { return n }

// PerUpdate implements Mode.
func (Server) PerUpdate(j *Job) int { return staleness.PerUpdate(j.Policy, j.Workers) }

// Check implements Mode.
func (Server) Check(j *Job) error { return checkServers(j) }

// Program implements Mode.
func (Server) Program(j *Job, rank int) (comm.Program, error) {
	sh := shards(j.Model.Layout(), j.Placement, j.Servers)
	if rank >= j.Workers {
		s, err := newServer(j, rank-j.Workers, sh[rank-j.Workers], false)
		if err != nil {
			return nil, err
		}
		return s.program, nil
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
	sh := shards(j.Model.Layout(), j.Placement, j.Servers)
	if _, err := newServer(j, 0, sh[0], false); err != nil {
		return err
	}
	_, err := newWorker(j, 0, sh)
	return err
}

// worker is one replica: its parameters, and a link to every shard.
//
// Where parameters come raw and from one shard a worker keeps none of its own:
// it reads the server's, which all who compute on that version share, from the
// answer to a push until its next gradient is made.
type worker struct {
	job    *Job
	rank   int
	params vector
	shares bool // params belong to others
	grad   vector
	links  []*link
	step   int
	h      comm.Host
	seat   seat
	work   comm.Work // of a round

	// The gradient leaves in marks: shards in the order in which the backward
	// pass completes them.
	order    []int
	spanLeft [][]int // span → shards that contain it
	flags    uint16  // of the answers to the last step
	loss     float64 // of the present step, for the headers of its pushes
	stats    workerStats
}

// link is a worker's side of one shard.
type link struct {
	id, rank int
	shard    *shard
	out      *packer
	in       *uplink
	version  uint64
	seq      uint64
	waiting  bool       // a push is unanswered
	payload  comm.Frame // the next push, but for its sequence number
	fetched  comm.Frame // downpour: parameters not taken up yet
}

type workerStats struct {
	zeroed  uint64
	compute time.Duration
	wait    time.Duration
}

func newWorker(j *Job, rank int, sh []*shard) (*worker, error) {
	w := &worker{job: j, rank: rank, params: vector{f: j.initial()}, seat: seat{job: j}}
	w.spanLeft = make([][]int, len(j.Model.Layout().Spans))
	for i, s := range sh {
		l := &link{id: i, rank: j.Workers + i, shard: s}
		var err error
		if l.out, err = newPacker(s, j.Codec, compress.Block{Rank: rank, World: j.Workers, Peer: l.rank, Dir: compress.Up, Seed: j.Seed}); err != nil {
			return nil, err
		}
		if l.in, err = newUplink(j, s, rank); err != nil {
			return nil, err
		}
		w.links = append(w.links, l)
		w.order = append(w.order, i)
		for _, pc := range s.pieces {
			if k := w.spanLeft[pc.span]; len(k) == 0 || k[len(k)-1] != i {
				w.spanLeft[pc.span] = append(k, i)
			}
		}
	}
	_, steps := j.Mode.(stepping)
	_, raw := j.DownCodec.(compress.Raw)
	if w.shares = raw && len(sh) == 1 && sh[0].from == 0 && !j.Overlap && !steps; !w.shares {
		w.params.f = slices.Clone(w.params.f)
	}
	// A shard is complete once its first span is.
	slices.SortStableFunc(w.order, func(a, b int) int { return firstSpan(sh[b]) - firstSpan(sh[a]) })
	return w, nil
}

func firstSpan(s *shard) int {
	first := 1 << 30 // an empty shard is complete at once
	for _, p := range s.pieces {
		first = min(first, p.span)
	}
	return first
}

func (w *worker) program(ctx context.Context, h comm.Host) error {
	w.h = h
	w.plan(ctx)
	start, err := receiveStart(ctx, h, w.job)
	if err != nil {
		return err
	}
	if start != nil {
		if err := w.load(start); err != nil {
			return fmt.Errorf("worker %d: %w", w.rank, err)
		}
		if err := w.goOn(ctx); err != nil {
			return err
		}
	}
	for w.flags&(flagDone|flagStop) == 0 {
		if err := w.round(ctx); err != nil && !errors.Is(err, errEnded) {
			return err
		}
		mark := w.job.CheckpointEvery > 0 && w.step%w.job.CheckpointEvery == 0
		if !w.job.Overlap || mark || w.flags != 0 {
			if err := w.awaitAll(ctx); err != nil {
				return err
			}
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

// round computes one gradient and pushes it.
func (w *worker) round(ctx context.Context) error {
	tl := w.job.timeline(w.rank, w.step)
	began := w.h.Now()
	if !w.job.Overlap {
		w.work.Cost[0] = tl.total
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
	if err := w.h.Do(ctx, w.work); err != nil {
		return err
	}
	w.grad.release()
	w.stats.compute += w.h.Now() - began
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
	d := w.seat.take()
	defer w.seat.give(d)
	if err := w.compute(ctx, d, nil, nil); err != nil {
		return err
	}
	for i := range w.order {
		if err := w.encode(i, w.grad); err != nil {
			return err
		}
	}
	return nil
}

// overlapped makes every push as soon as the backward pass has completed its
// shard. On a real clock the forward pass waits for parameters where it needs
// them; on the virtual clock they are there.
func (w *worker) overlapped(ctx context.Context, at func(int) error) error {
	d := w.seat.take()
	defer w.seat.give(d)
	need := func(span int) error {
		if !w.lacks(span) {
			return nil
		}
		return w.job.cores.away(func() error { return w.need(ctx, span) })
	}
	back, mark := newDescent(len(w.spanLeft)), 0
	return w.compute(ctx, d, need, func(span int) error {
		back.pass(span)
		for ; mark < len(w.order) && firstSpan(w.links[w.order[mark]].shard) >= back.left; mark++ {
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
	for i, id := range w.order {
		sum := 0.0
		for span := len(tl.span) - 1; span >= 0 && span >= firstSpan(w.links[id].shard); span-- {
			sum += tl.span[span]
		}
		if i == len(w.order)-1 { // whatever is left of the pass
			sum = 1
		}
		at := time.Duration(2 * sum * float64(tl.forward))
		cost[i] = max(at-done, 0)
		done = max(at, done)
	}
}

// computed gives up what nobody needs once the pushes are encoded: the server
// then changes parameters that all have given up in place, and has the gradient
// to itself.
func (w *worker) computed() {
	w.grad.release()
	if w.shares {
		w.params.release()
	}
}

// compute runs the forward and backward pass of the present step.
func (w *worker) compute(ctx context.Context, d *desk, need, ready func(int) error) error {
	if w.params.f == nil {
		return fmt.Errorf("worker %d, step %d: no server has sent parameters", w.rank, w.step)
	}
	w.grad = newVector(len(w.params.f))
	loss, bad, err := w.job.gradient(ctx, d, w.params.f, w.grad.f, w.rank, w.step, need, ready)
	if bad {
		w.stats.zeroed++
	}
	w.loss = loss
	return err
}

// encode makes the payload of mark i.
func (w *worker) encode(i int, grad vector) error {
	l := w.links[w.order[i]]
	hd := w.job.header(comm.Gradient, tagPush)
	hd.Shard, hd.Step, hd.Version, hd.Value = uint16(l.id), uint64(w.step), l.version, w.loss
	var err error
	if l.payload, err = l.out.frame(hd, grad, true, w.codecStep()); err != nil {
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
	l := w.links[w.order[i]]
	f := l.payload
	f.Header.Seq = l.seq
	l.seq++
	l.waiting, l.payload = true, comm.Frame{}
	return w.h.Send(ctx, l.rank, f)
}

// lacks says whether parameters of a span are still on their way.
func (w *worker) lacks(span int) bool {
	return slices.ContainsFunc(w.spanLeft[span], func(id int) bool { return w.links[id].waiting })
}

// need waits for the shards that hold a span.
func (w *worker) need(ctx context.Context, span int) error {
	for _, id := range w.spanLeft[span] {
		if err := w.await(ctx, w.links[id]); err != nil {
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
		if err := w.await(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// await takes the answer to the push that a shard still owes.
func (w *worker) await(ctx context.Context, l *link) error {
	if !l.waiting {
		return nil
	}
	began := w.h.Now()
	f, err := w.h.Recv(ctx, l.rank, tagAnswer)
	if err != nil {
		return fmt.Errorf("worker %d, step %d, waiting for server %d: %w", w.rank, w.step, l.id, err)
	}
	w.stats.wait += w.h.Now() - began
	defer f.Release()
	l.waiting = false
	return w.answer(l, f)
}

// answer takes the parameters of an answer and notes what it says.
func (w *worker) answer(l *link, f comm.Frame) error {
	w.flags |= f.Header.Flags
	switch {
	case f.Header.Code == codeRejected:
		return fmt.Errorf("worker %d, step %d: server %d refused the push: %s", w.rank, w.step, l.id, f.Body)
	case f.Header.Kind != comm.Parameters:
		return nil
	}
	l.version = f.Header.Version
	if w.shares {
		w.params.release()
		var ok bool
		if w.params, ok = received(f); ok && len(f.Body) == 4*l.shard.size() {
			return nil
		}
		w.params.release()
		w.params = newVector(l.shard.size())
	}
	if err := l.in.take(w.params.f, f); err != nil {
		return fmt.Errorf("worker %d, step %d: parameters of server %d: %w", w.rank, w.step, l.id, err)
	}
	return nil
}

// checkpoint reports the worker's state and waits until all have done so.
func (w *worker) checkpoint(ctx context.Context) error {
	st := newState()
	if err := w.save(st); err != nil {
		return err
	}
	return w.mark(ctx, st)
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

// goOn waits at a mark until every server lets the worker go on.
func (w *worker) goOn(ctx context.Context) error {
	for _, l := range w.links {
		f, err := w.h.Recv(ctx, l.rank, tagSaved)
		if err != nil {
			return fmt.Errorf("worker %d, step %d, checkpoint at server %d: %w", w.rank, w.step, l.id, err)
		}
		err = w.answer(l, f)
		f.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) save(st *State) error {
	st.Ints[fmt.Sprintf("step/%d", w.rank)] = int64(w.step)
	for _, l := range w.links {
		st.Ints[fmt.Sprintf("seq/%d/%d", w.rank, l.id)] = int64(l.seq)
		st.Ints[fmt.Sprintf("holds/%d/%d", w.rank, l.id)] = int64(l.version)
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
	r := RankReport{Rank: w.rank, Role: "worker", Sent: sent, Zeroed: w.stats.zeroed, Steps: w.step,
		ComputeSeconds: w.stats.compute.Seconds(), WaitSeconds: w.stats.wait.Seconds(),
		Traffic: w.h.Traffic().Count(), Seconds: w.h.Now().Seconds()}
	return sendJSON(ctx, w.h, w.job, tagFinal, r)
}
