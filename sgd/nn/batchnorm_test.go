package nn

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// One worker with ghost batches of 4 in a batch of 12 computes the mean of what three
// workers with batches of 4 do, running statistics included: the equivalence that
// studies of large batches rest on.
func TestGhostBatchesAreWorkers(t *testing.T) {
	t.Parallel()
	in := sgd.Shape{C: 3, H: 6, W: 5}
	net := func(ghost int) (*Net, sgd.Pass) {
		norm := BatchNorm{Ghost: ghost, Momentum: 0.3}
		n := mustNet(t, in, 4, 0.1, Conv{Out: 5, Kernel: 3, Pad: 1}, norm, ReLU{},
			Residual{Body: Sequential{Conv{Out: 5, Kernel: 3, Pad: 1, NoBias: true}, norm}}, ReLU{}, GlobalAvgPool{}, Dense{Out: 4})
		p := sgd.Pass{Params: make([]float32, n.layout.Size()), Grad: make([]float32, n.layout.Size()), Scratch: n.NewScratch()}
		n.Init(p.Params, 1)
		return n, p
	}
	b := randomBatch(sgd.Sample{Shape: in, Classes: 4}, 12)
	one, p := net(4)
	loss, err := one.Grad(context.Background(), p, b)
	if err != nil {
		t.Fatal(err)
	}
	many, q := net(0)
	mean, losses := make([]float64, len(p.Grad)), 0.0
	for w := range 3 {
		part := sgd.Batch{N: 4, X: b.X[w*4*in.Len():], Y: b.Y[w*4:]}
		l, err := many.Grad(context.Background(), q, part)
		if err != nil {
			t.Fatal(err)
		}
		losses += l / 3
		for i, g := range q.Grad {
			mean[i] += float64(g) / 3
		}
	}
	if math.Abs(loss-losses) > 1e-6 {
		t.Errorf("loss %g, mean of three workers %g", loss, losses)
	}
	for i, g := range p.Grad {
		if d := math.Abs(float64(g) - mean[i]); d > 1e-6 {
			t.Fatalf("gradient %d is %g, mean of three workers %g", i, g, mean[i])
		}
	}
	// All of a batch is one group where ghost is as large, or larger.
	whole, _ := many.Grad(context.Background(), q, b)
	for _, ghost := range []int{7, 12, 100} {
		n, r := net(ghost)
		if l, err := n.Grad(context.Background(), r, b); err != nil || l != whole {
			t.Errorf("ghost %d of a batch of 12: loss %g, %v, without it %g", ghost, l, err, whole)
		}
	}
	if whole == loss {
		t.Error("ghost batches change nothing")
	}
}

// Without a moving average a step leaves the statistics of its own batch.
func TestStatisticsOfTheLastBatch(t *testing.T) {
	t.Parallel()
	in := sgd.Shape{C: 1, H: 1, W: 2}
	n := mustNet(t, in, 2, 0, BatchNorm{Momentum: 1, NoScale: true})
	// shift, mean, var; two features
	params, grad := []float32{0, 0, 7, -7, 3, 9}, make([]float32, 6)
	b := sgd.Batch{N: 2, X: []float32{1, 10, 3, 20}, Y: []int32{0, 1}}
	if _, err := n.Grad(context.Background(), sgd.Pass{Params: params, Grad: grad, Scratch: n.NewScratch()}, b); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{2, 15, 2, 50} {
		if got := params[2+i] - grad[2+i]; got != want {
			t.Errorf("statistic %d is %g, want %g", i, got, want)
		}
	}
}

func TestBatchNormRefuses(t *testing.T) {
	t.Parallel()
	for _, l := range []BatchNorm{{Momentum: -0.1}, {Momentum: 1.1}, {Momentum: math.NaN()}, {Epsilon: -1}, {Ghost: -1}} {
		if _, err := New(sgd.Sample{Shape: sgd.Shape{C: 1, H: 2, W: 2}, Classes: 4}, 0, l, Dense{Out: 4}); err == nil {
			t.Errorf("%+v passes", l)
		}
	}
	for _, text := range []string{
		"resnet18(bn_momentum=2)", "resnet50(ghost=-1)", "resnet50(version=v2)", "resnet110(smoothing=1)", "wrn(depth=17)", "wrn(width=0)", "vgg16(head=none)",
		"vgg16(dropout=1)", "alexnet(towers=3)", "inception3(bn_momentum=-1)", "airbench94(widths=[1,2])", "airbench94(scale=0)",
	} {
		if _, err := Models.Parse(text); err == nil {
			t.Errorf("%s passes", text)
		}
	}
	for text, in := range map[string]sgd.Shape{
		"airbench94": mnist, "airbench94(ghost=4)": {C: 3, H: 24, W: 32}, "vgg16": {C: 3, H: 31, W: 32}, "alexnet": {C: 3, H: 62, W: 64},
		"inception3": {C: 3, H: 74, W: 80}, "wrn": {C: 3, H: 3, W: 4},
	} {
		if _, err := Models.MustParse(text).New(sgd.Sample{Shape: in, Classes: 10}); err == nil {
			t.Errorf("%s on %v passes", text, in)
		}
	}
}

// meeting adds sums up over workers that meet with the same key, in their order.
type meeting struct {
	mu     sync.Mutex
	all    *sync.Cond
	size   int
	at     map[int][][]float64
	left   map[int]int
	called int
}

func (m *meeting) sum(worker int) func(sgd.Meeting) error {
	return func(at sgd.Meeting) error {
		key, v := at.Key, at.Sums
		m.mu.Lock()
		defer m.mu.Unlock()
		m.called++
		if m.at[key] == nil {
			m.at[key] = make([][]float64, m.size)
		}
		m.at[key][worker] = slices.Clone(v)
		m.left[key]++
		m.all.Broadcast()
		for m.left[key] < m.size {
			m.all.Wait()
		}
		clear(v)
		for _, x := range m.at[key] {
			for i := range v {
				v[i] += x[i]
			}
		}
		return nil
	}
}

// Workers that add up their statistics compute, in the mean, what one worker on the union
// of their batches does: loss, gradient and running statistics. Of one worker the sums
// are its own, to the bit, and a failing sum ends the pass.
func TestJointStatisticsAreThoseOfTheUnion(t *testing.T) {
	t.Parallel()
	const workers, size = 3, 4
	in := sgd.Shape{C: 3, H: 6, W: 5}
	norm := BatchNorm{Momentum: 0.3}
	n := mustNet(t, in, 4, 0.1, Conv{Out: 5, Kernel: 3, Pad: 1}, norm, ReLU{},
		Residual{Body: Sequential{Conv{Out: 5, Kernel: 3, Pad: 1, NoBias: true}, norm}}, ReLU{}, GlobalAvgPool{}, Dense{Out: 4}, BatchNorm{NoScale: true})
	pass := func() sgd.Pass {
		p := sgd.Pass{Params: make([]float32, n.layout.Size()), Grad: make([]float32, n.layout.Size()), Scratch: n.NewScratch()}
		n.Init(p.Params, 1)
		return p
	}
	b := randomBatch(sgd.Sample{Shape: in, Classes: 4}, workers*size)
	union := pass()
	loss, err := n.Grad(context.Background(), union, b)
	if err != nil {
		t.Fatal(err)
	}
	m := &meeting{size: workers, at: map[int][][]float64{}, left: map[int]int{}}
	m.all = sync.NewCond(&m.mu)
	passes, losses, done := make([]sgd.Pass, workers), make([]float64, workers), sync.WaitGroup{}
	for w := range workers {
		passes[w] = pass()
		passes[w].Meet = m.sum(w)
		done.Go(func() {
			var err error
			part := sgd.Batch{N: size, X: b.X[w*size*in.Len():], Y: b.Y[w*size:]}
			if losses[w], err = n.Grad(context.Background(), passes[w], part); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if m.called != 6*workers {
		t.Errorf("%d sums of %d workers with three batch norms", m.called, workers)
	}
	mean := 0.0
	for _, l := range losses {
		mean += l / workers
	}
	if math.Abs(loss-mean) > 1e-6 {
		t.Errorf("loss %g, of the workers %g", loss, mean)
	}
	for i, g := range union.Grad {
		sum := 0.0
		for w := range workers {
			sum += float64(passes[w].Grad[i]) / workers
		}
		if math.Abs(float64(g)-sum) > 1e-6 {
			t.Fatalf("gradient %d is %g, of the workers %g", i, g, sum)
		}
	}
	alone := pass()
	alone.Meet = func(sgd.Meeting) error { return nil }
	if l, err := n.Grad(context.Background(), alone, b); err != nil || l != loss || !slices.Equal(alone.Grad, union.Grad) {
		t.Errorf("one worker by itself: loss %v, %v, without sums %v", l, err, loss)
	}
	broken := errors.New("a worker died")
	for fails := range 2 {
		calls := 0
		p := pass()
		p.Meet = func(sgd.Meeting) error {
			if calls++; calls == 1+3*fails {
				return broken
			}
			return nil
		}
		if _, err := n.Grad(context.Background(), p, b); !errors.Is(err, broken) || calls != 1+3*fails {
			t.Errorf("a sum fails: %v after %d sums", err, calls)
		}
		p.Meet = nil
		if l, err := n.Grad(context.Background(), p, b); err != nil || l != loss {
			t.Errorf("after a failure: loss %v, %v", l, err)
		}
	}
}
