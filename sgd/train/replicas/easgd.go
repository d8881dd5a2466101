// Package replicas holds modes whose workers have parameters of their own and meet on
// parameter servers now and then. They stand on the exported part of package train, as
// a mode from elsewhere does; importing the package enrols them.
package replicas

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// Names in checkpoints, with the worker's number behind them. Old checkpoints are read
// by these names.
const (
	keyParam  = "param"  // of the servers, without a number
	keyOwn    = "own"    // parameters of a worker's own
	keySum    = "sum"    // of the gradients since its last push
	keyLosses = "losses" // of the steps since its last push
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
// An update of the run is one of the centre, which is what is evaluated. A worker that comes
// into a run begins at the centre, with an optimizer that remembers nothing.
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

var _ = train.Modes.Add("easgd", "elastic averaging with a centre on servers: EASGD, EAMSGD, synchronous (bsp) or not (asp)", EASGD{Tau: 10, Beta: 0.9})

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

func (m EASGD) alpha(j *train.Job) float64 {
	if m.Alpha > 0 {
		return m.Alpha
	}
	return m.Beta / float64(j.Workers)
}

// Traits implements train.Mode: a force comes after Tau gradients.
func (m EASGD) Traits(j *train.Job) train.Traits {
	together := j.PolicyTraits().Synchronous
	return train.Traits{Servers: max(1, j.Servers), PerUpdate: j.PolicyTraits().PerUpdate * m.Tau, PerPush: m.Tau, Acked: true,
		Timeless: together, Outlives: !together, Admits: !together, Weightless: true, Steady: true,
		Codec: train.TakesForgetful, Down: train.TakesForgetful, Heeds: easgdHeeds, Refuses: easgdRefuses}
}

var (
	easgdHeeds   = []string{"servers", "placement", "policy", "down_codec"}
	easgdRefuses = map[string]string{
		"corrector":  "what the centre makes of a force is what the worker has felt of it",
		"overlap":    "it exchanges whole parameters between steps and has nothing to overlap",
		"codec":      "what a force leaves out stays in the distance, and a codec that keeps it, at either end, would add it a second time; use the codec inside by itself, or one without memory",
		"down_codec": train.WhyForgetful,
	}
)

// Check implements train.Mode.
func (m EASGD) Check(j *train.Job) error {
	p := j.PolicyTraits()
	sync, async := p.Synchronous, p.PerUpdate == 1 && !p.Waits && !p.Drops && !p.Voids && !p.ByLoss
	together := m.Alpha * float64(j.Workers)
	switch {
	case sync && together > 1:
		return fmt.Errorf("option \"alpha\" is %v, and with policy bsp %d workers pull the centre at once: beta = workers·alpha is %.3g, and more than 1 throws it past their mean; set alpha to at most 1/%d, or set beta in its place", m.Alpha, j.Workers, together, j.Workers)
	case !sync && !async:
		return errors.New("mode easgd is synchronous with policy bsp or asynchronous with asp; other policies would take a force from the centre that the worker has felt")
	}
	if _, err := train.Serve(train.NewRank(j, j.Workers), m.centre(j)); err != nil {
		return err
	}
	_, err := newElastic(train.NewRank(j, 0), m)
	return err
}

// centre is the servers' rule: forces are no gradients, and are added up as they are.
func (m EASGD) centre(j *train.Job) train.Rule {
	return train.Rule{Optimizer: sgd.Plain{}, Schedule: lrschedule.Constant{LR: float64(j.PolicyTraits().PerUpdate)}} // servers take means
}

// Part implements train.Mode.
func (m EASGD) Part(r *train.Rank) (train.Part, error) {
	if r.ID() < r.Job().Workers {
		return newElastic(r, m)
	}
	return train.Serve(r, m.centre(r.Job()))
}

// elastic is an EASGD worker. The parameters of its links are the centre, as last
// fetched.
type elastic struct {
	*train.Links
	mode    EASGD
	x, grad []float32
	rule    *train.OwnRule
	pass    train.Pass
	losses  float64

	plain    bool        // forces are felt as they are
	together float32     // forces in an update of the centre
	buffers  []sgd.Range // where more than one force is taken at rate 1
}

func newElastic(r *train.Rank, m EASGD) (*elastic, error) {
	j := r.Job()
	l, err := train.NewLinks(r)
	if err != nil {
		return nil, err
	}
	e := &elastic{Links: l, mode: m, x: slices.Clone(j.Initial()), plain: compress.Plain(j.Codec)}
	e.grad = make([]float32, len(e.x))
	e.pass.On = func() ([]float32, []float32, error) { return e.x, e.grad, nil }
	if e.rule, err = train.NewOwnRule(r); err != nil {
		return nil, err
	}
	if n := j.PolicyTraits().PerUpdate; n > 1 {
		e.together = float32(n)
		e.buffers = j.Model.Layout().Ranges(func(s sgd.Span) bool { return s.Role == sgd.Buffer })
	}
	return e, nil
}

// Run implements train.Part.
func (e *elastic) Run(ctx context.Context) error {
	if err := e.Resume(ctx); err != nil {
		return err
	}
	for !e.Over() {
		if err := e.turn(ctx); err != nil {
			return err
		}
		if e.Over() {
			break
		}
		if err := e.round(ctx); err != nil {
			return err
		}
		if err := e.Mark(ctx, e); err != nil {
			return err
		}
	}
	return e.Bye(ctx)
}

// turn is the worker's turn to leave and come. One that comes begins at the centre.
func (e *elastic) turn(ctx context.Context) error {
	anew, err := e.Turn(ctx)
	if err != nil || !anew {
		return err
	}
	centre, err := e.Params()
	if err != nil {
		return err
	}
	copy(e.x, centre)
	e.losses = 0
	e.rule, err = train.NewOwnRule(e.Rank)
	return err
}

// round makes one step, and the exchange that is due with it.
func (e *elastic) round(ctx context.Context) error {
	e.pass.Alone = (e.Step()+1)%e.mode.Tau != 0
	if err := e.Compute(ctx, e.pass); err != nil {
		return err
	}
	e.losses += e.Loss()
	if !e.pass.Alone {
		if err := e.Fetch(ctx, 0); err != nil {
			return err
		}
		if err := e.pull(ctx); err != nil {
			return err
		}
	}
	e.rule.Descend(e.grad, e.x)
	return e.Made(ctx)
}

// pull lets the force act on both ends, and waits until the centre has taken it.
func (e *elastic) pull(ctx context.Context) error {
	centre, err := e.Params()
	if err != nil {
		return err
	}
	force := wire.NewVector(len(e.x))
	defer force.Release()
	f32.AxpyTo(force.F(), centre, -1, e.x)
	f32.Scale(force.F(), float32(e.mode.alpha(e.Job())))
	e.scale(force.F(), e.together) // the centre takes means of these
	if err := e.Encode(ctx, force, train.Saying{Number: uint64(e.Step()), Loss: e.losses / float64(e.mode.Tau)}); err != nil {
		return err
	}
	e.losses = 0
	felt := force
	if !e.plain || len(e.buffers) > 0 {
		felt = wire.NewVector(len(e.x))
		defer felt.Release()
		clear(felt.F())
		if err := e.Echo(ctx, felt.F()); err != nil {
			return err
		}
	}
	e.scale(felt.F(), 1/e.together)
	if err := e.Send(ctx); err != nil {
		return err
	}
	f32.Add(e.x, felt.F())
	return e.Await(ctx)
}

// scale multiplies the buffers of a vector; in a run without weights it holds nothing.
func (e *elastic) scale(v []float32, by float32) {
	for _, b := range e.buffers {
		if len(v) > 0 {
			f32.Scale(v[b.Lo:b.Hi], by)
		}
	}
}

// Keep keeps what the worker has of its own, beside its links. One that was dead begins
// anew at the centre.
func (e *elastic) Keep(k *checkpoint.Keeper) {
	e.Links.Keep(k)
	own := checkpoint.Key(keyOwn, e.ID())
	if k.Loads() && !k.Has(own) {
		k.Vector(keyParam, e.x)
		return
	}
	k.Vector(own, e.x)
	e.rule.Keep(k)
	k.Float(checkpoint.Key(keyLosses, e.ID()), &e.losses)
}
