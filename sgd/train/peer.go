package train

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
)

// peer is a worker that has parameters and an optimizer of its own and talks to
// other workers, not to servers. What it says to whom is the business of the
// mode around it. What is evaluated is the mean of all workers' parameters.
type peer struct {
	*Rank
	x     vector // empty where all share the mode's
	grad  []float32
	inner *stepper
	sched lrschedule.Schedule
	shard *shard
	codec *packer // encodes for others, decodes what others have encoded
	pace  pace
	aside func(ctx context.Context, f Mail[saidWord]) error // answers, in an activity of its own, what others say; nil: move listens

	at     []float32 // where the gradient is taken
	passed Pass
	delays []uint64 // histogram: how often others changed x while a gradient was made
	meter  progressMeter
}

// mover is a mode around a peer.
type mover interface {
	// move makes one step, exchange included.
	move(ctx context.Context) error
	// model is what the worker would be evaluated at, to be released.
	model() vector
	// Keep keeps what the mode has beside the peer. Nobody makes a step meanwhile,
	// and frames may be under way only if the mode itself leaves them so; one with
	// a method Rest(context.Context) error takes them up there before.
	Keep(k *Keeper)
}

func newPeer(r *Rank, f compress.Family) (*peer, error) {
	j := r.job
	l := j.Model.Layout()
	p := &peer{Rank: r, shard: wholeShard(l), grad: make([]float32, l.Size()), pace: pace{Rank: r}}
	p.passed.On = func() ([]float32, []float32, error) { return p.at, p.grad, nil }
	p.x = newVector(l.Size())
	copy(p.x.f, j.initial())
	var err error
	if p.inner, err = newStepper(j.Optimizer, l, j.cores.limit()); err != nil {
		return nil, fmt.Errorf("optimizer: %w", err)
	}
	if p.sched, err = j.schedule(); err != nil {
		return nil, err
	}
	if p.codec, err = j.newPacker(p.shard, f, compress.Block{Rank: r.rank, World: j.Workers, Peer: -1, Seed: j.Seed}); err != nil {
		return nil, err
	}
	p.codec.tariff = j.tariff(p.shard, false, false)
	return p, nil
}

// What modes that gossip claim alike.
var (
	gossipHeeds   = []string{"graph"}
	gossipRefuses = map[string]string{
		"overlap": "it exchanges whole parameters, and overlap is for gradients that leave as they are made",
		"codec":   "it averages parameters, which other codecs do not keep; use mode choco for differences through any codec",
	}
)

// gossiper is the part of a peer whose mode is what it embeds.
type gossiper struct {
	*peer
	mover
	stopped bool
}

// Run implements Part.
func (g *gossiper) Run(ctx context.Context) error {
	stopped, err := g.peer.run(ctx, g.mover)
	g.stopped = stopped
	return err
}

// Keep implements Part.
func (g *gossiper) Keep(k *Keeper) {
	g.peer.keep(k)
	g.mover.Keep(k)
}

// Final implements Part.
func (g *gossiper) Final(r *RankReport) {
	r.Sent, r.Version, r.Delays, r.Stopped = uint64(g.step), g.step, g.delays, g.stopped
	r.Ledger.Applied = uint64(g.step)
}

// run makes the steps of a peer whose mode is m.
func (p *peer) run(ctx context.Context, m mover) (stopped bool, err error) {
	h, free := p.h, p.free()
	if _, err := p.catchUp(ctx); err != nil {
		return false, err
	}
	p.pace.begin()
	if p.aside != nil {
		h.Go("answers", p.answers)
	}
	save := func(ctx context.Context, updates int) error {
		st := newState()
		if !free {
			updates = p.step
			leave(st, h, p.rank, p.pace.since)
		}
		_, err := p.checkpoint(ctx, st, m, updates)
		return err
	}
	keep := func(ctx context.Context) error {
		st := newState()
		st.Ints[keyGoing] = 1
		leave(st, h, p.rank, p.pace.since)
		return p.tellState(ctx, st, m, p.step)
	}
	var flags uint16
	for flags == 0 && (free || p.step < p.job.Updates) {
		var updates int
		if flags, updates, err = p.pace.next(ctx, p.step, save, keep); err != nil {
			return false, err
		}
		if flags != 0 {
			if free && flags&flagStop != 0 {
				err = p.snapshot(ctx, m.model(), updates, true)
			}
			break
		}
		if err := m.move(ctx); err != nil {
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
		err = p.snapshot(ctx, m.model(), p.step, true)
	}
	if err != nil {
		return false, err
	}
	if err := p.pace.end(ctx); err != nil {
		return false, err
	}
	if p.aside != nil { // let the activity end
		if err := onPeer.As(comm.Control).Wake(ctx, p.Rank, saidWord{}, 0); err != nil {
			return false, err
		}
	}
	return flags&flagStop != 0, nil
}

// answers is the activity that hears what others say at any time.
func (p *peer) answers(ctx context.Context, _ comm.Host) error {
	idle := comm.Idle(ctx)
	for {
		f, err := onPeer.Recv(idle, p.Rank, comm.AnyRank)
		if err != nil {
			return err
		}
		if f.Header.Kind == comm.Control { // by itself, at the end
			f.Release()
			return nil
		}
		err = p.aside(ctx, f)
		f.Release()
		if err != nil {
			return err
		}
	}
}

// gradient makes the gradient of the present step at parameters that stay as
// they are meanwhile.
func (p *peer) gradient(ctx context.Context, at []float32) error {
	p.at = at
	return p.Compute(ctx, p.passed)
}

// descend applies the gradient to params.
func (p *peer) descend(params []float32) {
	s := p.job.progressOf(p.step)
	p.inner.advance(p.grad, params, sgd.Step{N: p.step, Epoch: s.Epoch, LR: p.sched(s), Seed: p.job.Seed})
}

// said is what this step says to other workers beside the parameters.
func (p *peer) said(weight float64) saidWord { return saidWord{p.step, weight} }

// tell sends v, encoded once, to the far ends of edges.
func (p *peer) tell(ctx context.Context, w saidWord, v vector, edges []collective.Edge) error {
	if len(edges) == 0 {
		return nil
	}
	if err := p.billed(ctx); err != nil {
		return err
	}
	return p.say(ctx, w, v, edges)
}

// billed lets the time pass in which what is told next is encoded.
func (p *peer) billed(ctx context.Context) error {
	return p.times.encoding(ctx, p.codec.encoding(p.shard.whole, true))
}

// say is tell by somebody who holds a lock, and was billed before.
func (p *peer) say(ctx context.Context, w saidWord, v vector, edges []collective.Edge) error {
	if len(edges) == 0 {
		return nil
	}
	began := p.times.start()
	f, err := p.codec.frame(onPeer.Header(p.job, w, 0), p.shard.whole, v, true, compress.Step{N: p.step, Seed: p.job.Seed})
	p.times.encoded(began)
	if err != nil {
		return fmt.Errorf("worker %d, step %d: %w", p.rank, p.step, err)
	}
	return p.spread(ctx, f, edges)
}

// spread sends a frame to the far ends of edges.
func (p *peer) spread(ctx context.Context, f comm.Frame, edges []collective.Edge) error {
	for i, e := range edges {
		g := f
		if i < len(edges)-1 {
			f.Buffer().Retain()
		}
		plainly(p.h, p.shard.whole)
		if err := p.h.Send(ctx, e.Rank, g); err != nil {
			return err
		}
	}
	return nil
}

// hear adds, at its weight, what the near end of an edge said in step.
func (p *peer) hear(ctx context.Context, v []float32, e collective.Edge, step int) (saidWord, error) {
	f, err := p.listen(ctx, e.Rank, step)
	if err != nil {
		return saidWord{}, err
	}
	defer f.Release()
	if err := p.times.decoding(ctx, p.codec.decoding(p.shard.whole)); err != nil {
		return f.Word, err
	}
	defer p.times.decoded(p.times.start())
	return f.Word, p.add(v, float32(e.Weight), f.Frame)
}

// listen waits for what a worker said in step.
func (p *peer) listen(ctx context.Context, from, step int) (Mail[saidWord], error) {
	f, err := onPeer.Recv(ctx, p.Rank, from)
	if err != nil {
		return f, fmt.Errorf("worker %d, step %d, waiting for worker %d: %w", p.rank, p.step, from, err)
	}
	if f.Word.step != step {
		f.Release()
		return f, fmt.Errorf("worker %d, step %d: worker %d is at step %d, not %d", p.rank, p.step, from, f.Word.step, step)
	}
	return f, nil
}

// add adds weight times what a frame holds.
func (p *peer) add(v []float32, weight float32, f comm.Frame) error {
	from := compress.From{Rank: int(f.Header.From), Step: int(f.Header.Step)}
	if err := p.codec.addTo(p.shard.whole, v, true, weight, f.Body, from); err != nil {
		return fmt.Errorf("worker %d, step %d: payload of worker %d: %w", p.rank, p.step, from.Rank, err)
	}
	return nil
}

// count books how often others changed x while a gradient was made.
func (p *peer) count(times int) {
	p.stats.stale = times
	for len(p.delays) <= times {
		p.delays = append(p.delays, 0)
	}
	p.delays[times]++
}

// report does what is due after a step that all workers make. flagStop says that
// the run stops here.
func (p *peer) report(ctx context.Context, m mover) (flags uint16, err error) {
	v, j := p.step, p.job
	if p.rank == 0 {
		p.meter.add(0, p.loss)
		if v%j.reportEvery() == 0 || v == j.Updates {
			s := j.progress(v, v*j.Workers)
			pr := Progress{Step: v, Samples: s.Samples, Epoch: s.Epoch, Seconds: p.h.Now().Seconds(), LR: p.sched(s)}
			p.meter.fill(&pr, nil)
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
	if crossed(j.EvalEvery, v-1, v) {
		if err := p.snapshot(ctx, m.model(), v, false); err != nil {
			return 0, err
		}
	}
	if crossed(j.CheckpointEvery, v-1, v) {
		return p.checkpoint(ctx, newState(), m, v)
	}
	return 0, nil
}

// snapshot tells the observer the parameters x, which it releases, at an update.
func (p *peer) snapshot(ctx context.Context, x vector, update int, last bool) error {
	defer x.release()
	s := p.job.progress(update, update*p.job.PerUpdate())
	c := p.h.Traffic().Count()
	return p.sendSnapshot(ctx, mark{
		Version: update, Samples: s.Samples, Epoch: s.Epoch, Seconds: p.h.Now().Seconds(),
		Up: c.SentBytes[comm.Gradient], Down: c.RecvBytes[comm.Gradient], Last: last,
	}, x)
}

// checkpoint tells the worker's state and waits until that of all is kept.
func (p *peer) checkpoint(ctx context.Context, st *State, m mover, updates int) (flags uint16, err error) {
	if err := p.tellState(ctx, st, m, updates); err != nil {
		return 0, err
	}
	_, flags, err = onGo.Hear(ctx, p.Rank, p.job.Observer())
	return flags, err
}

// tellState tells the worker's state, added to what st holds.
func (p *peer) tellState(ctx context.Context, st *State, m mover, updates int) error {
	if r, ok := m.(interface{ Rest(context.Context) error }); ok {
		if err := r.Rest(ctx); err != nil {
			return err
		}
	}
	st.Ints[keyVersion] = int64(updates)
	k := saving(st)
	p.keep(k)
	m.Keep(k)
	c := p.h.Traffic().Count() // with what the mode took in to be saved
	tallied(st, p.rank, p.h, c.SentBytes[comm.Gradient], c.RecvBytes[comm.Gradient])
	if k.Err() != nil {
		return k.Err()
	}
	return p.sendState(ctx, st)
}

// keep keeps what a peer has beside what its mode has.
func (p *peer) keep(k *Keeper) {
	k.Int(key(keyStep, p.rank), &p.step)
	k.Count(key(keyZeroed, p.rank), &p.stats.zeroed)
	for k.Loads() && k.Has(key(keyDelays, p.rank, len(p.delays))) {
		p.delays = append(p.delays, 0)
	}
	for d := range p.delays {
		k.Count(key(keyDelays, p.rank, d), &p.delays[d])
	}
	if p.x.f != nil {
		k.Vector(key(keyOwn, p.rank), p.x.f)
	}
	p.inner.keep(k, under(keyInner, p.rank))
	p.codec.keep(k, under(keyUp, p.rank))
	if p.rank == 0 && !p.free() {
		p.meter.keepMeter(k)
	}
}

// free says whether nobody waits for anybody.
func (p *peer) free() bool {
	return p.job.traits().Conduct == Free
}
