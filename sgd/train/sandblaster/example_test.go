package sandblaster_test

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/sandblaster"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/staleness"
)

type deaf struct{}

func (deaf) Progress(record.Progress)                {}
func (deaf) Eval(record.Eval)                        {}
func (deaf) Checkpoint(int, *checkpoint.State) error { return nil }

// Four workers take portions of the whole training set, two shards hold the vectors of
// L-BFGS, and a coordinator commands both: ten iterations.
func Example() {
	set, err := data.Open("digits", data.Options{Seed: 1})
	if err != nil {
		panic(err)
	}
	model, err := nn.Models.MustParse("logistic").New(set.Train.Sample())
	if err != nil {
		panic(err)
	}
	job := &train.Job{
		Model: model, Data: set, Optimizer: sgd.Plain{}, Schedule: lrschedule.Constant{LR: 1},
		Codec: compress.Raw{}, DownCodec: compress.Raw{}, Mode: sandblaster.Sandblaster{History: 10, Backup: 1},
		Policy: staleness.BSP{}, Placement: ps.Balanced{}, Workers: 4, Servers: 2, Batch: 100, Updates: 10, Seed: 1, Timing: timing.Timing{FLOPS: 1e10},
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
	fmt.Printf("%d iterations, accuracy above 0.9: %v\n", observer.Final.Step, observer.Final.Values["accuracy"] > 0.9)
	// Output:
	// 10 iterations, accuracy above 0.9: true
}
