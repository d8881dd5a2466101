package train_test

import (
	"context"
	"testing"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// BenchmarkStep is a training step with one worker, through the engine and
// without it: what a mode costs over "bare" is the engine's. An op is an update;
// the start of a run, its first step and its evaluation do not count.
//
//	go test -run '^$' -bench Step ./sgd/train
func BenchmarkStep(b *testing.B) {
	mnist := sgd.Shape{C: 1, H: 28, W: 28}
	for _, c := range []struct {
		model string
		batch int
	}{
		{"mlp", 128},
		{"mnistcnn", 100},
	} {
		m := model(b, c.model, mnist)
		run := func(name string, steps func(*testing.B, *constant)) {
			b.Run(c.model+"/"+name, func(b *testing.B) {
				steps(b, newConstant(b, mnist, c.batch))
				b.ReportMetric(float64(b.N*c.batch)/b.Elapsed().Seconds(), "img/s")
			})
		}
		run("bare", func(b *testing.B, data *constant) { bareSteps(b, m, data, c.batch) })
		for _, road := range []string{"reduce", "server"} {
			run(road, func(b *testing.B, data *constant) {
				runOn(b, &local.Net{}, job(b, mode(road), func(j *train.Job) {
					j.Model, j.Workers, j.Batch, j.Updates = m, 1, c.batch, 1+b.N
					j.Data = sgd.Dataset{Name: "constant", Train: data, Test: ending{data}}
				}), nil)
			})
		}
	}
}

// bareSteps takes 1 + b.N steps without the engine.
func bareSteps(b *testing.B, m sgd.Model, data sgd.Source, n int) {
	l := m.Layout()
	params := make([]float32, l.Size())
	m.Init(params, 3)
	p := sgd.Pass{Params: params, Grad: make([]float32, l.Size()), Scratch: m.NewScratch()}
	opt, err := sgd.Momentum{Beta: 0.9}.New(l)
	if err != nil {
		b.Fatal(err)
	}
	var batch sgd.Batch
	for i := range 1 + b.N {
		if err := data.Batch(sgd.Draw{First: uint64(i * n), N: n}, &batch); err != nil {
			b.Fatal(err)
		}
		if _, err := m.Grad(context.Background(), p, batch); err != nil {
			b.Fatal(err)
		}
		sgd.Advance(opt, p.Grad, params, sgd.Step{N: i, LR: 0.05})
	}
}

// constant is a source that costs nothing: every batch is the same random one.
// The benchmark's time begins with its second batch.
type constant struct {
	b     *testing.B
	shape sgd.Shape
	x     []float32
	y     []int32
	lent  int
}

func newConstant(b *testing.B, shape sgd.Shape, n int) *constant {
	c := &constant{b: b, shape: shape, x: make([]float32, n*shape.Len()), y: make([]int32, n)}
	key := rng.New(1, "constant")
	for i := range c.x {
		c.x[i] = float32(key.Norm(uint64(i)))
	}
	for i := range c.y {
		c.y[i] = int32(i % 10)
	}
	return c
}

func (c *constant) Len() int         { return len(c.y) }
func (c *constant) Shape() sgd.Shape { return c.shape }
func (c *constant) Classes() int     { return 10 }

// Batch lends the samples; nobody writes to a batch.
func (c *constant) Batch(d sgd.Draw, b *sgd.Batch) error {
	if c.lent++; c.lent == 2 {
		c.b.ResetTimer()
	}
	b.X, b.Y, b.N, b.First = c.x[:d.N*c.shape.Len()], c.y[:d.N], d.N, d.First
	return nil
}

// ending is the test set, which is asked for when all is over.
type ending struct{ *constant }

func (e ending) Batch(d sgd.Draw, b *sgd.Batch) error {
	e.b.StopTimer()
	return e.constant.Batch(d, b)
}
