package mean_test

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/mean"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

type deaf struct{}

func (deaf) Progress(record.Progress)                {}
func (deaf) Eval(record.Eval)                        {}
func (deaf) Checkpoint(int, *checkpoint.State) error { return nil }

// trained trains a perceptron on digits with four workers.
func trained(mode train.Mode, codec compress.Family) (*train.Job, *train.Observer) {
	set, err := data.Open("digits", data.Options{Seed: 1})
	if err != nil {
		panic(err)
	}
	model, err := nn.Models.MustParse("mlp(hidden=[64])").New(set.Train.Sample())
	if err != nil {
		panic(err)
	}
	job := &train.Job{
		Model: model, Data: set, Optimizer: sgd.Plain{}, Schedule: lrschedule.Constant{LR: 0.1},
		Codec: codec, Mode: mode, Topology: collective.Ring{},
		Workers: 4, Batch: 16, Updates: 96, Seed: 1, Timing: timing.Timing{FLOPS: 1e10},
	}
	job.Prepare()
	if err := job.Check(); err != nil {
		panic(err)
	}
	observer := &train.Observer{Job: job, Sink: deaf{}}
	programs, err := job.Programs(observer)
	if err != nil {
		panic(err)
	}
	if err := (&sim.Net{}).Run(context.Background(), programs); err != nil {
		panic(err)
	}
	return job, observer
}

// Four workers exchange gradients in every step, and then in every eighth what eight steps of
// their own have come to.
func Example() {
	for _, mode := range []train.Mode{mean.Reduce{}, mean.LocalSGD{H: 8, LR: 1, Inner: "keep"}} {
		job, observer := trained(mode, compress.Raw{})
		sent := observer.Final.BytesUp / uint64(4*job.Model.Layout().Size())
		fmt.Printf("%s: accuracy above 0.85: %v, gradients sent: %d\n", train.Modes.Spec(mode), observer.Final.Values["accuracy"] > 0.85, sent)
	}
	// Output:
	// reduce: accuracy above 0.85: true, gradients sent: 576
	// localsgd: accuracy above 0.85: true, gradients sent: 72
}

// replicas is a mode whose workers average their models behind every eighth step.
type replicas struct{}

func (replicas) Traits(j *train.Job) train.Traits {
	return train.Traits{PerUpdate: j.Workers, Conduct: train.InStep, Models: j.Workers, Codec: train.TakesCasts, Heeds: []string{"topology"}}
}

func (m replicas) Check(j *train.Job) error { _, err := m.Part(train.NewRank(j, 0)); return err }

func (replicas) Part(r *train.Rank) (train.Part, error) {
	peer, err := train.NewPeer(r, compress.Raw{}) // it sends nothing itself
	if err != nil {
		return nil, err
	}
	m, err := mean.New(r, mean.Options{})
	return peer.Part(&replica{peer, m}), err
}

type replica struct {
	*train.Peer
	mean *mean.Mean
}

func (r *replica) Move(ctx context.Context) error {
	if err := r.Gradient(ctx, r.X.F()); err != nil {
		return err
	}
	r.X.Own() // it may be evaluated
	r.Descend(r.X.F())
	if (r.Step()+1)%8 > 0 {
		return nil
	}
	_, err := r.mean.Average(ctx, 0, r.X.F(), 8, 0)
	return err
}

func (r *replica) Model() wire.Vector        { return r.X.Share() }
func (r *replica) Keep(k *checkpoint.Keeper) { r.mean.Keep(k) }

// A mode of one's own averages the workers' models, in halves of the bytes.
func ExampleMean() {
	job, observer := trained(replicas{}, compress.FP16{})
	sent := float64(observer.Final.BytesUp) / float64(4*job.Model.Layout().Size())
	fmt.Printf("accuracy above 0.85: %v, models sent: %.0f\n", observer.Final.Values["accuracy"] > 0.85, sent)
	// Output:
	// accuracy above 0.85: true, models sent: 36
}
