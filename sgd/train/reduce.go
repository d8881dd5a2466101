package train

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
)

// Reduce is synchronous training without servers: gradients are summed by the
// workers themselves, and every worker applies the same update, so no
// parameters travel. Codecs whose payloads add are summed over the topology;
// others are all-gathered and decoded in rank order.
//
// Rule: w ← w − rate·direction(mean of the codec's sums), on every rank.
//
// Paper: none of its own; the topologies have theirs.
//
// Tuning: overlap=true with buckets of some MB; topology auto until measured
// otherwise.
//
// Cost: 2·n·(P−1)/P elements a rank with raw and a ring; every step waits for
// the slowest rank.
type Reduce struct{}

// Gather is Reduce with the all-gather road forced for every codec.
//
// Rule: w ← w − rate·direction(mean of the decoded payloads), on every rank.
//
// Paper: none.
//
// Tuning: for comparison with reduce; codecs that sum are better off there.
//
// Cost: a payload from every rank to every rank: bytes grow with the ranks.
type Gather struct{}

var (
	_ = Modes.Add("reduce", "all-reduce over a topology, no servers", Reduce{})
	_ = Modes.Add("gather", "all-gather of payloads, no servers", Gather{})
)

// Traits implements Mode.
func (Reduce) Traits(j *Job) Traits {
	return Traits{PerUpdate: j.Workers, Sums: true, Timeless: true, Weightless: true, Steady: true, Codec: TakesAll, Heeds: reduceHeeds}
}

// Traits implements Mode.
func (Gather) Traits(j *Job) Traits {
	return Traits{PerUpdate: j.Workers, Sums: true, Gathers: true, Timeless: true, Weightless: true, Steady: true, Codec: TakesAll, Heeds: gatherHeeds}
}

var (
	reduceHeeds = []string{"topology", "overlap", "bucket", "cycle", "priority", "partition"}
	gatherHeeds = reduceHeeds[1:]
)

// Check implements Mode.
func (Reduce) Check(j *Job) error { _, err := newReducer(j, 0, false); return err }
func (Gather) Check(j *Job) error { _, err := newReducer(j, 0, true); return err }

// Program implements Mode.
func (Reduce) Program(j *Job, rank int) (comm.Program, error) { return reduceProgram(j, rank, false) }
func (Gather) Program(j *Job, rank int) (comm.Program, error) { return reduceProgram(j, rank, true) }

func reduceProgram(j *Job, rank int, gather bool) (comm.Program, error) {
	r, err := newReducer(j, rank, gather)
	if err != nil {
		return nil, err
	}
	return r.program, nil
}

// reducer is one rank.
type reducer struct {
	job      *Job
	rank     int
	shard    *shard
	common   *common
	grad     []float32 // of this rank, then the mean
	sched    lrschedule.Schedule
	all      bool                // mode gather: nothing is summed on the way
	counts   map[[2]int][2]int   // by bucket: bytes under codecs raw and bf16
	plain    bool                // sums of raw float32: the gradient is summed where it lies
	ex       []compress.Exchange // otherwise, by piece
	gathered []bool              // by piece: everybody decodes everybody's payload
	tariff   *tariff             // of the exchanges
	size     []int               // exact payload length on the gather road, −1 if it varies
	notes    []*series           // by piece: what an exchange asks for that nobody knows before; nil: nowhere
	asks     [][]ask             // in a run without weights, by piece
	group    collective.Group

	buckets []bucket      // in the order the backward pass completes them
	ops     []compress.Op // of all pieces
	fusion  fusion
	first   first
	step    int
	told    int // the step of the last report
	loss    float64
	stats   workerStats
	times   timer
	prog    progressMeter
	h       comm.Host
	net     comm.Endpoint // h, for collectives
	seat    seat
	work    comm.Work // of a round
	ask     uint16    // what this rank asks of all in the present round
}

// streaming is an endpoint with its way to stream, which collectives need not
// look for each time.
type streaming struct {
	comm.Endpoint
	comm.Streamer
}

// bucket is a run of pieces that are exchanged together.
type bucket struct {
	lo, hi int // pieces [lo, hi)
	tag    comm.Tag
	step   int           // of the exchange
	ops    []compress.Op // of these pieces
	fused  []float32
}

// sumsPlain says whether the gradient itself is summed: codec f sends it as it is, and
// has no exchange of its own.
func sumsPlain(f compress.Family) bool {
	return compress.Plain(f) && compress.Everywhere(f, func(c compress.Claims) bool { return c.Linear == compress.FloatSum && c.Rounds == 0 })
}

func newReducer(j *Job, rank int, gather bool) (*reducer, error) {
	l := j.Model.Layout()
	r := &reducer{job: j, rank: rank, shard: j.exchanged(), seat: seat{job: j}, all: gather, counts: map[[2]int][2]int{}}
	r.group.Me, r.group.Node = rank, j.Node
	for i := 0; i < j.Workers; i++ {
		r.group.Ranks = append(r.group.Ranks, i)
	}
	var err error
	if r.sched, err = j.schedule(); err != nil {
		return nil, err
	}
	r.gathered = make([]bool, len(r.shard.pieces))
	plain := !gather && sumsPlain(j.Codec)
	if j.Weightless {
		r.cut()
		if r.asks, err = j.cores.asks(); err != nil {
			return nil, err
		}
		for i, asks := range r.asks {
			r.gathered[i] = asks[0].payload
		}
		r.tariff = j.exchangeTariff(r.shard, r.gathered, plain)
		return r, nil
	}
	r.grad = make([]float32, l.Size())
	if r.common, err = j.cores.common(); err != nil {
		return nil, err
	}
	if j.Priority && r.common.opt.local == nil {
		return nil, fmt.Errorf("optimizer %s needs the whole gradient before any of it is applied; use priority=false, or clipvalue in place of clip", sgd.Optimizers.Spec(j.Optimizer))
	}
	if plain {
		r.plain = true
		r.cut()
		return r, nil
	}
	for _, pc := range r.shard.pieces {
		f := j.Codec
		if pc.raw {
			f = compress.Raw{}
		}
		b := pc.block
		b.Rank, b.World, b.Peer, b.Seed = rank, j.Workers, -1, j.Seed
		var ex compress.Exchange
		road := compress.RoadGather
		if gather {
			ex, err = compress.NewGather(f, b)
		} else {
			ex, road, err = compress.NewExchange(f, b)
		}
		if err != nil {
			return nil, fmt.Errorf("codec %s on %s: %w", compress.Families.Spec(f), b.Name, err)
		}
		size := -1
		if c, ok := compress.ClaimsOf(f, b); ok && c.Exact && road != compress.RoadOwn {
			size = c.Size
		}
		var note *series
		switch steady := known(f, b, road); {
		case !steady:
			note = j.Sizes.of(fmt.Sprintf("%d/%s", rank, b.Name))
			if j.Hollow {
				ex, note = &hollowExchange{size: -1, sizes: cursor{s: note}}, nil
			}
		case j.Hollow && road == compress.RoadGather:
			ex = &hollowExchange{size: size}
		}
		r.notes = append(r.notes, note)
		r.gathered[len(r.ex)] = gather || road == compress.RoadGather
		r.ex, r.size = append(r.ex, ex), append(r.size, size)
	}
	r.tariff = j.exchangeTariff(r.shard, r.gathered, false)
	r.cut()
	return r, nil
}

// cut makes the buckets: one of everything, or, when the exchange overlaps the
// backward pass, runs of pieces of about Bucket bytes from the last layer on.
func (r *reducer) cut() {
	limit := math.MaxInt
	switch {
	case r.job.fuses():
		limit = 1 // every piece by itself; fusion puts them together
	case r.job.Overlap:
		limit = r.job.bucket()
	}
	r.ops = make([]compress.Op, len(r.shard.pieces))
	hi, bytes := len(r.ops), 0
	for i := hi - 1; i >= 0; i-- {
		if bytes += 4 * r.shard.pieces[i].len; bytes >= limit || i == 0 {
			r.buckets = append(r.buckets, bucket{lo: i, hi: hi, tag: tagReduce + comm.Tag(len(r.buckets)), ops: r.ops[i:hi]})
			hi, bytes = i, 0
		}
	}
}

func (r *reducer) program(ctx context.Context, h comm.Host) error {
	r.h, r.net = h, streaming{h, comm.Streaming(h)}
	r.plan(ctx)
	start, err := receiveStart(ctx, h, r.job)
	if err != nil {
		return err
	}
	r.times.begin(h, r.job.Overlap)
	if start != nil {
		if err := r.load(start); err != nil {
			return fmt.Errorf("worker %d: %w", r.rank, err)
		}
		if _, err := resumeAt(ctx, start, h, r.rank); err != nil {
			return err
		}
	}
	switch {
	case r.job.fuses():
		h.Go("exchange", r.cycles)
	case r.job.Priority:
		from := r.step
		h.Go("exchange", func(ctx context.Context, h comm.Host) error { return r.exchangesFirst(ctx, h, from) })
	case r.job.Overlap:
		h.Go("exchange", r.exchanges)
	}
	stopped := false
	for !stopped && r.step < r.job.Updates {
		flags, err := r.round(ctx)
		if err != nil {
			return err
		}
		stopped = flags&flagStop != 0 && r.step < r.job.Updates
		every := r.job.CheckpointEvery
		mark := stopped || (flags&flagKeep != 0 || every > 0 && r.step%every == 0) && r.step < r.job.Updates
		if mark || r.step == r.job.Updates || r.rank == 0 && crossed(r.job.EvalEvery, r.told, r.step) {
			if err := r.settle(ctx); err != nil {
				return err
			}
		}
		if !r.job.Priority { // else it has, or will when the update is finished
			if err := r.report(ctx); err != nil {
				return err
			}
		}
		if mark {
			st, err := r.state()
			if err == nil {
				err = sendState(ctx, h, r.job, st)
			}
			if err != nil {
				return err
			}
		}
	}
	if r.job.Overlap { // let the activity end
		hd := r.job.header(comm.Control, tagToken)
		hd.Flags = flagDone
		if err := h.Send(ctx, r.rank, comm.NewFrame(hd, comm.NewBuffer(0))); err != nil {
			return err
		}
	}
	if err := r.snapshot(ctx, true); err != nil {
		return err
	}
	return r.final(ctx, stopped)
}

// plan makes the work of a round.
func (r *reducer) plan(ctx context.Context) {
	r.work = comm.Work{Cost: make([]time.Duration, len(r.buckets))}
	if !r.job.Overlap {
		r.work.Run = func(func(int) error) error { return r.pass(ctx) }
		return
	}
	r.work.Run = func(at func(int) error) error { return r.overlapped(ctx, at) }
	r.work.Then = func(mark int) error {
		if r.job.fuses() {
			r.fusion.ready.Add(1)
			return nil
		}
		r.first.made.Add(1)
		hd := r.job.header(comm.Control, tagToken)
		hd.Step = uint64(mark)
		hd.Flags = r.ask
		return r.h.Send(ctx, r.rank, comm.NewFrame(hd, comm.NewBuffer(0)))
	}
}

// round makes one step: gradient, exchange, update.
func (r *reducer) round(ctx context.Context) (flags uint16, err error) {
	tl := r.job.timeline(r.rank, r.step)
	if r.ask, err = r.asked(r.step, r.step+1); err != nil {
		return 0, err
	}
	coding := r.tariff.encode(0, len(r.shard.pieces))
	r.work.Cost[0] = tl.total + coding
	if r.job.Overlap {
		r.backward(tl)
	}
	if r.job.Priority {
		return r.roundFirst(ctx, tl, coding)
	}
	if r.job.fuses() {
		if err := r.letCycle(ctx); err != nil {
			return 0, err
		}
	}
	began := r.times.read()
	if err := r.h.Do(ctx, r.work); err != nil {
		return 0, err
	}
	r.times.price(coding)
	r.times.computed(began)
	if r.job.Overlap {
		began = r.times.read()
		flags, err = r.exchanged(ctx)
		r.times.stood(began)
	} else {
		flags, err = r.exchange(ctx, &r.buckets[0], r.step, r.ask)
	}
	if err != nil {
		return 0, err
	}
	r.update()
	r.step++
	return flags, r.times.tell(ctx, r.job, r.rank, r.step, 0)
}

// asked says what the first rank asks of all behind the steps that are being made,
// from, …, to: to stop, or to tell their states.
func (r *reducer) asked(from, to int) (flags uint16, err error) {
	if r.rank > 0 {
		return 0, nil
	}
	stop, err := r.job.stopsHere(r.h, from)
	if stop || crossed(r.job.CheckpointEvery, from, to) && r.job.stopsAtMark(r.h, from) {
		return flagStop, nil
	}
	if r.job.keepsHere(r.h, to < r.job.Updates && to+to-from >= r.job.Updates) {
		flags = flagKeep
	}
	return flags, err
}

// pass makes the gradient and begins its exchange.
func (r *reducer) pass(ctx context.Context) error {
	if r.job.Weightless {
		return nil
	}
	d := r.seat.take()
	defer r.seat.give(d)
	if err := r.compute(ctx, d, nil, nil); err != nil {
		return err
	}
	return r.begin(0)
}

// overlapped lets every bucket leave as soon as the backward pass has made it:
// tokens to the own rank wake the exchange activity.
func (r *reducer) overlapped(ctx context.Context, at func(int) error) error {
	if r.job.Weightless {
		return all(len(r.buckets), at)
	}
	d := r.seat.take()
	defer r.seat.give(d)
	var need func(int) error
	if r.job.Priority {
		var err error
		if need, err = r.needs(ctx); err != nil {
			return err
		}
	}
	back, mark := newDescent(len(r.job.Model.Layout().Spans)), 0
	return r.compute(ctx, d, need, func(span int) error {
		back.pass(span)
		for ; mark < len(r.buckets) && r.shard.pieces[r.buckets[mark].lo].span >= back.left; mark++ {
			if err := r.begin(mark); err != nil {
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
func (r *reducer) backward(tl timeline) {
	for i := range r.buckets {
		b := &r.buckets[i]
		r.work.Cost[i] = time.Duration(2*r.share(b, tl)*float64(tl.forward)) + r.tariff.encode(b.lo, b.hi)
	}
	if !r.job.Priority { // else it waits for parameters
		r.work.Cost[0] += tl.forward
	}
}

// share is a bucket's share of a pass. That of a tensor belongs to its last piece:
// the backward pass makes all pieces at once, and the last one leaves first; the
// forward pass needs all of them, and the last one comes last.
func (r *reducer) share(b *bucket, tl timeline) (share float64) {
	for i := b.lo; i < b.hi; i++ {
		if r.shard.ends(i) {
			share += tl.span[r.shard.pieces[i].span]
		}
	}
	return share
}

// exchanged waits until the exchange activity is done with all buckets.
func (r *reducer) exchanged(ctx context.Context) (flags uint16, err error) {
	tokens := len(r.buckets)
	if r.job.fuses() {
		tokens = 1
	}
	for range tokens {
		f, err := r.h.Recv(ctx, r.rank, tagToken+1<<8)
		if err != nil {
			return 0, err
		}
		flags |= f.Header.Flags
		f.Release()
	}
	return flags, nil
}

// exchanges is the second activity of a rank that overlaps.
func (r *reducer) exchanges(ctx context.Context, h comm.Host) error {
	for {
		f, err := h.Recv(ctx, r.rank, tagToken)
		if err != nil {
			return err
		}
		hd := f.Header
		f.Release()
		if hd.Flags&flagDone != 0 {
			return nil
		}
		flags, err := r.exchange(ctx, &r.buckets[hd.Step], r.step, hd.Flags&asks)
		if err != nil {
			return err
		}
		back := r.job.header(comm.Control, tagToken+1<<8)
		back.Flags = flags
		if err := h.Send(ctx, r.rank, comm.NewFrame(back, comm.NewBuffer(0))); err != nil {
			return err
		}
	}
}

func (r *reducer) compute(ctx context.Context, d *desk, need, ready func(int) error) error {
	loss, bad, err := r.job.gradient(ctx, d, r.common.params.f, r.grad, r.rank, r.step, need, ready)
	if bad {
		r.stats.zeroed++
	}
	r.loss = loss
	return err
}

// begin starts the exchanges of a bucket.
func (r *reducer) begin(k int) error {
	if r.plain {
		return nil
	}
	defer r.times.encoded(r.times.start())
	b := &r.buckets[k]
	p := r.job.progress(r.step, r.step*r.job.Workers)
	step := compress.Step{N: r.step, Epoch: p.Epoch, LR: r.sched(p), Seed: r.job.Seed}
	for i := range b.ops {
		pc := &r.shard.pieces[b.lo+i]
		var err error
		if b.ops[i], err = r.ex[b.lo+i].Begin(pc.at(r.grad, true), step); err != nil {
			return fmt.Errorf("worker %d, step %d, %s: %w", r.rank, r.step, pc.block.Name, err)
		}
		r.notes[b.lo+i].noteOp(b.ops[i])
	}
	return nil
}

// exchange performs the exchange of a bucket of a step and decodes it, which takes virtual time: of everybody's
// payloads, where they are gathered.
func (r *reducer) exchange(ctx context.Context, b *bucket, step int, flags uint16) (uint16, error) {
	b.step = step
	r.count(b)
	flags, err := r.perform(ctx, b, flags)
	if err != nil {
		return flags, err
	}
	return flags, r.times.decoding(ctx, r.tariff.decode(b.lo, b.hi))
}

// perform does what the exchanges of a bucket ask for, round by round, the
// like operations of a round fused into one collective; then it leaves the mean
// over all ranks in grad.
func (r *reducer) perform(ctx context.Context, b *bucket, flags uint16) (_ uint16, err error) {
	if r.job.Weightless {
		return r.paced(ctx, b, flags)
	}
	if r.plain {
		g := r.part(b)
		if r.job.fuses() {
			flags, err = r.sumAll(ctx, b, formats[compress.F32], r.tensors(b), flags)
		} else {
			flags, err = r.sum(ctx, b, formats[compress.F32], g, flags)
		}
		if err == nil && r.job.Workers > 1 {
			f32.Scale(g, 1/float32(r.job.Workers))
		}
		return flags, err
	}
	var held []func() // payloads are read until Output
	defer func() {
		for _, release := range held {
			release()
		}
	}()
	for busy := true; busy; {
		busy = false
		if flags, err = r.sums(ctx, b, compress.OpMax, compress.F32, wireMax{}, flags); err != nil {
			return flags, err
		}
		for wire, format := range formats {
			if flags, err = r.sums(ctx, b, compress.OpSum, compress.Wire(wire), format, flags); err != nil {
				return flags, err
			}
		}
		if flags, err = r.gathers(ctx, b, flags, &held); err != nil {
			return flags, err
		}
		if flags, err = r.scatters(ctx, b, flags, &held); err != nil {
			return flags, err
		}
		began := r.times.start()
		for i := range b.ops {
			if b.ops[i].Kind == compress.OpNone {
				continue
			}
			if b.ops[i], err = r.ex[b.lo+i].Next(b.ops[i]); err != nil {
				return flags, fmt.Errorf("worker %d, step %d, %s: %w", r.rank, b.step, r.shard.pieces[b.lo+i].block.Name, err)
			}
			r.notes[b.lo+i].noteOp(b.ops[i])
			busy = busy || b.ops[i].Kind != compress.OpNone
		}
		r.times.decoded(began)
	}
	defer r.times.decoded(r.times.start())
	for i := b.lo; i < b.hi; i++ {
		g := r.shard.pieces[i].at(r.grad, true)
		f32.Fill(g, 0)
		if err := r.ex[i].Output(g, 1/float32(r.job.Workers)); err != nil {
			return flags, fmt.Errorf("worker %d, step %d, %s: %w", r.rank, b.step, r.shard.pieces[i].block.Name, err)
		}
	}
	return flags, nil
}

// part is a bucket's part of the gradient.
func (r *reducer) part(b *bucket) []float32 {
	s := r.stretch(b)
	return r.grad[s.Lo:s.Hi]
}

// stretch is where a bucket's part of a vector lies.
func (r *reducer) stretch(b *bucket) sgd.Range {
	last := &r.shard.pieces[b.hi-1]
	return sgd.Range{Lo: r.shard.pieces[b.lo].off, Hi: last.off + last.len}
}

// tensors are a bucket's parts of the gradient, piece by piece.
func (r *reducer) tensors(b *bucket) (xs [][]float32) {
	for i := b.lo; i < b.hi; i++ {
		xs = append(xs, r.shard.pieces[i].at(r.grad, true))
	}
	return xs
}

// header of the collectives of a bucket.
func (r *reducer) header(b *bucket, flags uint16) comm.Header {
	hd := r.job.header(comm.Gradient, b.tag)
	hd.Step, hd.Flags = uint64(b.step), flags
	return hd
}

// sums runs all sums, or maxima, of one wire format as one all-reduce.
func (r *reducer) sums(ctx context.Context, b *bucket, kind compress.OpKind, wire compress.Wire, format collective.Format, flags uint16) (uint16, error) {
	n, only := 0, []float32(nil)
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == kind && op.Wire == wire {
			n, only = n+1, op.Floats
		}
	}
	switch {
	case n == 0 || r.job.Workers == 1:
		return flags, nil
	case n == 1:
		return r.sum(ctx, b, format, only, flags)
	case r.job.fuses():
		var xs [][]float32
		for i := range b.ops {
			if op := &b.ops[i]; op.Kind == kind && op.Wire == wire {
				xs = append(xs, op.Floats)
			}
		}
		return r.sumAll(ctx, b, format, xs, flags)
	}
	b.fused = b.fused[:0]
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == kind && op.Wire == wire {
			b.fused = append(b.fused, op.Floats...)
		}
	}
	flags, err := r.sum(ctx, b, format, b.fused, flags)
	if err != nil {
		return flags, err
	}
	at := 0
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == kind && op.Wire == wire {
			at += copy(op.Floats, b.fused[at:at+len(op.Floats)])
		}
	}
	return flags, nil
}

// sum folds x over all ranks, in place.
func (r *reducer) sum(ctx context.Context, b *bucket, format collective.Format, x []float32, flags uint16) (uint16, error) {
	return collective.AllReduce(ctx, r.net, r.group, r.job.Topology, r.header(b, flags), x, format)
}

// sumAll folds each of xs over all ranks, in place, in the frames of one.
func (r *reducer) sumAll(ctx context.Context, b *bucket, format collective.Format, xs [][]float32, flags uint16) (uint16, error) {
	return collective.AllReduceAll(ctx, r.net, r.group, r.job.Topology, r.header(b, flags), xs, format)
}

// gathers runs all gathers of a round as one.
func (r *reducer) gathers(ctx context.Context, b *bucket, flags uint16, held *[]func()) (uint16, error) {
	n := 0
	for i := range b.ops {
		if b.ops[i].Kind == compress.OpGather {
			n += len(b.ops[i].Bytes) + binary.MaxVarintLen32
		}
	}
	if n == 0 {
		return flags, nil
	}
	own := comm.NewBuffer(n)
	own.B = own.B[:0]
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == compress.OpGather {
			if size := r.size[b.lo+i]; size < 0 {
				own.B = binary.AppendUvarint(own.B, uint64(len(op.Bytes)))
			} else if size != len(op.Bytes) {
				own.Release()
				return flags, fmt.Errorf("%s: codec wrote %d bytes, it claims %d exactly", r.shard.pieces[b.lo+i].block.Name, len(op.Bytes), size)
			}
			own.B = append(own.B, op.Bytes...)
		}
	}
	parts, flags, release, err := collective.AllGather(ctx, r.net, r.group, r.header(b, flags), own)
	*held = append(*held, release)
	if err != nil {
		return flags, err
	}
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == compress.OpGather {
			op.Parts = append(op.Parts[:0], make([][]byte, r.job.Workers)...)
			for rank := range parts {
				size := r.size[b.lo+i]
				if size < 0 {
					l, w := binary.Uvarint(parts[rank])
					if w <= 0 || l > uint64(len(parts[rank])-w) {
						return flags, fmt.Errorf("payload of rank %d: %w", rank, compress.ErrCorrupt)
					}
					parts[rank], size = parts[rank][w:], int(l)
				}
				if size > len(parts[rank]) {
					return flags, fmt.Errorf("payload of rank %d: %w", rank, compress.ErrCorrupt)
				}
				op.Parts[rank], parts[rank] = parts[rank][:size], parts[rank][size:]
			}
		}
	}
	return flags, nil
}

// scatters runs all all-to-alls of a round as one: to each rank the slices that
// are for it, every one behind its length.
func (r *reducer) scatters(ctx context.Context, b *bucket, flags uint16, held *[]func()) (uint16, error) {
	var ops []*compress.Op
	for i := range b.ops {
		if op := &b.ops[i]; op.Kind == compress.OpScatter {
			ops = append(ops, op)
		}
	}
	if len(ops) == 0 {
		return flags, nil
	}
	out := make([]*comm.Buffer, r.job.Workers)
	for to := range out {
		n := 0
		for _, op := range ops {
			n += len(op.Slices[to]) + binary.MaxVarintLen32
		}
		out[to] = comm.NewBuffer(n)
		out[to].B = out[to].B[:0]
		for _, op := range ops {
			out[to].B = binary.AppendUvarint(out[to].B, uint64(len(op.Slices[to])))
			out[to].B = append(out[to].B, op.Slices[to]...)
		}
	}
	parts, flags, release, err := collective.AllToAll(ctx, r.h, r.group, r.header(b, flags), out)
	*held = append(*held, release)
	if err != nil {
		return flags, err
	}
	for _, op := range ops {
		op.Parts = append(op.Parts[:0], make([][]byte, r.job.Workers)...)
		for rank := range parts {
			n, w := binary.Uvarint(parts[rank])
			if w <= 0 || n > uint64(len(parts[rank])-w) {
				return flags, fmt.Errorf("slice of rank %d: %w", rank, compress.ErrCorrupt)
			}
			op.Parts[rank], parts[rank] = parts[rank][w:w+int(n)], parts[rank][w+int(n):]
		}
	}
	return flags, nil
}

// update applies the mean gradient.
func (r *reducer) update() {
	if r.job.Weightless {
		return
	}
	r.common.update(r.grad, r.present())
}

// present is the update of the present step.
func (r *reducer) present() sgd.Step {
	p := r.job.progress(r.step, r.step*r.job.Workers)
	return sgd.Step{N: r.step, Epoch: p.Epoch, LR: r.sched(p), Seed: r.job.Seed}
}

// report tells of the update made last.
func (r *reducer) report(ctx context.Context) error {
	v, told := r.step, r.told
	r.told = v
	if r.rank == 0 {
		if err := r.progress(ctx, crossed(r.job.reportEvery(), told, v) || v == r.job.Updates); err != nil {
			return err
		}
	}
	if crossed(r.job.EvalEvery, told, v) && v < r.job.Updates {
		return r.snapshot(ctx, false)
	}
	return nil
}

// progress counts the update made last, and tells of those since it told if that
// is due.
func (r *reducer) progress(ctx context.Context, due bool) error {
	if r.prog.add(comm.Header{Value: r.loss}); !due {
		return nil
	}
	now := r.h.Now()
	if r.job.Priority { // it may be made later, of what was there then
		now = r.first.whole
	}
	p := r.job.progress(r.step, r.step*r.job.Workers)
	m := Progress{Step: r.step, Samples: p.Samples, Epoch: p.Epoch, Seconds: now.Seconds(), LR: r.sched(p)}
	r.prog.fill(&m, nil)
	up, down := r.bytes()
	m.BytesUp, m.BytesDown = up*uint64(r.job.Workers), down*uint64(r.job.Workers)
	return sendJSON(ctx, r.h, r.job, tagProgress, m)
}

// crossed says whether a multiple of every lies in (from, to]; 0: there are none.
func crossed(every, from, to int) bool { return every > 0 && to/every > from/every }

// bytes is what this rank has sent and received.
func (r *reducer) bytes() (up, down uint64) {
	c := r.h.Traffic().Count()
	return c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient]
}

// snapshot tells the observer of an update to be evaluated: the first rank what the
// parameters are, all ranks when they had made it and what went over the network.
func (r *reducer) snapshot(ctx context.Context, last bool) error {
	p := r.job.progress(r.step, r.step*r.job.Workers)
	up, down := r.bytes()
	m := mark{Version: r.step, Samples: p.Samples, Epoch: p.Epoch, Seconds: r.h.Now().Seconds(), Up: up, Down: down, Last: last}
	if m.Bare = r.rank > 0 || r.job.Weightless; m.Bare {
		return sendJSON(ctx, r.h, r.job, tagMark, m)
	}
	return sendSnapshot(ctx, r.h, r.job, m, r.common.params)
}

// state is what this rank must keep over a restart; nil: nothing.
func (r *reducer) state() (*State, error) {
	if r.job.Weightless {
		return nil, nil
	}
	st := newState()
	st.Ints[fmt.Sprintf("step/%d", r.rank)] = int64(r.step)
	st.Ints[fmt.Sprintf("zeroed/%d", r.rank)] = int64(r.stats.zeroed)
	leave(st, r.h, r.rank, r.h.Now())
	c := r.h.Traffic().Count()
	tallied(st, r.rank, r.h, c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient])
	if r.rank == 0 { // the same on all ranks
		st.Ints["version"] = int64(r.step)
		r.common.save(st)
		if err := r.prog.save(st); err != nil {
			return nil, err
		}
	}
	for i, ex := range r.ex {
		if err := saveState(st, fmt.Sprintf("codec/up/%d/%s", r.rank, r.shard.pieces[i].block.Name), ex); err != nil {
			return nil, err
		}
	}
	return st, nil
}

func (r *reducer) load(st *State) error {
	r.step = int(st.Ints["version"])
	r.times.earlier = r.step
	r.told = r.step
	if err := r.common.load(st, r.step); err != nil {
		return err
	}
	return r.loadOwn(st)
}

// loadOwn takes up what this rank alone has.
func (r *reducer) loadOwn(st *State) error {
	r.stats.zeroed = uint64(st.Ints[fmt.Sprintf("zeroed/%d", r.rank)])
	if r.rank == 0 {
		if err := r.prog.load(st); err != nil {
			return err
		}
	}
	for i, ex := range r.ex {
		if err := loadState(st, fmt.Sprintf("codec/up/%d/%s", r.rank, r.shard.pieces[i].block.Name), ex); err != nil {
			return err
		}
	}
	return nil
}

func (r *reducer) final(ctx context.Context, stopped bool) error {
	rep := RankReport{Rank: r.rank, Role: "worker", Sent: uint64(r.step), Zeroed: r.stats.zeroed, Steps: r.step, Version: r.step, Stopped: stopped}
	rep.Ledger.Applied = uint64(r.step)
	return rep.send(ctx, r.h, r.job, &r.times)
}
