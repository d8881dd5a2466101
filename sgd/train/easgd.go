package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
)

// EASGD is elastic averaging (Zhang, Choromanska and LeCun 2015). Every worker
// has parameters xᵢ of its own, the servers hold a centre x̄, and every Tau steps
// an elastic force pulls the two towards each other:
//
//	g at xᵢ;   fᵢ = α·(x̄ − xᵢ)
//	xᵢ ← xᵢ + fᵢ − rate·direction(g),   x̄ ← x̄ − Σ fᵢ
//
// Both ends use the same fᵢ: a worker fetches x̄, and what it pushes is fᵢ as the
// codec leaves it, so elastic exchange conserves Σxᵢ + x̄ under any codec. What
// a codec leaves out stays in the distance and comes with a later force.
// With policy asp each worker has a clock of its own and the centre takes every
// force as it comes; with bsp all forces are measured against one x̄ and taken
// together. The direction is the job's optimizer, kept by each worker: sgd is
// EASGD, nesterov is EAMSGD (there the force acts at the look-ahead point, where
// the gradient is taken, too).
//
// An update of the run is one of the centre, which is what is evaluated.
//
// Tuning: beta=0.9, so that α·workers = 0.9, as in the paper; tau from 1 to 64,
// the larger the fewer bytes.
//
// Cost: parameters down and a force up every tau steps; a copy of the parameters
// a worker.
type EASGD struct {
	Tau   int     `doc:"steps of a worker between its exchanges"`
	Beta  float64 `doc:"share of the way to the mean that the centre goes when all workers have pulled it: alpha = beta/workers"`
	Alpha float64 `doc:"share of the distance that one force makes up for; 0: from beta; with policy bsp at most 1/workers"`
}

var _ = Modes.Add("easgd", "elastic averaging with a centre on servers: EASGD, EAMSGD, synchronous (bsp) or not (asp)", EASGD{Tau: 10, Beta: 0.9})

// Validate checks the options.
func (m EASGD) Validate() error {
	switch {
	case m.Tau < 1:
		return fmt.Errorf("option \"tau\" is %d; want at least 1", m.Tau)
	case !(m.Beta > 0 && m.Beta <= 1):
		return fmt.Errorf("option \"beta\" is %v; want more than 0 and at most 1", m.Beta)
	case !(m.Alpha >= 0 && m.Alpha <= 1):
		return fmt.Errorf("option \"alpha\" is %v; want 0 to 1", m.Alpha)
	}
	return nil
}

func (m EASGD) alpha(j *Job) float64 {
	if m.Alpha > 0 {
		return m.Alpha
	}
	return m.Beta / float64(j.Workers)
}

// Traits implements Mode: a force comes after Tau gradients.
func (m EASGD) Traits(j *Job) Traits {
	together := j.synchronous()
	return Traits{Servers: j.served(), PerUpdate: j.policy().PerUpdate * m.Tau, PerPush: m.Tau, Acked: true,
		Timeless: together, Outlives: !together, Steady: true,
		Codec: TakesForgetful, Down: TakesForgetful, Heeds: easgdHeeds, Refuses: easgdRefuses}
}

var (
	easgdHeeds   = []string{"servers", "placement", "policy", "down_codec"}
	easgdRefuses = map[string]string{
		"corrector":  "what the centre makes of a force is what the worker has felt of it",
		"overlap":    "it exchanges whole parameters between steps and has nothing to overlap",
		"codec":      "what a force leaves out stays in the distance, and a codec that keeps it, at either end, would add it a second time; use the codec inside by itself, or one without memory",
		"down_codec": whyForgetful,
	}
)

// Check implements Mode.
func (m EASGD) Check(j *Job) error {
	p := j.policy()
	sync, async := p.Synchronous, p.PerUpdate == 1 && !p.Waits && !p.Drops && !p.Voids && !p.ByLoss
	together := m.Alpha * float64(j.Workers)
	switch {
	case sync && together > 1:
		return fmt.Errorf("option \"alpha\" is %v, and with policy bsp %d workers pull the centre at once: beta = workers·alpha is %.3g, and more than 1 throws it past their mean; set alpha to at most 1/%d, or set beta in its place", m.Alpha, j.Workers, together, j.Workers)
	case !sync && !async:
		return errors.New("mode easgd is synchronous with policy bsp or asynchronous with asp; other policies would take a force from the centre that the worker has felt")
	}
	if _, err := Serve(NewRank(j, j.Workers), m.centre(j)); err != nil {
		return err
	}
	_, err := newElastic(NewRank(j, 0), m, j.shards())
	return err
}

// centre is the servers' rule: forces are no gradients, and are added up as they are.
func (m EASGD) centre(j *Job) Rule {
	return Rule{sgd.Plain{}, lrschedule.Constant{LR: float64(j.policy().PerUpdate)}} // servers take means
}

// Part implements Mode.
func (m EASGD) Part(r *Rank) (Part, error) {
	if r.rank < r.job.Workers {
		return newElastic(r, m, r.job.shards())
	}
	return Serve(r, m.centre(r.job))
}

// elastic is an EASGD worker. The parameters of what it embeds are the centre,
// as last fetched.
type elastic struct {
	*worker
	mode   EASGD
	x      []float32
	inner  *stepper
	sched  lrschedule.Schedule
	losses float64

	plain    bool        // forces are felt as they are
	together float32     // forces in an update of the centre
	buffers  []sgd.Range // where more than one force is taken at rate 1
}

func newElastic(r *Rank, m EASGD, sh []*shard) (*elastic, error) {
	j := r.job
	w, err := newWorker(r, sh)
	if err != nil {
		return nil, err
	}
	w.keep()
	e := &elastic{worker: w, mode: m, x: slices.Clone(w.params.f), plain: compress.Plain(j.Codec)}
	if e.inner, err = newStepper(j.Optimizer, j.Model.Layout(), j.cores.limit()); err != nil {
		return nil, fmt.Errorf("optimizer: %w", err)
	}
	if n := j.policy().PerUpdate; n > 1 {
		e.together = float32(n)
		_, e.buffers = byRole(j.Model.Layout())
	}
	e.sched, err = j.schedule()
	return e, err
}

// Run implements Part.
func (e *elastic) Run(ctx context.Context) error {
	pass := Pass{On: func() ([]float32, []float32, error) {
		e.grad = NewVector(len(e.x))
		return e.x, e.grad.f, nil
	}}
	if e.Resumes() {
		if err := e.resume(ctx); err != nil {
			return err
		}
	}
	for e.flags&(FlagDone|FlagStop) == 0 {
		if err := e.round(ctx, pass); err != nil {
			return err
		}
		mark := e.job.CheckpointEvery > 0 && e.step%e.job.CheckpointEvery == 0
		if err := e.marks(ctx, mark, e); err != nil {
			return err
		}
	}
	return e.bye(ctx)
}

// round makes one step, and the exchange that is due with it.
func (e *elastic) round(ctx context.Context, pass Pass) error {
	if err := e.Compute(ctx, pass); err != nil {
		return err
	}
	e.losses += e.loss
	if (e.step+1)%e.mode.Tau == 0 {
		if err := e.fetch(ctx); err != nil {
			return err
		}
		if err := e.pull(ctx); err != nil {
			return err
		}
	}
	p := e.job.progressOf(e.step)
	e.inner.advance(e.grad.f, e.x, sgd.Step{N: e.step, Epoch: p.Epoch, LR: e.sched(p), Seed: e.job.Seed})
	e.grad.Release()
	return e.Made(ctx)
}

// fetch brings the centre.
func (e *elastic) fetch(ctx context.Context) error {
	for _, l := range e.links {
		if err := OnPull.Send(ctx, e.Rank, l.rank, Pulled{Shard: l.id, Step: uint64(e.step)}, e.passed()); err != nil {
			return err
		}
	}
	for _, l := range e.links {
		f, err := onFetched.Recv(ctx, e.Rank, l.rank)
		if err != nil {
			return fmt.Errorf("worker %d, fetch from server %d: %w", e.rank, l.id, err)
		}
		e.renewed(l, f.Word.Version)
		if err := e.times.decoding(ctx, l.in.taking(0)); err != nil {
			return err
		}
		began := e.times.start()
		err = l.in.take(e.params.f, 0, f.Frame)
		e.times.decoded(began)
		f.Release()
		if err != nil {
			return fmt.Errorf("worker %d: parameters of server %d: %w", e.rank, l.id, err)
		}
	}
	return nil
}

// pull lets the force act on both ends, and waits until the centre has taken it.
func (e *elastic) pull(ctx context.Context) error {
	e.loss, e.losses = e.losses/float64(e.mode.Tau), 0
	alpha := float32(e.mode.alpha(e.job))
	force := NewVector(len(e.x))
	defer force.Release()
	f32.AxpyTo(force.f, e.params.f, -1, e.x)
	f32.Scale(force.f, alpha)
	for _, b := range e.buffers { // the centre takes means of these
		f32.Scale(force.f[b.Lo:b.Hi], e.together)
	}
	felt := force
	for i := range e.order {
		if err := e.times.encoding(ctx, e.order[i].encoding()); err != nil {
			return err
		}
		if err := e.encode(i, force); err != nil {
			return err
		}
	}
	if !e.plain || len(e.buffers) > 0 {
		felt = NewVector(len(e.x))
		defer felt.Release()
		clear(felt.f)
		for i := range e.order {
			p := &e.order[i]
			if err := e.times.decoding(ctx, p.link.out.decoding(p.part())); err != nil {
				return err
			}
			if err := p.link.out.addTo(p.part(), felt.f, true, 1, p.next.Body, compress.From{Rank: e.rank, Step: e.step}); err != nil {
				return fmt.Errorf("worker %d, step %d: its own force: %w", e.rank, e.step, err)
			}
		}
	}
	for _, b := range e.buffers {
		f32.Scale(felt.f[b.Lo:b.Hi], 1/e.together)
	}
	for i := range e.order {
		if err := e.push(ctx, i); err != nil {
			return err
		}
	}
	f32.Add(e.x, felt.f)
	e.told = false
	return e.awaitAll(ctx)
}

// Keep keeps what the worker has of its own, beside what it embeds. One that was
// dead begins anew at the centre.
func (e *elastic) Keep(k *Keeper) {
	e.worker.Keep(k)
	own := key(keyOwn, e.rank)
	if k.Loads() && !k.Has(own) {
		k.Vector(keyParam, e.x)
		return
	}
	k.Vector(own, e.x)
	e.inner.keep(k, under(keyInner, e.rank))
	k.Float(key(keyLosses, e.rank), &e.losses)
}
