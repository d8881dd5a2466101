package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/par"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
)

// ours trains a case as the engine does, without the engine: Grad, then the
// optimizer a stretch at a time on all threads, on one random batch.
type ours struct {
	model  sgd.Model
	params []float32
	pass   sgd.Pass
	opt    sgd.Local
	batch  sgd.Batch
	step   int
	team   par.Team
	take   func(stretch, slot int)
}

const stretchLen = 16 << 10

func newOurs(c Case) (*ours, error) {
	spec, err := nn.Models.Parse(c.Model)
	if err != nil {
		return nil, err
	}
	m, err := spec.New(c.Sample)
	if err != nil {
		return nil, err
	}
	if c.Precision != "" {
		p, err := nn.ParsePrecision(c.Precision)
		if err != nil {
			return nil, err
		}
		net, ok := m.(*nn.Net)
		if !ok {
			return nil, fmt.Errorf("model %s computes in float32 only", c.Model)
		}
		if m, err = net.With(nn.Options{Precision: p}); err != nil {
			return nil, err
		}
	}
	of, lr := c.rule()
	rule, err := of.New(m.Layout())
	if err != nil {
		return nil, err
	}
	opt := rule.(sgd.Local)
	size := m.Layout().Size()
	o := &ours{
		model: m, params: make([]float32, size), opt: opt,
		batch: sgd.Batch{Y: make([]int32, c.Batch*c.Sample.Labels()), N: c.Batch, Seed: 1},
	}
	o.take = func(stretch, _ int) {
		r := sgd.Range{Lo: stretch * stretchLen, Hi: min((stretch+1)*stretchLen, size)}
		o.opt.ApplyRange(o.pass.Grad, o.params, r, sgd.Step{N: o.step, LR: lr, Seed: 1})
		sgd.Update(o.params[r.Lo:r.Hi], o.pass.Grad[r.Lo:r.Hi])
	}
	m.Init(o.params, 1)
	o.pass = sgd.Pass{Params: o.params, Grad: make([]float32, size), Scratch: m.NewScratch()}
	x, y := rng.New(1, "bench").With(0), rng.New(1, "bench").With(1)
	if c.isText() {
		o.batch.Tokens = make([]int32, c.Batch*c.Sample.Len())
	} else {
		o.batch.X = make([]float32, c.Batch*c.Sample.Len())
	}
	for i := range o.batch.Tokens {
		o.batch.Tokens[i] = int32(x.IntN(uint64(i), c.Sample.Vocabulary))
	}
	for i := range o.batch.X {
		o.batch.X[i] = float32(x.Norm(uint64(i)))
	}
	for i := range o.batch.Y {
		o.batch.Y[i] = int32(y.IntN(uint64(i), c.Sample.Classes))
	}
	return o, nil
}

// flops is the nominal cost of a training step: three forward passes.
func (o *ours) flops() float64 {
	sum := 0.0
	for _, f := range o.model.SpanFLOPs() {
		sum += f
	}
	return 3 * sum * float64(o.batch.N)
}

func (o *ours) block(ctx context.Context, n int) (seconds float64, err error) {
	start := time.Now()
	for range n {
		if err := o.grad(ctx); err != nil {
			return 0, err
		}
		o.update()
	}
	return time.Since(start).Seconds(), nil
}

func (o *ours) grad(ctx context.Context) error {
	loss, err := o.model.Grad(ctx, o.pass, o.batch)
	if err == nil && (math.IsNaN(loss) || math.IsInf(loss, 0)) {
		err = fmt.Errorf("the loss of step %d is %v", o.step, loss)
	}
	return err
}

func (o *ours) update() {
	o.team.Run((len(o.params)+stretchLen-1)/stretchLen, par.Threads(), o.take)
	o.step++
	o.batch.First += uint64(o.batch.N) // dropout draws other masks
}

// Phases is where the time of a step goes, in milliseconds, medians over steps
// that were taken to find out and count for nothing else. Forward ends when the
// last layer asks for its parameters; Backward is the rest of the gradient: the
// loss, the last layer both ways, and the way back.
type Phases struct {
	Forward  float64 `json:"forward_ms"`
	Backward float64 `json:"backward_ms"`
	Update   float64 `json:"update_ms"`
}

func (o *ours) phases(ctx context.Context, steps int) (Phases, error) {
	var last time.Time
	o.pass.Need = func(int) error { last = time.Now(); return nil }
	defer func() { o.pass.Need = nil }()
	forward, backward, update := make([]float64, steps), make([]float64, steps), make([]float64, steps)
	for i := range steps {
		start := time.Now()
		if err := o.grad(ctx); err != nil {
			return Phases{}, err
		}
		made := time.Now()
		o.update()
		forward[i], backward[i], update[i] = ms(last.Sub(start)), ms(made.Sub(last)), ms(time.Since(made))
	}
	return Phases{SpreadOf(forward).Median, SpreadOf(backward).Median, SpreadOf(update).Median}, nil
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// useThreads bounds what this process uses, by GOMAXPROCS and f32.SetThreads;
// restore undoes it.
func useThreads(n int) (restore func()) {
	before := runtime.GOMAXPROCS(n)
	f32.SetThreads(n)
	return func() {
		runtime.GOMAXPROCS(before)
		f32.SetThreads(0)
	}
}

// yardstick measures what a training step is made of at its easiest: dense
// products of square matrices.
type yardstick struct {
	a, b, c []float32
	best    float64 // GFLOP/s
}

// gemmSides are those of the matrices: with their packed copies, in the level-2
// cache of most cores, in the last level, and beyond.
var gemmSides = [...]int{256, 512, 1024}

func newYardstick() *yardstick {
	y := &yardstick{}
	side := gemmSides[len(gemmSides)-1]
	for _, m := range []*[]float32{&y.a, &y.b, &y.c} {
		*m = make([]float32, side*side)
		f32.Fill(*m, 1)
	}
	return y
}

// measure keeps the best of some products of every size and of all earlier ones.
func (y *yardstick) measure() {
	for _, n := range gemmSides {
		for range 5 {
			start := time.Now()
			f32.Gemm(false, false, n, n, n, 1, y.a, n, y.b, n, 0, y.c, n)
			y.best = max(y.best, 2*float64(n*n*n)/time.Since(start).Seconds()/1e9)
		}
	}
}
