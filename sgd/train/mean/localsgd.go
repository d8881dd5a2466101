package mean

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// LocalSGD is training in rounds. Every worker makes H steps of its own, from
// the parameters a all agree on to its xᵢ, with an optimizer of its own. Then
// the pseudo-gradients are averaged and the outer rule applied to the mean:
//
//	Δ = (1/W) Σ (a − xᵢ)
//	a ← a − outer(Δ),   xᵢ ← a
//
// Pseudo-gradients travel as the gradients of mode reduce do, through any codec
// and topology. What the outer rule is gives the method its name:
//
//	outer=sgd                      xᵢ are averaged: local SGD (Stich 2019), FedAvg
//	                               (McMahan et al. 2017) with all clients; with
//	                               start, post-local SGD (Lin et al. 2020)
//	outer=momentum by_rate=true    SlowMo (Wang et al. 2019): u ← β·u + Δ/γ,
//	                               a ← a − lr·γ·u
//	outer=nesterov lr=0.7          DiLoCo (Douillard et al. 2023), over an inner
//	                               optimizer=adam
//
// A step of the run is a local step of every worker. Reports, evaluations (of
// a, the averaged model), checkpoints and stops come at the end of the round in
// which they fall due; the last round ends with the run.
//
// Tuning: h from 4 to 16 for sgd, hundreds for DiLoCo; the outer rule as in the
// table above.
//
// Cost: one exchange a round in place of one a step; a copy of the parameters a
// worker.
type LocalSGD struct {
	H      int     `doc:"local steps in a round"`
	LR     float64 `doc:"rate of the outer rule"`
	Start  int     `doc:"steps at first that are averaged one by one, the outer rule left out"`
	ByRate bool    `doc:"divide pseudo-gradients by the inner rate and multiply the outer rate by it, so that outer momentum survives a change of rate"`
	Inner  string  `doc:"what becomes of the inner optimizers' moments between rounds: keep, average, or reset (not before start)"`
}

var _ = train.Modes.Add("localsgd", "H local steps, then the mean of pseudo-gradients through an outer rule: local and post-local SGD, SlowMo, DiLoCo",
	LocalSGD{H: 8, LR: 1, Inner: "keep"})

// Validate checks the options.
func (m LocalSGD) Validate() error {
	switch {
	case m.H < 1:
		return fmt.Errorf("option \"h\" is %d; want at least 1", m.H)
	case !(m.LR > 0):
		return fmt.Errorf("option \"lr\" is %v; want more than 0", m.LR)
	case m.Start < 0:
		return fmt.Errorf("option \"start\" is %d; want at least 0", m.Start)
	case m.Inner != "keep" && m.Inner != "average" && m.Inner != "reset":
		return fmt.Errorf("option \"inner\" is %q; want keep, average or reset", m.Inner)
	}
	return nil
}

// Traits implements Mode: a step of the run is a gradient of every worker, and part of
// a round is not in proportion.
func (m LocalSGD) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: j.Workers, Timeless: true, Elastic: true, Weightless: true, Steady: m.H == 1, Codec: train.TakesAll, Heeds: localHeeds, Refuses: localRefuses}
}

var (
	localHeeds   = []string{"topology", "outer"}
	localRefuses = map[string]string{"overlap": "it exchanges between rounds, and there is no backward pass to hide that behind"}
)

// Check implements Mode.
func (m LocalSGD) Check(j *train.Job) error {
	_, err := newLocal(train.NewRank(j, 0), m)
	return err
}

// Part implements Mode.
func (m LocalSGD) Part(r *train.Rank) (train.Part, error) { return newLocal(r, m) }

// localWorker is one rank. What it embeds averages pseudo-gradients and holds
// the parameters all agree on.
type localWorker struct {
	inStep
	mode   LocalSGD
	x      []float32 // this worker's parameters
	inner  *compute.Stepper
	ranges []sgd.Range // of what is trained
	round  int         // exchanges made
	since  int         // step of the last exchange
	losses float64     // since then
	sizes  []int       // in a run without weights: of the moments that are averaged
}

// momentsOf is the key under which ranks share the sizes of moments.
type momentsOf string

// moments lists the sizes of what is averaged beside pseudo-gradients.
func (m LocalSGD) moments(j *train.Job) (sizes []int, err error) {
	if m.Inner != "average" {
		return nil, nil
	}
	inner, err := compute.NewStepper(j.Optimizer, j.Model.Layout(), 1)
	if err != nil {
		return nil, fmt.Errorf("optimizer: %w", err)
	}
	for _, sl := range inner.Slots() {
		sizes = append(sizes, len(sl.V))
	}
	return sizes, nil
}

func newLocal(of *train.Rank, m LocalSGD) (*localWorker, error) {
	j := of.Job()
	mean, err := New(of, Options{})
	if err != nil {
		return nil, err
	}
	l := &localWorker{mode: m}
	if l.inStep, err = newInStep(of, mean); err != nil {
		return nil, err
	}
	if j.Weightless {
		l.sizes, err = train.Shared(j, momentsOf(m.Inner), func() ([]int, error) { return m.moments(j) })
		return l, err
	}
	layout := j.Model.Layout()
	l.x = make([]float32, layout.Size())
	l.ranges, _ = compute.ByRole(layout)
	if l.inner, err = j.NewStepper(j.Optimizer); err != nil {
		return nil, fmt.Errorf("optimizer: %w", err)
	}
	return l, nil
}

// Run implements Part.
func (l *localWorker) Run(ctx context.Context) error {
	pass := train.Pass{
		On:   func() ([]float32, []float32, error) { return l.x, l.grad, nil },
		Then: l.descend,
	}
	l.begin()
	if _, err := l.CatchUp(ctx); err != nil {
		return err
	}
	for !l.stopped && l.Step() < l.Job().Updates {
		if err := l.Boundary(l); err != nil {
			return err
		}
		flags, err := l.rounds(ctx, pass)
		if err != nil {
			return err
		}
		from, over := l.told, l.Step() == l.Job().Updates
		l.stopped = flags&train.FlagStop != 0 && !over
		if err := l.report(ctx, l.Host().Now()); err != nil {
			return err
		}
		if l.stopped || (flags&train.FlagKeep != 0 || train.Crossed(l.Job().CheckpointEvery, from, l.Step())) && !over {
			if err := l.SaveInStep(ctx, l); err != nil {
				return err
			}
		}
	}
	return l.snapshot(ctx, true)
}

// begin is where a round begins: at what all agree on.
func (l *localWorker) begin() {
	if !l.Job().Weightless {
		copy(l.x, l.common.params.F())
	}
}

// rounds makes the local steps of one round, and its exchange.
func (l *localWorker) rounds(ctx context.Context, pass train.Pass) (flags message.Flags, err error) {
	for {
		pass.Alone = !l.due(l.Step() + 1)
		if err := l.Compute(ctx, pass); err != nil {
			return 0, err
		}
		l.losses += l.Loss()
		l.Count()
		if !pass.Alone {
			break
		}
	}
	l.SetLoss(l.losses / float64(l.Step()-l.since))
	l.losses = 0
	if flags, err = l.agree(ctx); err != nil {
		return flags, err
	}
	l.since = l.Step()
	return flags, l.Doing(ctx)
}

// due says whether a round ends behind so many steps.
func (l *localWorker) due(steps int) bool {
	return steps <= l.mode.Start || (steps-l.mode.Start)%l.mode.H == 0 || steps == l.Job().Updates
}

// descend is one local step, by the gradient there is.
func (l *localWorker) descend() error {
	n := l.Step()
	if l.resets() { // rules that count their steps begin again
		n -= l.since
	}
	p := l.Job().ProgressOf(l.Step())
	l.inner.Advance(l.grad, l.x, sgd.Step{N: n, Epoch: p.Epoch, LR: l.sched(p), Seed: l.Job().Seed})
	return nil
}

// agree exchanges pseudo-gradients and takes up what comes of them.
func (l *localWorker) agree(ctx context.Context) (flags message.Flags, err error) {
	ask, err := l.Asks(ctx, l.told, l.Step())
	if err != nil {
		return 0, err
	}
	if !l.Job().Weightless {
		f32.AxpyTo(l.grad, l.common.params.F(), -1, l.x)
	}
	if flags, err = l.mean.Average(ctx, 0, l.grad, l.Step()-l.since, ask); err != nil {
		return flags, err
	}
	l.round++
	if !l.Job().Weightless {
		l.outer()
		l.begin()
	}
	return flags, l.moments(ctx)
}

// outer applies the mean of pseudo-gradients: the outer rule, or up to start the mean
// itself.
func (l *localWorker) outer() {
	round := l.round - 1
	if l.Step() <= l.mode.Start {
		l.common.move(round, func(params []float32) {
			sgd.Update(params, l.grad)
			l.common.opt.Avg.Take(params, sgd.Range{Hi: len(params)}, round)
		})
		return
	}
	p := l.Job().ProgressOf(l.Step() - 1)
	s := sgd.Step{N: round, Epoch: p.Epoch, LR: l.mode.LR, Seed: l.Job().Seed}
	if l.mode.ByRate {
		l.byRate(&s, l.sched(p))
	}
	l.common.update(l.grad, s)
}

// byRate divides the pseudo-gradient by the inner rate and multiplies the outer
// rate by it. At rate 0 there is nothing to divide by, and the parameters rest.
func (l *localWorker) byRate(s *sgd.Step, inner float64) {
	s.LR *= inner
	if inner > 0 {
		for _, r := range l.ranges {
			f32.Scale(l.grad[r.Lo:r.Hi], float32(1/inner))
		}
	}
}

// resets says whether rounds begin without moments by now. Up to start the steps
// are those of minibatch SGD, which keeps them.
func (l *localWorker) resets() bool { return l.mode.Inner == "reset" && l.Step() >= l.mode.Start }

// moments averages or forgets what the inner optimizer keeps.
func (l *localWorker) moments(ctx context.Context) error {
	if l.mode.Inner == "keep" || l.mode.Inner == "reset" && !l.resets() {
		return nil
	}
	for _, n := range l.sizes {
		if err := l.mean.raw(ctx, nil, n); err != nil {
			return err
		}
	}
	if l.Job().Weightless {
		return nil
	}
	for _, sl := range l.inner.Slots() {
		if l.resets() {
			clear(sl.V)
		} else if err := l.mean.raw(ctx, sl.V, len(sl.V)); err != nil {
			return err
		}
	}
	return nil
}

// Keep keeps, beside what all agree on and how it came about, the inner optimizer.
func (l *localWorker) Keep(k *checkpoint.Keeper) {
	l.keepShared(k, l.Step())
	if k.Alike(l.ID()) {
		k.Int(train.KeyRound, &l.round)
	}
	if k.Loads() {
		l.StartAt(l.versionIn(k))
		l.since, l.told = l.Step(), l.Step()
		l.common.keep(k, l.round)
	}
	l.keepOwn(k)
	l.inner.Keep(k, checkpoint.Under(train.KeyInner, l.ID()))
}
