package gossip_test

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
	"github.com/gradlab/gradlab/sgd/train/gossip"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

type deaf struct{}

func (deaf) Progress(record.Progress)                {}
func (deaf) Eval(record.Eval)                        {}
func (deaf) Checkpoint(int, *checkpoint.State) error { return nil }

// Four workers on a ring average with their neighbours while they compute. What is
// evaluated is the mean of their models.
func Example() {
	set, err := data.Open("digits", data.Options{Seed: 1})
	if err != nil {
		panic(err)
	}
	model, err := nn.Models.MustParse("mlp(hidden=[64])").New(set.Train.Sample())
	if err != nil {
		panic(err)
	}
	job := &train.Job{
		Model: model, Data: set, Optimizer: sgd.Momentum{Beta: 0.9}, Schedule: lrschedule.Constant{LR: 0.02},
		Codec: compress.Raw{}, Mode: gossip.DPSGD{}, Graph: collective.Graphs.MustParse("ring"),
		Workers: 4, Batch: 16, Updates: 100, Seed: 1, Timing: timing.Timing{FLOPS: 1e10},
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
	fmt.Printf("accuracy above 0.9: %v, workers apart: %v\n", observer.Final.Values["accuracy"] > 0.9, observer.Final.Spread > 0)
	// Output:
	// accuracy above 0.9: true, workers apart: true
}
