package traintest

import (
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/staleness"
)

// option changes a job.
type option func(*train.Job)

func with(codec string) option {
	return func(j *train.Job) {
		f, err := compress.Parse(codec)
		if err != nil {
			panic(err)
		}
		j.Codec = f
	}
}
func down(codec string) option {
	return func(j *train.Job) { j.DownCodec = compress.Families.MustParse(codec) }
}
func policy(text string) option {
	return func(j *train.Job) { j.Policy = staleness.Policies.MustParse(text) }
}
func graph(text string) option {
	return func(j *train.Job) { j.Graph = collective.Graphs.MustParse(text) }
}
func optimizer(text string) option {
	return func(j *train.Job) { j.Optimizer = sgd.Optimizers.MustParse(text) }
}
func corrector(text string) option {
	return func(j *train.Job) { j.Corrector = staleness.Correctors.MustParse(text) }
}
func rate(lr float64) option {
	return func(j *train.Job) { j.Schedule = lrschedule.Constant{LR: lr} }
}
func workers(n int) option { return func(j *train.Job) { j.Workers = n } }

// impossible is a job of four workers, one server and a perceptron, changed by options.
// It may not pass its Check.
func impossible(opts ...option) *train.Job {
	shape := sgd.Shape{C: 1, H: 4, W: 4}
	net, err := nn.Models.MustParse("mlp(hidden=[24])").New(sgd.Sample{Shape: shape, Classes: 10})
	if err != nil {
		panic(err)
	}
	j := &train.Job{
		Model: net,
		Data: sgd.Dataset{Name: "clusters", Train: clusters{n: 1000, classes: 10, shape: shape},
			Test: clusters{n: 200, classes: 10, shape: shape, fixed: true}},
		Optimizer: sgd.Plain{}, Schedule: lrschedule.Constant{LR: 0.05},
		Codec: compress.Raw{}, DownCodec: compress.Raw{}, Mode: train.Server{}, Policy: staleness.BSP{}, Corrector: staleness.None{},
		Topology: collective.Ring{}, Placement: ps.Balanced{},
		Workers: 4, Servers: 1, Batch: 8, Updates: 60, Seed: 3,
		Timing: timing.Timing{FLOPS: 1e9, Law: timing.Lognormal{Sigma: 0.2}}, Run: 42,
	}
	for _, o := range opts {
		o(j)
	}
	j.Prepare()
	return j
}

// swift and halting are clusters that have nothing in common.
func swift(j *train.Job) comm.Net {
	j.Timing = timing.Timing{FLOPS: 1e9, Law: timing.Lognormal{Sigma: 0.2}}
	return virtual(0)
}

func halting(j *train.Job) comm.Net {
	j.Timing = timing.Timing{FLOPS: 3e7, Law: timing.Exponential{}, Codec: timing.FlatRate(1e8), Apply: 1e7, Slow: timing.Slow{{Count: 1, Factor: 4}, {Sigma: 0.5}}}
	return &sim.Net{Network: &sim.FIFO{Bandwidth: 3e6, Latency: 2 * time.Millisecond}}
}
