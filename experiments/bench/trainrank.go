package bench

import (
	"context"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/mean"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/staleness"
)

// warmSteps come before the first that counts.
const warmSteps = 3

// train trains for iters steps and some before them.
func (r *rank) train(ctx context.Context, codec string, iters int) (t took, err error) {
	j, err := stepJob(codec, r.topology, len(r.group.Ranks), warmSteps+iters)
	if err != nil {
		return t, &refusal{err}
	}
	p, err := j.Program(r.group.Me)
	if err != nil {
		return t, &refusal{err}
	}
	if r.group.Me != 0 {
		return t, p(ctx, r.h)
	}
	pace := &pace{}
	watched := make(chan struct{})
	obs := &train.Observer{Job: j, Sink: pace}
	r.observers <- func(ctx context.Context, h comm.Host) error {
		defer close(watched)
		return obs.Program(ctx, h)
	}
	if err := p(ctx, r.h); err != nil {
		return t, err
	}
	<-watched
	t.Seconds = pace.seconds() * float64(iters)
	return t, nil
}

// observe is the program of the observer's rank.
func (r *rank) observe(ctx context.Context, h comm.Host) error {
	for p := range r.observers {
		if err := p(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// StepCodecs are the spec texts of all codecs with their defaults.
func StepCodecs() []string { return compress.Families.Names() }

// stepJob is the job whose steps are measured, the same on all ranks.
func stepJob(codec string, topology collective.Topology, workers, steps int) (*train.Job, error) {
	f, err := compress.Families.Parse(codec)
	if err != nil {
		return nil, err
	}
	shape := sgd.Shape{C: 1, H: 28, W: 28}
	m, err := nn.Models.MustParse("mlp").New(sgd.Sample{Shape: shape, Classes: 10})
	if err != nil {
		return nil, err
	}
	const batch = 32
	data, end := newSamples(shape, batch), newSamples(shape, 1)
	j := &train.Job{
		Model: m, Data: sgd.Dataset{Name: "random", Train: data, Test: end},
		Optimizer: sgd.Momentum{Beta: 0.9}, Schedule: lrschedule.Specs.MustParse("constant(lr=0.01)"),
		Codec: f, DownCodec: compress.Raw{}, Mode: mean.Reduce{}, Policy: staleness.BSP{}, Corrector: staleness.None{},
		Topology: topology, Workers: workers, Here: 1, Batch: batch, Updates: steps, Seed: 1,
	}
	j.Prepare()
	return j, j.Check()
}

// samples are random ones, the same every time, that cost nothing to get.
type samples struct {
	shape sgd.Shape
	batch sgd.Batch
}

func newSamples(shape sgd.Shape, n int) *samples {
	s := &samples{shape, sgd.Batch{X: make([]float32, n*shape.Len()), Y: make([]int32, n), N: n}}
	x := rng.New(1, "bench")
	for i := range s.batch.X {
		s.batch.X[i] = float32(x.Norm(uint64(i)))
	}
	for i := range s.batch.Y {
		s.batch.Y[i] = int32(i % 10)
	}
	return s
}

func (s *samples) Len() int           { return s.batch.N }
func (s *samples) Sample() sgd.Sample { return sgd.Sample{Shape: s.shape, Classes: 10} }

// Batch lends the first of them; nobody writes to a batch.
func (s *samples) Batch(d sgd.Draw, b *sgd.Batch) error {
	b.X, b.Y, b.N, b.First = s.batch.X[:d.N*s.shape.Len()], s.batch.Y[:d.N], d.N, d.First
	return nil
}

// pace hears how a run goes on, and forgets all but when it was where.
type pace struct{ first, last record.Progress }

// Progress implements train.Sink.
func (p *pace) Progress(at record.Progress) {
	if p.first.Step < warmSteps {
		p.first = at
	}
	p.last = at
}

// Eval and Checkpoint implement train.Sink.
func (*pace) Eval(record.Eval)                        {}
func (*pace) Checkpoint(int, *checkpoint.State) error { return nil }

// seconds is the time of a step.
func (p *pace) seconds() float64 {
	return (p.last.Seconds - p.first.Seconds) / float64(p.last.Step-p.first.Step)
}
