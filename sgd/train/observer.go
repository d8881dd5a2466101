package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Sink takes what a run reports, in order, on the observer's rank.
type Sink interface {
	Progress(record.Progress)
	Eval(record.Eval)
	// Checkpoint is given the whole run's state at a mark.
	Checkpoint(version int, s *checkpoint.State) error
}

// Observer is the last rank: it starts the others, evaluates snapshots of the
// parameters, gathers reports and checkpoints. Its traffic is of kind Report,
// billed to nobody.
type Observer struct {
	Job   *Job
	Start *checkpoint.State // nil: from scratch
	Sink  Sink

	Reports []record.RankReport // of the ranks that ended in order
	Dead    []string            // ranks that did not, where the run goes on without
	Final   record.Eval
	Reached bool // Final is the first evaluation at Job.Until or Settled, and the run ended there
	// Settled reports whether the run ends at an evaluation, of which it is told each, in
	// order, before the Sink is; nil: none ends it.
	Settled func(record.Eval) bool
	Params  []float32 // at the end
	SHA256  string    // of Params, little-endian
	Classes []uint64  // samples of the test set, by class; nil: there was no evaluation
	// Unjudged: the run was stopped, so that nothing was evaluated at Final.
	Unjudged bool

	rank    *Rank
	shards  []*wire.Shard
	layout  sgd.Layout
	now     func() time.Duration
	marks   map[int]Mark // rank → announced snapshot
	crossed crossings    // of workers without servers; with them nil
	parts   map[evalKey]*evalParts
	states  map[int]*checkpoint.State
	desk    *compute.Desk
	test    []*sgd.Batch // pieces of a small test set
	servers int
	over    bool   // a rank has reached the end at a mark
	owed    []owed // evaluations that a stop has put off
	kept    int    // how many of them are in the last checkpoint
	census  census
	told    tellings
	conduct *conductor // of modes without servers whose workers keep apart; else nil

	// Members lists the memberships of an elastic run in order, the present one last.
	Members []Membership
	mourned []*comm.PeerError // workers that are gone, as the registrar has been told
	lives   map[int]uint32    // incarnations of ranks that were heard
	closed  bool              // the registrar has ended
	held    []record.Progress // of updates that may yet be called off
	beyond  int               // updates before this one will not be called off; with servers

	// Of an open run.
	marked map[int]marked // by shard: what its state in states is for
	flows  map[int]flow   // by rank of a relay: its last word
	wholes int            // checkpoints that are whole
	step   int            // updates that were told of
}

// Program is what the observer's rank does.
func (o *Observer) Program(ctx context.Context, h comm.Host) error {
	j := o.Job
	o.rank = NewRank(j, j.Observer())
	o.rank.h = h
	o.layout, o.now = j.Model.Layout(), h.Now
	o.servers = j.numShards()
	if o.servers > 0 {
		o.shards = wire.Shards(o.layout, j.Cuts())
	} else {
		o.crossed = crossings{}
		o.shards = partsOf(j)
	}
	if j.Traits().Conduct != NotConducted {
		var err error
		if o.conduct, err = newConductor(o); err != nil {
			return err
		}
	}
	o.marks, o.parts, o.states, o.lives = map[int]Mark{}, map[evalKey]*evalParts{}, map[int]*checkpoint.State{}, map[int]uint32{}
	if err := o.loadMembers(); err != nil {
		return err
	}
	there := o.invited()
	if err := o.begin(ctx, h); err != nil {
		return err
	}
	ended := map[int]bool{}
	switch {
	case j.open():
		o.opens(there)
	case j.Elastic:
		h.Go("registrar", newRegistrar(o.rank, o.begins(ended)).run)
	}
	idle := comm.Idle(ctx) // a step takes as long as it takes
	for len(ended) < j.World() {
		f, err := h.Recv(idle, comm.AnyRank, comm.AnyTag)
		var p *comm.PeerError
		if errors.As(err, &p) {
			if err := o.gone(ctx, h, err, p, ended); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		from := int(f.Header.From)
		o.lives[from] = max(o.lives[from], f.Header.Incarnation)
		if f.Header.Tag == onFinal.Tag() {
			ended[from] = true
			o.census.left(j, from, record.StateEnded)
			if o.conduct != nil {
				if err := o.conduct.ended(ctx, from); err != nil {
					return err
				}
			}
		}
		if err := o.take(ctx, h, from, f, ended); err != nil {
			return fmt.Errorf("observer: %w", err)
		}
	}
	for _, p := range o.told.cut(len(o.told.queue)) {
		o.heard(p)
	}
	o.release(math.MaxInt)
	if err := o.passes(ctx, math.MaxInt); err != nil {
		return err
	}
	if err := o.settle(ctx); err != nil {
		return err
	}
	if j.Traits().Sums && !o.Reached { // it lasts until the last worker has the sums
		for _, r := range o.Reports {
			o.Final.Seconds = max(o.Final.Seconds, r.Seconds)
		}
	}
	return nil
}

// gone hears, by err, that a rank is gone. The error ends the run.
func (o *Observer) gone(ctx context.Context, h comm.Host, err error, p *comm.PeerError, ended map[int]bool) error {
	j := o.Job
	switch {
	case j.open() && !j.Fixed(p.Rank):
		if ended[p.Rank] || p.Incarnation < o.lives[p.Rank] {
			return nil
		}
		ended[p.Rank] = true
		if err := o.lostGuest(ctx, p); err != nil {
			return err
		}
		return o.checkpoint(ctx, h, ended)
	case j.open():
		if ended[p.Rank] {
			return nil
		}
		return p
	case j.Elastic && err != error(p): // no news: the registrar has ended the run
		return err
	case j.Elastic && p.Rank < j.Workers && (!o.closed || !ended[p.Rank]): // one that has ended may have come back
		return o.mourn(ctx, h, p, ended)
	case ended[p.Rank]:
		return nil
	case p.Rank >= j.Workers || !j.Traits().Outlives:
		return p
	}
	ended[p.Rank] = true
	o.census.left(j, p.Rank, record.StateDead)
	o.Dead = append(o.Dead, fmt.Sprintf("worker %d: %s", p.Rank, p.Cause))
	if len(o.Dead) == j.Workers {
		return fmt.Errorf("all workers are gone; the last one: %w", p)
	}
	if err := o.without(ctx, p.Rank); err != nil {
		return err
	}
	return o.checkpoint(ctx, h, ended)
}

// begin lets all ranks begin. Those of a process read the same bytes: a copy of the
// run's state for each would take as many times what they need.
func (o *Observer) begin(ctx context.Context, h comm.Host) error {
	buf := comm.NewBuffer(0)
	defer buf.Release()
	var due []owed
	if o.Start != nil {
		var err error
		if due, err = takeOwed(o.Start, o.layout.Size()); err != nil {
			return err
		}
		if buf.B, err = o.Start.Encode(nil, sgd.Layout{}); err != nil {
			return err
		}
		o.Start = nil
	}
	for r := range o.Job.World() {
		if err := onStart.Carry(ctx, o.rank, r, message.Nothing{}, 0, buf.Retain()); err != nil {
			return err
		}
	}
	return o.payOwed(ctx, due)
}

func (o *Observer) take(ctx context.Context, h comm.Host, from int, f comm.Frame, ended map[int]bool) error {
	if o.isVoid(&f.Header) {
		f.Release()
		return nil
	}
	switch f.Header.Tag {
	case onHere.Tag(), onMoved.Tag():
		return o.visited(ctx, h, f, ended)
	case onTold.Tag():
		m := onTold.Open(f)
		defer m.Release()
		return o.rolled(ctx, h, m, ended)
	case onProgress.Tag():
		var p record.Progress
		if err := o.decode(f, &p); err != nil {
			return err
		}
		lead := o.Job.Workers
		if err := o.passes(ctx, p.Step); err != nil {
			return err
		}
		if from < lead || from >= lead+o.servers || o.servers < 2 {
			o.heard(p)
			return nil
		}
		for _, p := range o.told.take(from, lead, o.servers, p) {
			o.heard(p)
		}
	case onWorker.Tag():
		var s record.WorkerState
		if err := o.decode(f, &s); err != nil {
			return err
		}
		s.Rank = from // members of an epoch, and of a job within the run, are numbered anew
		o.census.hear(o.Job, s)
	case onMark.Tag():
		var m Mark
		if err := o.decode(f, &m); err != nil {
			return err
		}
		o.crossed.hear(&f.Header, m.Up, m.Down)
		if o.marks[from] = m; m.Bare {
			return o.shown(ctx, h, from, comm.Frame{})
		}
	case OnSnapshot.Tag():
		defer f.Release()
		return o.shown(ctx, h, from, f)
	case onState.Tag():
		if err := o.stated(from, f); err != nil {
			return err
		}
		return o.checkpoint(ctx, h, ended)
	case onOrder.Tag():
		defer f.Release()
		if s, ok := o.Sink.(OrderSink); ok {
			return s.Order(f.Body)
		}
	case onFinal.Tag():
		var r record.RankReport
		if err := o.decode(f, &r); err != nil {
			return err
		}
		o.crossed.hear(&f.Header, r.Traffic.SentBytes[comm.Gradient], r.Traffic.RecvBytes[comm.Gradient]).reported = true
		o.Reports = append(o.Reports, r)
		return o.checkpoint(ctx, h, ended)
	default:
		hd := f.Header
		f.Release()
		if o.conduct == nil {
			return fmt.Errorf("rank %d sent a frame with tag %d", from, hd.Tag)
		}
		return o.conduct.take(ctx, hd)
	}
	return nil
}

// stated takes the state of a rank; an empty one says that there is none to go on from.
func (o *Observer) stated(from int, f comm.Frame) (err error) {
	defer f.Release()
	st := checkpoint.New()
	if len(f.Body) == 0 {
		o.over = true
	} else if st, err = checkpoint.Decode(append([]byte(nil), f.Body...), sgd.Layout{}); err != nil {
		return err
	}
	if o.marked == nil {
		o.states[from] = st
		return nil
	}
	if ok, err := o.relayed(from, st); ok || err != nil {
		return err
	}
	if o.states[from] = st; from >= o.Job.Workers {
		return o.mark(from, st)
	}
	return nil
}

func (o *Observer) decode(f comm.Frame, v any) error {
	defer f.Release()
	if err := json.Unmarshal(f.Body, v); err != nil {
		return fmt.Errorf("report of rank %d: %w", f.Header.From, err)
	}
	return nil
}

// reach ends the run as a stop would: ranks of this process are asked when they next
// look, servers and a coordinator elsewhere are told.
func (o *Observer) reach(ctx context.Context, h comm.Host) error {
	j := o.Job
	if j.Replay != nil { // the order of what was under way is not to be kept
		return ErrReached
	}
	j.reached.Store(true)
	for r := j.Workers; r < j.World(); r++ {
		if j.Traits().Coordinator && r != j.Coordinator() {
			continue
		}
		if err := onReached.Send(ctx, o.rank, r, message.Nothing{}, 0); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// Hash is the SHA-256 of a vector's little-endian bytes, in hex.
func Hash(v []float32) string {
	b, ok := f32.Bytes(v)
	if !ok {
		b = f32.AppendBytes(nil, v)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// evaluate scores params, of so many updates, on the whole test set, piece by piece, each a pass
// like any other: it waits for a core and uses those that are idle.
func (o *Observer) evaluate(ctx context.Context, updates int, params []float32) (sum sgd.Score, err error) {
	j, n := o.Job, o.Job.Data.Test.Len()
	if o.desk == nil {
		o.desk = compute.NewDesk(j.Model, j.Data.Test)
	}
	size := j.EvalBatch
	if size <= 0 {
		size = 500
	}
	var classes []uint64
	for at := 0; at < n; at += size {
		if ctx.Err() != nil {
			return sum, context.Cause(ctx)
		}
		if o.stops(updates) {
			return sum, errOwed
		}
		b, err := o.samples(at, size)
		if err != nil {
			return sum, err
		}
		if o.Classes == nil {
			classes = count(classes, b.Y)
		}
		s, err := o.score(params, b)
		if err != nil && o.stops(updates) {
			return sum, errOwed
		}
		if err != nil {
			return sum, err
		}
		sum.Add(s)
	}
	if o.Classes == nil {
		o.Classes = classes
	}
	return sum, nil
}

// count adds labels to counts by class.
func count(by []uint64, labels []int32) []uint64 {
	for _, y := range labels {
		for int(y) >= len(by) {
			by = append(by, 0)
		}
		if y >= 0 {
			by[y]++
		}
	}
	return by
}

// keepBytes is how large a test set may be, decoded, to be kept for the next
// evaluation: of a small model, decoding takes as long as the passes.
const keepBytes = 48 << 20

// samples returns the piece of the test set that begins at a sample: one that was
// kept, or one drawn now, and the next one meanwhile.
func (o *Observer) samples(at, size int) (*sgd.Batch, error) {
	test := o.Job.Data.Test
	n := test.Len()
	draw := func(at int) sgd.Draw { return sgd.Draw{First: uint64(at), N: min(size, n-at)} }
	if 4*n*test.Sample().Shape.Len() <= keepBytes {
		i := at / size
		if i == len(o.test) {
			b := new(sgd.Batch)
			if err := test.Batch(draw(at), b); err != nil {
				return nil, err
			}
			o.test = append(o.test, b)
		}
		return o.test[i], nil
	}
	b, err := o.desk.Batches.Batch(draw(at))
	if err == nil && at+size < n {
		o.desk.Batches.Ahead(draw(at + size))
	}
	return b, err
}

func (o *Observer) score(params []float32, b *sgd.Batch) (sgd.Score, error) {
	o.Job.cores.gate.Enter()
	defer o.Job.cores.gate.Leave()
	return o.Job.Model.Eval(params, o.desk.Scratch, *b)
}

// checkpoint hands the run's state on once every rank that still lives has told
// its own.
func (o *Observer) checkpoint(ctx context.Context, h comm.Host, ended map[int]bool) error {
	if len(o.states) == 0 {
		return nil
	}
	if o.marked != nil {
		return o.openCheckpoint(ctx, h, ended)
	}
	if j := o.Job; j.open() && j.Traits().Coordinator && o.states[j.Coordinator()] == nil { // of who is there it says the last word
		return nil
	}
	for r := 0; r < o.Job.World(); r++ {
		if o.states[r] == nil && !ended[r] && !o.absent(r) {
			return nil
		}
	}
	if o.over {
		o.states = map[int]*checkpoint.State{}
		return o.goOn(ctx, ended, 0)
	}
	all, err := o.whole()
	if err != nil {
		return err
	}
	free := o.conduct != nil && o.conduct.free
	if free {
		k := checkpoint.Saving(all)
		if o.conduct.meter.Keep(k); k.Err() != nil {
			return k.Err()
		}
	}
	version := int(all.Ints[KeyVersion])
	if err := o.Sink.Checkpoint(version, all); err != nil {
		return err
	}
	if all.Ints[keyGoing] != 0 { // nobody waits for it
		return nil
	}
	flags := message.Flags(0)
	if !free && o.Job.stopsAtMark(h, version) {
		flags = FlagStop
	}
	return o.goOn(ctx, ended, flags)
}

// whole is the run's state, from states that are not needed any more.
func (o *Observer) whole() (*checkpoint.State, error) {
	all := o.together()
	err := o.saveOwed(all)
	o.states = map[int]*checkpoint.State{}
	return all, err
}

// together is the run's state, put together from those of all ranks.
func (o *Observer) together() *checkpoint.State {
	all := checkpoint.New()
	for r, st := range o.states {
		if id := r - o.Job.Workers; id >= 0 && id < o.servers {
			o.unpack(all, o.shards[id], st)
		} else if id, ok := st.Ints[keyPart]; ok {
			delete(st.Ints, keyPart)
			o.unpack(all, o.shards[id], st)
		}
		version := max(all.Ints[KeyVersion], st.Ints[KeyVersion])
		all.Merge(st)
		all.Ints[KeyVersion] = version
	}
	all.Ints[keyNanoseconds] = int64(o.now())
	o.keepMembers(all)
	for _, name := range []string{keyBytesUp, keyBytesDown, keyRaw, keyBF16} {
		all.Ints[name] = 0
	}
	for _, name := range []string{keyBytesUp, keyBytesDown, keyRaw, keyBF16, keyWire, keyShared, keyReport, keyBody} {
		for r := 0; r < o.Job.World(); r++ {
			if n := all.Ints[checkpoint.Key(name, r)]; n != 0 {
				all.Ints[name] += n
			}
		}
	}
	gone := o.crossed.beside(func(w int) bool { return o.states[w] != nil })
	all.Ints[keyBytesUp] += int64(gone.up)
	all.Ints[keyBytesDown] += int64(gone.down)
	for r := range o.Job.Workers { // those who leave at instants of their own
		if at, ok := all.Ints[checkpoint.Key(keyLeft, r)]; ok {
			all.Ints[keyNanoseconds] = min(all.Ints[keyNanoseconds], at)
		}
	}
	return all
}

// unpack puts a shard's part of vectors that are laid out as the parameters into
// their place; what the shard keeps for each worker stays as it is.
func (o *Observer) unpack(all *checkpoint.State, sh *wire.Shard, st *checkpoint.State) {
	for name, v := range st.Vectors {
		if isHeld(name) {
			continue
		}
		if all.Vectors[name] == nil {
			all.Vectors[name] = make([]float32, o.layout.Size())
		}
		sh.Scatter(all.Vectors[name], v)
		delete(st.Vectors, name)
	}
}

// goOn tells those who wait for it that the checkpoint is whole: servers, and
// workers that keep apart; and whether they are to stop here.
func (o *Observer) goOn(ctx context.Context, ended map[int]bool, flags message.Flags) error {
	if o.conduct != nil {
		return o.conduct.goOn(ctx, flags)
	}
	for r := o.Job.Workers; r < o.Job.World(); r++ {
		if ended[r] {
			continue
		}
		f := comm.NewFrame(onGo.Header(o.Job, message.Nothing{}, flags), comm.NewBuffer(0))
		if n := len(o.Members); n > 0 { // who does not wait any more is not to hear it later
			f.Header.Epoch = uint32(o.Members[n-1].Epoch)
		}
		if err := o.rank.h.Send(ctx, r, f); err != nil {
			return err
		}
	}
	return nil
}
