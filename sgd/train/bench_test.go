package train_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

var mnist = sgd.Shape{C: 1, H: 28, W: 28}

// BenchmarkStep is a training step with one worker, through the engine and
// without it, in turns: an op is a turn of some steps of each. Reported are the
// median ratio of the two ("x-bare": what lies over 1 is the engine's) and the
// images a second of the engine.
//
//	go test -run '^$' -bench Step -benchtime 10x ./sgd/train
func BenchmarkStep(b *testing.B) {
	for _, c := range []struct {
		model string
		batch int
		steps int
	}{
		{"mlp", 128, 40},
		{"mnistcnn", 100, 5},
	} {
		m := model(b, c.model, mnist)
		data := newConstant(mnist, c.batch)
		for _, road := range []string{"reduce", "server"} {
			b.Run(c.model+"/"+road, func(b *testing.B) {
				compare(b, c.batch, func() time.Duration {
					return bareSteps(b, m, data, c.batch, c.steps)
				}, func() time.Duration {
					return engineSteps(b, &local.Net{}, m, data, c.steps, mode(road), func(j *train.Job) {
						j.Workers, j.Batch = 1, c.batch
					})
				})
			})
		}
	}
}

// BenchmarkVirtual is a training step of four virtual workers beside steps of one
// process without the engine, whose passes use all cores: "x-bare" is near 1
// where running gradients side by side uses the cores as well. Images a second
// with -cpu 1,2 show what a second core brings.
//
//	go test -run '^$' -bench Virtual -benchtime 10x ./sgd/train
func BenchmarkVirtual(b *testing.B) {
	const workers, batch, steps = 4, 128, 10
	m := model(b, "mlp", mnist)
	data := newConstant(mnist, batch)
	for name, opts := range map[string][]option{
		"reduce": {mode("reduce")}, "bsp": {}, "asp": {policy("asp")},
	} {
		b.Run(name, func(b *testing.B) {
			compare(b, batch, func() time.Duration {
				return bareSteps(b, m, data, batch, workers*steps)
			}, func() time.Duration {
				return engineSteps(b, &sim.Net{}, m, data, workers*steps, append(opts, func(j *train.Job) {
					j.Workers, j.Batch = workers, batch
				})...)
			})
		})
	}
}

// compare takes turns and reports what became of them.
func compare(b *testing.B, batch int, bare, engine func() time.Duration) {
	var ratios, times []float64
	for range b.N {
		without, with := bare().Seconds(), engine().Seconds()
		ratios, times = append(ratios, with/without), append(times, with)
	}
	b.ReportMetric(median(ratios), "x-bare")
	b.ReportMetric(float64(batch)/median(times), "img/s")
	b.ReportMetric(0, "ns/op") // an op is many things
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// clocked is a model that notes when its gradients begin.
type clocked struct {
	sgd.Model
	began chan time.Time
}

func newClocked(m sgd.Model, steps int) clocked { return clocked{m, make(chan time.Time, steps)} }

func (c clocked) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	c.began <- time.Now()
	return c.Model.Grad(ctx, p, b)
}

// warmUp is how many steps of a run do not count.
const warmUp = 3

// step is how long a step took, in the mean.
func (c clocked) step() time.Duration {
	close(c.began)
	var at []time.Time
	for t := range c.began {
		at = append(at, t)
	}
	slices.SortFunc(at, time.Time.Compare)
	at = at[warmUp:]
	return at[len(at)-1].Sub(at[0]) / time.Duration(len(at)-1)
}

// engineSteps is the time of a step over a run of steps gradients.
func engineSteps(b testing.TB, net comm.Net, m sgd.Model, data sgd.Source, steps int, opts ...option) time.Duration {
	steps += warmUp + 1
	c := newClocked(m, 2*steps)
	j := job(b, append(opts, func(j *train.Job) {
		j.Model, j.Data = c, sgd.Dataset{Name: "constant", Train: data, Test: data}
		j.Updates = (steps*j.Batch + j.Samples() - 1) / j.Samples()
	})...)
	runOn(b, net, j, nil)
	return c.step()
}

// bareSteps is the time of a step without the engine.
func bareSteps(b testing.TB, m sgd.Model, data sgd.Source, batch, steps int) time.Duration {
	c := newClocked(m, steps+warmUp+1)
	l := m.Layout()
	params := make([]float32, l.Size())
	m.Init(params, 3)
	p := sgd.Pass{Params: params, Grad: make([]float32, l.Size()), Scratch: m.NewScratch()}
	opt, err := sgd.Momentum{Beta: 0.9}.New(l)
	if err != nil {
		b.Fatal(err)
	}
	var x sgd.Batch
	for i := range cap(c.began) {
		if err := data.Batch(sgd.Draw{First: uint64(i * batch), N: batch}, &x); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Grad(context.Background(), p, x); err != nil {
			b.Fatal(err)
		}
		sgd.Advance(opt, p.Grad, params, sgd.Step{N: i, LR: 0.05})
	}
	return c.step()
}

// constant is a source that costs nothing: every batch is the same random one.
type constant struct {
	shape sgd.Shape
	x     []float32
	y     []int32
}

func newConstant(shape sgd.Shape, n int) *constant {
	c := &constant{shape: shape, x: make([]float32, n*shape.Len()), y: make([]int32, n)}
	key := rng.New(1, "constant")
	for i := range c.x {
		c.x[i] = float32(key.Norm(uint64(i)))
	}
	for i := range c.y {
		c.y[i] = int32(i % 10)
	}
	return c
}

func (c *constant) Len() int           { return len(c.y) }
func (c *constant) Sample() sgd.Sample { return sgd.Sample{Shape: c.shape, Classes: 10} }

// Batch lends the samples; nobody writes to a batch.
func (c *constant) Batch(d sgd.Draw, b *sgd.Batch) error {
	if d.N > len(c.y) {
		return fmt.Errorf("a batch of %d out of %d samples", d.N, len(c.y))
	}
	b.X, b.Y, b.N, b.First = c.x[:d.N*c.shape.Len()], c.y[:d.N], d.N, d.First
	return nil
}
