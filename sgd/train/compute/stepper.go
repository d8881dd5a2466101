package compute

import (
	"sync/atomic"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/par"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// stretchLen is how many values a goroutine takes at a time: what an update
// reads and writes of them fits a core's second-level cache.
const stretchLen = 16 << 10

// stretches is the number of pieces of n values, stretch the i-th of them.
func stretches(n int) int { return (n + stretchLen - 1) / stretchLen }

func stretch(i, n int) sgd.Range {
	return sgd.Range{Lo: i * stretchLen, Hi: min((i+1)*stretchLen, n)}
}

// Stepper takes the steps of an optimizer as sgd.Advance does, with the same
// bits, on cores that are idle.
type Stepper struct {
	Opt     sgd.Transform
	Local   sgd.Local // nil: the optimizer needs the whole vector
	Avg     *Average  // of the parameters it makes; nil: none
	team    par.Team
	threads int

	// The step in progress.
	u, params       []float32
	at              sgd.Range // in both
	step            sgd.Step
	inPlace, beside func(i, slot int)
}

// NewStepper makes a stepper of rule that uses up to threads goroutines.
func NewStepper(rule sgd.Optimizer, l sgd.Layout, threads int) (*Stepper, error) {
	opt, err := rule.New(l)
	if err != nil {
		return nil, err
	}
	s := &Stepper{Opt: opt, threads: threads}
	s.Local, _ = opt.(sgd.Local)
	s.inPlace = func(i, _ int) {
		r := s.stretch(i)
		s.Local.ApplyRange(s.u, s.params, r, s.step)
		f32.Sub(s.params[r.Lo:r.Hi], s.u[r.Lo:r.Hi])
		s.Avg.Take(s.params, r, s.step.N)
	}
	s.beside = func(i, _ int) {
		r := s.stretch(i)
		s.Local.ApplyRange(s.u, s.params, r, s.step)
		u := s.u[r.Lo:r.Hi]
		f32.AxpyTo(u, s.params[r.Lo:r.Hi], -1, u)
		s.Avg.Take(s.u, r, s.step.N)
	}
	return s, nil
}

// Advance takes a step by the gradient u in the memory of params.
func (s *Stepper) Advance(u, params []float32, step sgd.Step) {
	if s.Local == nil {
		sgd.Advance(s.Opt, u, params, step)
		s.Avg.Take(params, sgd.Range{Hi: len(params)}, step.N)
		return
	}
	s.take(u, params, sgd.Range{Hi: len(u)}, step, s.inPlace)
}

// AdvancePart is advance for a part of both vectors. The optimizer must be local.
func (s *Stepper) AdvancePart(u, params []float32, at sgd.Range, step sgd.Step) {
	s.take(u, params, at, step, s.inPlace)
}

// Renew takes the same step in the memory of the gradient: u becomes the new
// parameters, params stay.
func (s *Stepper) Renew(u, params []float32, step sgd.Step) {
	if s.Local == nil {
		s.Opt.Apply(u, params, step)
		f32.AxpyTo(u, params, -1, u)
		s.Avg.Take(u, sgd.Range{Hi: len(u)}, step.N)
		return
	}
	s.take(u, params, sgd.Range{Hi: len(u)}, step, s.beside)
}

func (s *Stepper) take(u, params []float32, at sgd.Range, step sgd.Step, piece func(i, slot int)) {
	s.u, s.params, s.at, s.step = u, params, at, step
	s.team.Run(stretches(at.Hi-at.Lo), s.threads, piece)
	s.u, s.params = nil, nil
}

// stretch is the i-th piece of the step in progress.
func (s *Stepper) stretch(i int) sgd.Range {
	r := stretch(i, s.at.Hi-s.at.Lo)
	return sgd.Range{Lo: s.at.Lo + r.Lo, Hi: s.at.Lo + r.Hi}
}

// Slots is the optimizer's state, and the average of what it made.
func (s *Stepper) Slots() (all []sgd.Slot) {
	if o, ok := s.Opt.(sgd.Stateful); ok {
		all = o.Slots()
	}
	if s.Avg != nil {
		all = append(all, sgd.Slot{Name: "average", V: s.Avg.v})
	}
	return all
}

// scan looks for NaN and Inf on several goroutines.
type scan struct {
	team  par.Team
	x     []float32
	bad   atomic.Bool
	piece func(i, slot int)
}

func newScan() *scan {
	s := &scan{}
	s.piece = func(i, _ int) {
		if r := stretch(i, len(s.x)); !f32.AllFinite(s.x[r.Lo:r.Hi]) {
			s.bad.Store(true)
		}
	}
	return s
}

func (s *scan) allFinite(x []float32, threads int) bool {
	s.x = x
	s.bad.Store(false)
	s.team.Run(stretches(len(x)), threads, s.piece)
	s.x = nil
	return !s.bad.Load()
}

// Keep keeps the optimizer's state under prefix.
func (s *Stepper) Keep(k *checkpoint.Keeper, prefix string) {
	for _, sl := range s.Slots() {
		k.Vector(prefix+sl.Name, sl.V)
	}
}

// ByRole are the ranges of a layout that are trained, and the others.
func ByRole(l sgd.Layout) (trainable, buffers []sgd.Range) {
	is := func(s sgd.Span) bool { return s.Role == sgd.Buffer }
	return l.Ranges(func(s sgd.Span) bool { return !is(s) }), l.Ranges(is)
}
