package nn

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
)

// withOptions is a net of the zoo computing as o says, with a pass that begins as all
// others do.
func withOptions(t testing.TB, spec string, in sgd.Shape, o Options) (*Net, sgd.Pass) {
	t.Helper()
	m, p := newPass(t, spec, in)
	n, err := m.(*Net).With(o)
	if err != nil {
		t.Fatal(err)
	}
	p.Scratch = n.NewScratch()
	return n, p
}

// apart is |a − b| / |b|, over all but buffers.
func apart(l sgd.Layout, a, b []float32) float64 {
	var d, s float64
	for _, span := range l.Spans {
		if span.Role == sgd.Buffer {
			continue
		}
		for i := span.Off; i < span.End(); i++ {
			d += (float64(a[i]) - float64(b[i])) * (float64(a[i]) - float64(b[i]))
			s += float64(b[i]) * float64(b[i])
		}
	}
	return math.Sqrt(d / s)
}

// TestPrecision: gradients of nets that store two bytes a value differ, but not
// by much. Rounding by ε takes some share ε of a ReLU's inputs to the other side
// of 0, each an error of its full gradient, so that what is off is of order √ε.
func TestPrecision(t *testing.T) {
	t.Parallel()
	for _, c := range patience.Few(4, []struct {
		spec string
		in   sgd.Shape
	}{
		{"mlp(dropout=0.2)", mnist}, {"cifar10_full", sgd.Shape{C: 3, H: 16, W: 16}}, {"lenet5", mnist},
		{"resnet18", sgd.Shape{C: 3, H: 33, W: 32}}, {"mnistcnn", sgd.Shape{C: 1, H: 12, W: 12}},
		{"resnet20", sgd.Shape{C: 3, H: 16, W: 16}}, {"wrn(10,1,ghost=8)", sgd.Shape{C: 3, H: 16, W: 16}},
		{"airbench94(widths=[8,8,8])", sgd.Shape{C: 3, H: 25, W: 26}},
	}) {
		spec, in := c.spec, c.in
		b := randomBatch(sgd.Sample{Shape: in, Classes: 10}, 40)
		m, p := newPass(t, spec, in)
		loss, err := m.Grad(context.Background(), p, b)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			o   Options
			eps float64 // of a rounding
		}{{Options{Precision: BFloat16}, 0x1p-8}, {Options{Precision: Float16}, 0x1p-11}, {Options{Precision: Float16, LossScale: 1 << 30}, 0x1p-11}} {
			t.Run(fmt.Sprintf("%s/%v", spec, c.o), func(t *testing.T) {
				n, q := withOptions(t, spec, in, c.o)
				var ready []int
				q.Ready = func(span int) error { ready = append(ready, span); return nil }
				l, err := n.Grad(context.Background(), q, b)
				if err != nil {
					t.Fatal(err)
				}
				if d := math.Abs(l - loss); d > 4*c.eps*loss {
					t.Errorf("loss %g, in float32 %g", l, loss)
				}
				if d := apart(n.Layout(), q.Grad, p.Grad); !(d > c.eps/16 && d < 6*math.Sqrt(c.eps)) {
					t.Errorf("gradient off by %.2g, %.1f√ε", d, d/math.Sqrt(c.eps))
				}
				if !slices.IsSortedFunc(ready, func(a, b int) int { return b - a }) || len(ready) != len(n.Layout().Spans) {
					t.Errorf("Ready came for %v", ready)
				}
				s, err := n.Eval(q.Params, q.Scratch, b)
				if err != nil {
					t.Fatal(err)
				}
				want, err := m.Eval(p.Params, p.Scratch, b)
				if err != nil {
					t.Fatal(err)
				}
				if d := math.Abs(s.Sums[1] - want.Sums[1]); d > 4*c.eps*want.Sums[1] {
					t.Errorf("Eval says %g, in float32 %g", s.Sums[1], want.Sums[1])
				}
			})
		}
	}
}

// TestLossScale: without a scale, small gradients of activations vanish in
// float16, and those of all layers below them; with one they do not. A net whose
// last weights are small has them.
// Branches, groups and windows that are no squares keep what they share in two bytes.
func TestPrecisionOfBranches(t *testing.T) {
	t.Parallel()
	in := sgd.Shape{C: 3, H: 12, W: 11}
	full := mustNet(t, in, 10, 0, Conv{Out: 8, Kernel: 3, Pad: 1}, BatchNorm{}, ReLU{}, Concat{
		{Conv{Out: 6, Kernel: 3, Pad: 1, Groups: 2}, BatchNorm{Ghost: 8}, ReLU{}},
		{AvgPool{Kernel: 3, Stride: 1, Pad: 1}, Conv{Out: 4, Kernel: 1, KernelW: 3, PadW: 1}, ReLU{}, Conv{Out: 4, Kernel: 3, KernelW: 1, Pad: 1}},
		{LRNAcross{Size: 3, K: 1, Alpha: 0.1, Beta: 0.75}},
	}, GELU{}, AdaptiveAvgPool{Side: 3}, Dense{Out: 10})
	half, err := full.With(Options{Precision: BFloat16})
	if err != nil {
		t.Fatal(err)
	}
	b, params := randomBatch(sgd.Sample{Shape: in, Classes: 10}, 24), make([]float32, full.layout.Size())
	full.Init(params, 1)
	grad := func(n *Net) (float64, []float32) {
		p := sgd.Pass{Params: params, Grad: make([]float32, len(params)), Scratch: n.NewScratch()}
		loss, err := n.Grad(context.Background(), p, b)
		if err != nil {
			t.Fatal(err)
		}
		return loss, p.Grad
	}
	loss, want := grad(full)
	l, got := grad(half)
	const eps = 0x1p-8
	if d := apart(full.Layout(), got, want); !(d > eps/16 && d < 6*math.Sqrt(eps)) || math.Abs(l-loss) > 4*eps*loss {
		t.Errorf("gradient off by %.2g, loss %g, in float32 %g", d, l, loss)
	}
}

func TestLossScale(t *testing.T) {
	t.Parallel()
	in := sgd.Shape{C: 1, H: 12, W: 12}
	small := func(l sgd.Layout, params []float32) {
		w := l.View(params, l.Find("dense2.weight"))
		for i := range w {
			w[i] *= 1e-4
		}
	}
	b := randomBatch(sgd.Sample{Shape: in, Classes: 10}, 40)
	grad := func(o Options) (*Net, []float32) {
		n, p := withOptions(t, "mnistcnn(dropout=0)", in, o)
		small(n.Layout(), p.Params)
		if _, err := n.Grad(context.Background(), p, b); err != nil {
			t.Fatal(err)
		}
		return n, p.Grad
	}
	n, want := grad(Options{})
	first := n.Layout().Find("conv1.weight")
	off := func(o Options) float64 {
		_, g := grad(o)
		l := sgd.Layout{Spans: n.Layout().Spans[first : first+1]}
		return apart(l, g, want)
	}
	if d := off(Options{Precision: Float16, LossScale: 1}); d < 0.5 {
		t.Errorf("without a scale the first layer's gradient is only %.2g off", d)
	}
	if d := off(Options{Precision: Float16, LossScale: 1 << 14}); d > 0.06 {
		t.Errorf("with one it is %.2g off", d)
	}
	if d := off(Options{Precision: BFloat16}); d > 0.2 {
		t.Errorf("with bfloat16 it is %.2g off", d)
	}
}

func TestPrecisionTakesTwoBytes(t *testing.T) {
	in := sgd.Shape{C: 3, H: 16, W: 16}
	b := randomBatch(sgd.Sample{Shape: in, Classes: 10}, 10)
	for _, precision := range []Precision{BFloat16, Float16} {
		n, p := withOptions(t, "resnet20", in, Options{Precision: precision})
		step := func() {
			if _, err := n.Grad(context.Background(), p, b); err != nil {
				t.Fatal(err)
			}
		}
		step()
		s := p.Scratch.(*scratch)
		if s.acts.full != nil || s.slopes.full != nil || len(s.acts.half) != 2*b.N*n.plan.keeps.acts {
			t.Errorf("%v: %d floats and %d bytes of activations, %d floats of gradients",
				precision, len(s.acts.full), len(s.acts.half), len(s.slopes.full))
		}
		one := slices.Clone(p.Grad)
		p.Threads = 1
		if step(); !slices.Equal(one, p.Grad) {
			t.Errorf("%v: the gradient depends on threads", precision)
		}
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		if a := testing.AllocsPerRun(5, step); a != 0 {
			t.Errorf("%v: %g allocations per step", precision, a)
		}
	}
}

func TestWithRefuses(t *testing.T) {
	t.Parallel()
	m, p := newPass(t, "mlp", mnist)
	for _, o := range []Options{{LossScale: -1}, {LossScale: math.NaN()}, {LossScale: math.Inf(1)}, {Precision: 3}} {
		if _, err := m.(*Net).With(o); err == nil {
			t.Errorf("%+v passes", o)
		}
	}
	n, err := m.(*Net).With(Options{NoWinograd: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Grad(context.Background(), p, randomBatch(sgd.Sample{Shape: mnist, Classes: 10}, 2)); err == nil {
		t.Error("a scratch of another net passes")
	}
	for _, c := range []Precision{Float32, BFloat16, Float16} {
		if got, err := ParsePrecision(c.String()); err != nil || got != c {
			t.Errorf("%v reads as %v, %v", c, got, err)
		}
	}
	if _, err := ParsePrecision("half"); err == nil {
		t.Error(`"half" passes`)
	}
}
