package train

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/message"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Peer is a worker that has parameters and an optimizer of its own and talks to
// other workers, not to servers. What it says to whom is the business of the
// mode around it, a Mover. What is evaluated is the mean of all workers' models.
//
// A run's updates are counted as the mode's Traits.Conduct says: every worker's
// steps, or any worker's. Checkpoints, stops, reports and evaluations are the Peer's.
type Peer struct {
	*Rank
	// X is the worker's parameters, which are kept in checkpoints. A mode may put
	// another vector in its place; empty: it keeps its model itself.
	X wire.Vector
	// Along is the graph along whose edges the mode's workers hear each other; nil: the job's.
	// How far apart workers in step can be follows from it.
	Along collective.Graph
	// Lag is how many steps after it was sent a message is taken in, by modes in step.
	Lag int

	grad  []float32
	rule  *OwnRule
	shard *wire.Shard
	codec *wire.Packer // encodes for others, decodes what others have encoded
	pace  pace

	at     []float32 // where the gradient is taken
	passed Pass
	delays []uint64 // histogram: how often others changed x while a gradient was made
	spaced int      // steps between boundaries; see apart
	meter  Meter

	near    near
	guest   Guest  // its mode, in an open run
	visit   *visit // of an open run; else nil
	dropped []callWord
}

// Mover is a mode around a Peer.
type Mover interface {
	// Move makes one step, exchange included.
	Move(ctx context.Context) error
	// Model is what the worker would be evaluated at, to be released. Where nobody
	// waits, an activity of its own asks for it at any time.
	Model() wire.Vector
	// Keep keeps what the mode has beside the Peer. Nobody makes a step meanwhile,
	// and frames may be under way only if the mode itself leaves them so.
	Keep(k *checkpoint.Keeper)
}

// Answerer is a Mover that hears what others say on OnPeer at any time, in an
// activity of its own. Others listen in Move.
type Answerer interface {
	Answer(ctx context.Context, said message.Mail[Said]) error
}

// Rester is a Mover that waits for what is under way, or takes it up, before its
// state is kept.
type Rester interface {
	Rest(ctx context.Context) error
}

// NewPeer makes a worker that sends parameters, or their differences, by codec f.
func NewPeer(r *Rank, f compress.Family) (*Peer, error) {
	j := r.job
	l := j.Model.Layout()
	size := l.Size()
	if j.Weightless { // arithmetic goes on, over no values
		size = 0
	}
	p := &Peer{Rank: r, shard: wire.WholeShard(l), grad: make([]float32, size), pace: pace{Rank: r}}
	p.pace.lost, p.pace.hears = p.loses, p.near.hears
	p.passed.On = func() ([]float32, []float32, error) { return p.at, p.grad, nil }
	p.X = wire.NewVector(size)
	copy(p.X.F(), j.initial())
	var err error
	if p.rule, err = NewOwnRule(r); err != nil {
		return nil, err
	}
	p.codec, err = j.packer(p.shard, f, compress.Block{Rank: r.rank, World: j.Workers, Peer: -1, Seed: j.Seed})
	return p, err
}

// Part is the rank's part, with m for its mode.
func (p *Peer) Part(m Mover) Part {
	p.guest, _ = m.(Guest)
	if p.free() {
		p.pace.show = func(ctx context.Context, update int, last bool) error {
			return p.snapshot(ctx, m.Model(), update, last)
		}
		if r, ok := m.(Rester); ok {
			p.pace.rest = r.Rest
		}
	}
	return &gossiper{peer: p, mover: m}
}

// gossiper is the part of a Peer.
type gossiper struct {
	peer    *Peer
	mover   Mover
	stopped bool
}

// Run implements Part.
func (g *gossiper) Run(ctx context.Context) error {
	stopped, err := g.peer.run(ctx, g)
	g.stopped = stopped
	return err
}

// Keep implements Part.
func (g *gossiper) Keep(k *checkpoint.Keeper) {
	from := k
	if p := g.peer; !k.Lived(p.rank) { // it was dead: what another one had is as good
		from = k.InPlaceOf(p.job.Workers, p.rank)
	}
	g.peer.keep(from)
	g.mover.Keep(from)
	if from != k {
		g.peer.unmade()
	}
	k.Fail(from.Err())
}

// Final implements Part.
func (g *gossiper) Final(r *record.RankReport) {
	p := g.peer
	made := uint64(p.step) - p.stats.missed
	r.Sent, r.Version, r.Delays, r.Stopped = made, p.step, p.delays, g.stopped
	r.Ledger.Applied = made
}

// run makes the steps of a peer.
func (p *Peer) run(ctx context.Context, g *gossiper) (stopped bool, err error) {
	m, h, free := g.mover, p.h, p.free()
	if _, err := p.CatchUp(ctx); err != nil {
		return false, err
	}
	if err := p.arrive(ctx); err != nil || p.visit.gone() {
		return false, err
	}
	p.pace.begin()
	answerer, aside := m.(Answerer)
	if aside {
		h.Go("answers", func(ctx context.Context, _ comm.Host) error { return p.answers(ctx, answerer, m) })
	}
	save, keep := p.saves(m)
	var flags message.Flags
	for flags == 0 && (free || p.step < p.job.Updates) {
		if err := p.pass(ctx, g); err != nil {
			return false, err
		}
		if p.visit.gone() {
			break
		}
		var updates int
		if flags, updates, err = p.pace.next(ctx, p.step, save, keep); err != nil {
			return false, err
		}
		if flags != 0 {
			if free && flags&FlagStop != 0 {
				err = p.snapshot(ctx, m.Model(), updates, true)
			}
			break
		}
		if err := m.Move(ctx); err != nil {
			return false, err
		}
		if err := p.Made(ctx); err != nil {
			return false, err
		}
		if free {
			err = p.pace.tick(ctx, p.step, p.loss)
		} else {
			flags, err = p.report(ctx, m)
		}
		if err != nil {
			return false, err
		}
	}
	if err == nil && !free {
		err = p.snapshot(ctx, m.Model(), p.step, true)
	}
	if err != nil {
		return false, err
	}
	if err := p.pace.end(ctx); err != nil {
		return false, err
	}
	if err := p.rests(ctx); err != nil {
		return false, err
	}
	if aside { // let the activity end
		if err := OnPeer.As(comm.Control).Wake(ctx, p.Rank, Said{}, 0); err != nil {
			return false, err
		}
	}
	return flags&FlagStop != 0, nil
}

// saves is how the worker tells its state where all rest, and in passing.
func (p *Peer) saves(m Mover) (save func(ctx context.Context, updates int) error, keep func(ctx context.Context) error) {
	save = func(ctx context.Context, updates int) error {
		st := checkpoint.New()
		if !p.free() {
			updates = p.step
			leave(st, p.h, p.rank, p.pace.since)
		}
		_, err := p.checkpoint(ctx, st, m, updates)
		return err
	}
	return save, func(ctx context.Context) error {
		st := checkpoint.New()
		st.Ints[keyGoing] = 1
		leave(st, p.h, p.rank, p.pace.since)
		return p.tellState(ctx, st, m, p.step)
	}
}

// answers is the activity that hears what others say at any time.
func (p *Peer) answers(ctx context.Context, a Answerer, m Mover) error {
	idle := comm.Idle(ctx)
	for {
		f, err := OnPeer.Recv(idle, p.Rank, comm.AnyRank)
		if err != nil {
			if err = p.loses(ctx, err); err != nil {
				return err
			}
			continue
		}
		switch asks := f.Header.Kind == comm.Control; {
		case asks && f.From == p.rank: // at the end
			f.Release()
			return nil
		case asks:
			err = p.heals(ctx, f, m)
		case p.isMeant(f):
			err = a.Answer(ctx, f)
		}
		f.Release()
		if err != nil {
			return err
		}
	}
}

// Gradient makes the gradient of the present step at parameters that stay as
// they are meanwhile.
func (p *Peer) Gradient(ctx context.Context, at []float32) error {
	p.at = at
	return p.Compute(ctx, p.passed)
}

// Descend takes the optimizer's step from params, in place, by the last gradient.
func (p *Peer) Descend(params []float32) { p.rule.Descend(p.grad, params) }

// Direction is what Descend would subtract from params. The last gradient is gone.
func (p *Peer) Direction(params []float32) []float32 {
	p.rule.Direction(p.grad, params)
	return p.grad
}

// Tell sends v, encoded once, to the far ends of edges, with a weight of push-sum.
func (p *Peer) Tell(ctx context.Context, weight float64, v wire.Vector, edges []collective.Edge) error {
	if len(edges) == 0 {
		return nil
	}
	if err := p.Billed(ctx); err != nil {
		return err
	}
	return p.TellNow(ctx, weight, v, edges)
}

// Billed lets the time pass in which what is told next is encoded.
func (p *Peer) Billed(ctx context.Context) error { return p.times.Encoding(ctx, p.Encoding()) }

// Encoding is the virtual time in which a vector is encoded.
func (p *Peer) Encoding() time.Duration { return p.codec.Encoding(p.shard.Whole, true) }

// Decoding is the virtual time in which one is decoded and added to another.
func (p *Peer) Decoding() time.Duration { return p.codec.Decoding(p.shard.Whole) }

// Elapse lets d pass on a virtual clock, in an activity beside the main one.
func (p *Peer) Elapse(ctx context.Context, d time.Duration) error { return Elapse(ctx, p.h, d) }

// Decoded lets n decodings pass on a virtual clock, in the main activity.
func (p *Peer) Decoded(ctx context.Context, n int) error {
	return p.times.Decoding(ctx, time.Duration(n)*p.Decoding())
}

// TellNow is Tell by somebody who holds a lock, and was Billed before.
func (p *Peer) TellNow(ctx context.Context, weight float64, v wire.Vector, edges []collective.Edge) error {
	if len(edges) == 0 {
		return nil
	}
	f, err := p.Encode(OnPeer, Said{Step: p.step, Weight: weight}, v)
	if err != nil {
		return err
	}
	return p.Spread(ctx, f, edges)
}

// Encode makes a frame of v for a channel. Its body may be the memory of v itself,
// which then must not be written to until the frame is released: see Vector.Own.
func (p *Peer) Encode(on message.Channel[Said], w Said, v wire.Vector) (comm.Frame, error) {
	defer p.times.Encoded(p.times.Start())
	return p.EncodeAside(on, w, v)
}

// EncodeAside is Encode in another activity, whose times nobody tells.
func (p *Peer) EncodeAside(on message.Channel[Said], w Said, v wire.Vector) (comm.Frame, error) {
	f, err := p.codec.Frame(on.Header(p.job, w, 0), p.shard.Whole, v, true, compress.Step{N: w.Step, Seed: p.job.Seed})
	if err != nil {
		return f, fmt.Errorf("worker %d, step %d: %w", p.rank, p.step, err)
	}
	return f, nil
}

// Spread sends a frame, of which it takes over one reference, to the far ends of
// edges, at least one. Where the run goes on without workers that died, they are noted.
func (p *Peer) Spread(ctx context.Context, f comm.Frame, edges []collective.Edge) error {
	for i, e := range edges {
		g := f
		if p.job.open() { // others may know of others
			said := readSaid(f.Header)
			said.Share = e.Weight
			g.Header = said.Put(f.Header)
		}
		if i < len(edges)-1 {
			f.Share()
		}
		if err := p.Lost(p.Send(ctx, e.Rank, g)); err != nil {
			return err
		}
	}
	return nil
}

// Send sends a worker a frame that Encode has made.
func (p *Peer) Send(ctx context.Context, to int, f comm.Frame) error {
	plainly(p.h, p.shard.Whole)
	said := readSaid(f.Header)
	said.life = p.near.lifeOf(to)
	f.Header = said.Put(f.Header)
	return p.h.Send(ctx, to, f)
}

// Replies waits for what each of some workers answers on OnReply, and gives it to take. Who
// dies meanwhile is noted, and not waited for.
func (p *Peer) Replies(ctx context.Context, of []int, take func(message.Mail[Said]) error) error {
	left, open := slices.Clone(of), p.job.open()
	for {
		if open { // of one that died, and in whose place another one has come, nothing else tells
			left = slices.DeleteFunc(left, func(r int) bool { return p.near.death(r) != nil })
		}
		if len(left) == 0 {
			return nil
		}
		who := left[0]
		if open {
			who = comm.AnyRank
		}
		f, err := OnReply.Recv(ctx, p.Rank, who)
		if err != nil {
			if err = p.Lost(err); err != nil {
				return err
			}
			if !open {
				left = left[1:]
			}
			continue
		}
		if i := slices.Index(left, f.From); i >= 0 && (!open || f.Header.Incarnation >= p.near.lifeOf(f.From)) {
			left = slices.Delete(left, i, i+1)
			err = take(f)
		}
		f.Release()
		if err != nil {
			return err
		}
	}
}

// Hear adds, at its weight, what the near end of an edge said in step.
func (p *Peer) Hear(ctx context.Context, v []float32, e collective.Edge, step int) (Said, error) {
	f, err := p.Listen(ctx, e.Rank, step)
	if err != nil {
		return Said{}, err
	}
	defer f.Release()
	if err := p.Decoded(ctx, 1); err != nil {
		return f.Word, err
	}
	return f.Word, p.Add(v, float32(e.Weight), f.Frame)
}

// Listen waits for what a worker said in step.
func (p *Peer) Listen(ctx context.Context, from, step int) (message.Mail[Said], error) {
	f, err := OnPeer.Recv(ctx, p.Rank, from)
	if err != nil {
		return f, fmt.Errorf("worker %d, step %d, waiting for worker %d: %w", p.rank, p.step, from, err)
	}
	if f.Word.Step != step {
		f.Release()
		return f, fmt.Errorf("worker %d, step %d: worker %d is at step %d, not %d", p.rank, p.step, from, f.Word.Step, step)
	}
	return f, nil
}

// Add adds weight times what a frame holds, in the main activity.
func (p *Peer) Add(v []float32, weight float32, f comm.Frame) error {
	defer p.times.Decoded(p.times.Start())
	return p.AddAside(v, weight, f)
}

// AddAside is Add in another activity, whose times nobody tells.
func (p *Peer) AddAside(v []float32, weight float32, f comm.Frame) error {
	from := compress.From{Rank: int(f.Header.From), Step: int(f.Header.Step)}
	if err := p.codec.AddTo(p.shard.Whole, v, true, weight, f.Body, from); err != nil {
		return fmt.Errorf("worker %d, step %d: payload of worker %d: %w", p.rank, p.step, from.Rank, err)
	}
	return nil
}

// Late books how often others changed x while a gradient was made.
func (p *Peer) Late(times int) {
	p.stats.stale = times
	for len(p.delays) <= times {
		p.delays = append(p.delays, 0)
	}
	p.delays[times]++
}

// report does what is due after a step that all workers make. FlagStop says that
// the run stops here.
func (p *Peer) report(ctx context.Context, m Mover) (flags message.Flags, err error) {
	v, j := p.step, p.job
	if p.rank == 0 {
		p.meter.Add(0, p.loss)
		if v%j.ReportEvery() == 0 || v == j.Updates {
			s := j.ProgressAt(v, v*j.Workers)
			pr := record.Progress{Step: v, Samples: s.Samples, Epoch: s.Epoch, Seconds: p.h.Now().Seconds(), LR: p.rule.sched(s)}
			p.meter.Fill(&pr, nil)
			c, w := p.h.Traffic().Count(), uint64(j.Workers)
			pr.BytesUp, pr.BytesDown = c.SentBytes[comm.Gradient]*w, c.RecvBytes[comm.Gradient]*w
			if err := p.tellJSON(ctx, onProgress, pr); err != nil {
				return 0, err
			}
		}
		if err := p.pace.tick(ctx, v, p.loss); err != nil {
			return 0, err
		}
	}
	if v == j.Updates {
		return 0, nil
	}
	if Crossed(j.EvalEvery, v-1, v) {
		if err := p.snapshot(ctx, m.Model(), v, false); err != nil {
			return 0, err
		}
	}
	if Crossed(j.CheckpointEvery, v-1, v) {
		return p.checkpoint(ctx, checkpoint.New(), m, v)
	}
	return 0, nil
}

// snapshot tells the observer the parameters x, which it releases, at an update.
func (p *Peer) snapshot(ctx context.Context, x wire.Vector, update int, last bool) error {
	defer x.Release()
	s := p.job.ProgressAt(update, update*p.job.PerUpdate())
	c := p.h.Traffic().Count()
	m := Mark{
		Version: update, Samples: s.Samples, Epoch: s.Epoch, Seconds: p.h.Now().Seconds(),
		Up: c.SentBytes[comm.Gradient], Down: c.RecvBytes[comm.Gradient], Last: last, Bare: p.job.Weightless,
	}
	return p.Snapshot(ctx, m, x)
}

// checkpoint tells the worker's state and waits until that of all is kept.
func (p *Peer) checkpoint(ctx context.Context, st *checkpoint.State, m Mover, updates int) (flags message.Flags, err error) {
	if err := p.tellState(ctx, st, m, updates); err != nil {
		return 0, err
	}
	_, flags, err = onGo.Hear(ctx, p.Rank, p.job.Observer())
	return flags, err
}

// tellState tells the worker's state, added to what st holds.
func (p *Peer) tellState(ctx context.Context, st *checkpoint.State, m Mover, updates int) error {
	if r, ok := m.(Rester); ok && !p.free() { // else it has rested
		if err := r.Rest(ctx); err != nil {
			return err
		}
	}
	if p.job.Weightless { // there is nothing to keep
		return p.sendState(ctx, nil)
	}
	st.Ints[KeyVersion] = int64(updates)
	k := checkpoint.Saving(st)
	p.keep(k)
	m.Keep(k)
	c := p.h.Traffic().Count() // with what the mode took in to be saved
	Tally(st, p.rank, p.h, c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient])
	if k.Err() != nil {
		return k.Err()
	}
	return p.sendState(ctx, st)
}

// keep keeps what a peer has beside what its mode has.
func (p *Peer) keep(k *checkpoint.Keeper) {
	k.Int(checkpoint.Key(checkpoint.KeyStep, p.rank), &p.step)
	p.KeepCounts(k)
	for k.Loads() && k.Has(checkpoint.Key(keyDelays, p.rank, len(p.delays))) {
		p.delays = append(p.delays, 0)
	}
	for d := range p.delays {
		k.Count(checkpoint.Key(keyDelays, p.rank, d), &p.delays[d])
	}
	if p.X.F() != nil {
		k.Vector(checkpoint.Key(keyOwn, p.rank), p.X.F())
	}
	p.rule.Keep(k)
	p.codec.Keep(k, checkpoint.Under(KeyUp, p.rank))
	if p.rank == 0 && !p.free() {
		p.meter.Keep(k)
	}
}

// free says whether nobody waits for anybody.
func (p *Peer) free() bool {
	return p.job.Traits().Conduct == Free
}
