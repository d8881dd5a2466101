package profile

import (
	"context"
	"errors"

	"github.com/gradlab/gradlab/sgd"
)

var errNoWeights = errors.New("a profile has no weights to compute with")

// Model is the profile as a model for runs without weights: it has a layout and
// operations, and computes nothing.
func (p *Profile) Model() sgd.Model { return model{p} }

type model struct{ p *Profile }

func (m model) Layout() sgd.Layout      { return m.p.Layout }
func (m model) Init([]float32, uint64)  {}
func (m model) NewScratch() sgd.Scratch { return nil }
func (m model) SpanFLOPs() []float64 {
	flops := make([]float64, len(m.p.MACs))
	for i, n := range m.p.MACs {
		flops[i] = 2 * n
	}
	return flops
}

// At implements sgd.Resizable.
func (m model) At(side int) (sgd.Model, error) {
	p, err := m.p.At(side)
	if err != nil {
		return nil, err
	}
	return p.Model(), nil
}

func (model) Grad(context.Context, sgd.Pass, sgd.Batch) (float64, error) { return 0, errNoWeights }

func (model) Eval([]float32, sgd.Scratch, sgd.Batch) (sgd.Score, error) {
	return sgd.Score{}, errNoWeights
}

func (model) Metrics() []sgd.Metric { return nil }

// Samples is a data set of as many samples as a run without weights counts its
// epochs by, none of which can be drawn.
func (p *Profile) Samples(n int) sgd.Dataset {
	s := samples{p.Input, n}
	return sgd.Dataset{Name: "none", Train: s, Test: s, Hash: uint64(n)}
}

type samples struct {
	shape sgd.Shape
	n     int
}

func (s samples) Len() int                         { return s.n }
func (s samples) Sample() sgd.Sample               { return sgd.Sample{Shape: s.shape, Classes: 1} }
func (s samples) Scales() bool                     { return s.shape.H == s.shape.W && s.shape.H > 1 }
func (s samples) Batch(sgd.Draw, *sgd.Batch) error { return errNoWeights }
