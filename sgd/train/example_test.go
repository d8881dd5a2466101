package train_test

import (
	"context"
	"fmt"

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

// curve keeps what a run reports.
type curve struct{ evals []record.Eval }

func (*curve) Progress(record.Progress)                {}
func (c *curve) Eval(e record.Eval)                    { c.evals = append(c.evals, e) }
func (*curve) Checkpoint(int, *checkpoint.State) error { return nil }

// Four workers train on handwritten digits with 4-bit gradients, on a virtual
// cluster: a job says what, an observer hears how it goes, a net runs the ranks.
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
		Model: model, Data: set,
		Optimizer: sgd.Momentum{Beta: 0.9}, Schedule: lrschedule.Constant{LR: 0.05},
		Codec: compress.Families.MustParse("qsgd(bits=4)"), DownCodec: compress.Raw{},
		Mode: mean.Reduce{}, Workers: 4, Batch: 16, Updates: 100, Seed: 1,
		Timing: timing.Timing{FLOPS: 1e10},
	}
	job.Prepare()
	if err := job.Check(); err != nil {
		panic(err)
	}
	c := &curve{}
	observer := &train.Observer{Job: job, Sink: c}
	programs, err := job.Programs(observer)
	if err != nil {
		panic(err)
	}
	if err := (&sim.Net{}).Run(context.Background(), programs); err != nil {
		panic(err)
	}
	fmt.Printf("accuracy above 0.9: %v, after %d updates\n", observer.Final.Values["accuracy"] > 0.9, observer.Final.Step)
	worker := observer.Reports[0].Spent()
	fmt.Printf("a worker computes %.2f ms and is %.2f ms on the wire\n", 1e3*worker.Compute, 1e3*worker.Wire)
	// Output:
	// accuracy above 0.9: true, after 100 updates
	// a worker computes 4.55 ms and is 8.09 ms on the wire
}
