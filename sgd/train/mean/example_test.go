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
)

type deaf struct{}

func (deaf) Progress(record.Progress)                {}
func (deaf) Eval(record.Eval)                        {}
func (deaf) Checkpoint(int, *checkpoint.State) error { return nil }

// Four workers exchange gradients in every step, and then in every eighth what eight steps of
// their own have come to.
func Example() {
	set, err := data.Open("digits", data.Options{Seed: 1})
	if err != nil {
		panic(err)
	}
	model, err := nn.Models.MustParse("mlp(hidden=[64])").New(set.Train.Sample())
	if err != nil {
		panic(err)
	}
	for _, mode := range []train.Mode{mean.Reduce{}, mean.LocalSGD{H: 8, LR: 1, Inner: "keep"}} {
		job := &train.Job{
			Model: model, Data: set, Optimizer: sgd.Plain{}, Schedule: lrschedule.Constant{LR: 0.1},
			Codec: compress.Raw{}, Mode: mode, Topology: collective.Ring{},
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
		sent := observer.Final.BytesUp / uint64(4*model.Layout().Size())
		fmt.Printf("%s: accuracy above 0.85: %v, gradients sent: %d\n", train.Modes.Spec(mode), observer.Final.Values["accuracy"] > 0.85, sent)
	}
	// Output:
	// reduce: accuracy above 0.85: true, gradients sent: 576
	// localsgd: accuracy above 0.85: true, gradients sent: 72
}
