package traintest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/staleness"
)

// World is a small job in a mode: three workers, a few dozen updates of a perceptron
// on Gaussian clusters, with the first policy, graph and codec that the mode takes.
// The error says why it takes none.
func World(m train.Mode) (*train.Job, error) {
	var errs []error
	for _, policy := range []staleness.Spec{staleness.BSP{}, staleness.ASP{}} {
		for _, graph := range []string{"ring", "one_peer"} {
			for _, codec := range []string{"raw", "topk(keep=0.2)"} {
				j, err := world(m, policy, graph, codec)
				if err != nil {
					return nil, err
				}
				if err = j.Check(); err == nil {
					return j, nil
				}
				errs = append(errs, err)
			}
		}
	}
	return nil, fmt.Errorf("it takes neither bsp nor asp, on no graph: %w", errors.Join(errs...))
}

func world(m train.Mode, policy staleness.Spec, graph, codec string) (*train.Job, error) {
	shape := sgd.Shape{C: 1, H: 4, W: 4}
	net, err := nn.Models.MustParse("mlp(hidden=[12])").New(sgd.Sample{Shape: shape, Classes: classes})
	if err != nil {
		return nil, err
	}
	f, err := compress.Parse(codec)
	if err != nil {
		return nil, err
	}
	j := &train.Job{
		Model: net, Data: sgd.Dataset{Name: "clusters", Train: clusters{n: 300, classes: classes, shape: shape}, Test: clusters{n: 60, classes: classes, shape: shape, fixed: true}},
		Optimizer: sgd.Plain{}, Schedule: lrschedule.Constant{LR: 0.02},
		Codec: f, DownCodec: compress.Raw{}, Mode: m, Policy: policy, Corrector: staleness.None{},
		Topology: collective.Ring{}, Graph: collective.Graphs.MustParse(graph), Placement: ps.Balanced{},
		Workers: 3, Servers: 2, Batch: 10, Updates: 24, Seed: 5, EvalEvery: 11,
		Timing: timing.Timing{FLOPS: 1e9, Law: timing.Lognormal{Sigma: 0.2}}, Run: 7,
	}
	if j.PerUpdate() < j.Workers { // an update is a step of one worker
		j.Updates *= j.Workers
	}
	j.Prepare()
	return j, nil
}

const classes = 5

// clusters is Gaussian clusters by address: the same samples for everybody.
type clusters struct {
	n, classes int
	shape      sgd.Shape
	fixed      bool // in their order
}

func (c clusters) Len() int           { return c.n }
func (c clusters) Sample() sgd.Sample { return sgd.Sample{Shape: c.shape, Classes: c.classes} }

// Batch implements sgd.Source.
func (c clusters) Batch(d sgd.Draw, b *sgd.Batch) error {
	dim := c.shape.Len()
	b.X, b.Y = make([]float32, d.N*dim), make([]int32, d.N)
	b.N, b.First = d.N, d.First
	for i := range d.N {
		at := d.First + uint64(i)
		id := int(at % uint64(c.n))
		if !c.fixed {
			id = rng.New(3, "order").With(at/uint64(c.n)).Permute(id, c.n)
		}
		b.Y[i] = int32(id % c.classes)
		copy(b.X[i*dim:], c.sample(id))
	}
	return nil
}

// drawn are samples by number, length and class: a draw takes longer than a step of these
// networks.
var drawn sync.Map

func (c clusters) sample(id int) []float32 {
	key := [3]int{id, c.shape.Len(), id % c.classes}
	if x, ok := drawn.Load(key); ok {
		return x.([]float32)
	}
	x := make([]float32, c.shape.Len())
	mean, noise := rng.New(7, "mean").With(uint64(id%c.classes)), rng.New(7, "noise").With(uint64(id))
	for k := range x {
		x[k] = float32(mean.Norm(uint64(k)) + noise.Norm(uint64(k)))
	}
	drawn.Store(key, x)
	return x
}
