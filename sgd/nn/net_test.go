package nn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
)

func TestParameterCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec      string
		in        sgd.Shape
		classes   int
		trainable int
		macs      float64
	}{
		{"logistic", mnist, 10, 7850, 7840},
		{"mlp", mnist, 10, 535818, 784*512 + 512*256 + 2560},
		{"lenet5", mnist, 10, 61706, 416520},
		{"lenet5", cifar, 10, 62006, 651720},
		{"mnistcnn", mnist, 10, 3274634, 13883904},
		{"cifar10_full", cifar, 10, 89578, 12298240},
		{"resnet20", cifar, 10, 269722, 40551040},
		{"resnet18", photo, 1000, 11689512, 1814073344},
		{"resnet50", photo, 1000, 25557032, 4089184256},
		{"resnet18(stem=cifar)", cifar, 10, 11173962, 555422720},
		{"resnet34", photo, 1000, 21797672, 3663761408},
		{"resnet50(version=v1)", photo, 1000, 25557032, 3857973248},
		{"resnet101", photo, 1000, 44549160, 7801405440},
		{"resnet152", photo, 1000, 60192808, 11513626624},
		{"resnet32", cifar, 10, 464154, 68862592},
		{"resnet56", cifar, 10, 853018, 125485696},
		{"resnet110", cifar, 10, 1727962, 252887680},
		{"wrn", cifar, 10, 2748890, 392612352},
		{"wrn(28,10)", cifar, 10, 36479194, 5243328768},
		{"wrn(40,4)", cifar, 10, 8949210, 1298582016},
		{"vgg16", photo, 1000, 138357544, 15470264320},
		{"vgg16(bn=true)", photo, 1000, 138365992, 15470264320},
		{"vgg16(head=small)", cifar, 10, 14719818, 313201664},
		{"vgg16(head=small,bn=true)", cifar, 10, 14728266, 313201664},
		{"alexnet", photo, 1000, 61100840, 714188480},
		{"alexnet(towers=2)", photo, 1000, 60965224, 724406816},
		{"inception3", sgd.Shape{C: 3, H: 299, W: 299}, 1000, 23834568, 5713216096},
		{"airbench94", cifar, 10, 1971352, 117870592}, // the whitening is frozen
	} {
		m, err := Models.MustParse(c.spec).New(sgd.Sample{Shape: c.in, Classes: c.classes})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Layout().Trainable(); got != c.trainable {
			t.Errorf("%s on %v: %d trainable values, want %d", c.spec, c.in, got, c.trainable)
		}
		flops := 0.0
		for i, f := range m.SpanFLOPs() {
			if m.Layout().Spans[i].Role == sgd.Weight {
				flops += f
			}
		}
		if flops != 2*c.macs {
			t.Errorf("%s on %v: %.0f multiply-adds, want %.0f", c.spec, c.in, flops/2, c.macs)
		}
		if len(m.SpanFLOPs()) != len(m.Layout().Spans) {
			t.Errorf("%s: lengths disagree", c.spec)
		}
	}
}

func TestInitialWeights(t *testing.T) {
	t.Parallel()
	m, p := newPass(t, "cifar10_full", cifar)
	for span, want := range map[string]float64{"conv1.weight": 1e-4, "conv2.weight": 0.01, "dense1.weight": 0.01, "conv1.bias": 0} {
		v := m.Layout().View(p.Params, m.Layout().Find(span))
		var s float64
		for _, x := range v {
			s += float64(x) * float64(x)
		}
		if got := math.Sqrt(s / float64(len(v))); math.Abs(got-want) > 0.05*want {
			t.Errorf("%s has standard deviation %g, want %g", span, got, want)
		}
	}
	m, p = newPass(t, "resnet20(zero_gamma=true)", cifar)
	for i, s := range m.Layout().Spans {
		want := float32(0)
		switch {
		case strings.HasSuffix(s.Name, ".var"):
			want = 1
		case s.Role == sgd.Weight:
			continue
		case strings.HasSuffix(s.Name, ".scale"): // bn1, then two a block: the second starts at zero
			var n int
			fmt.Sscanf(s.Name, "bn%d.scale", &n)
			if n%2 == 0 || n == 1 {
				want = 1
			}
		}
		for _, v := range m.Layout().View(p.Params, i) {
			if v != want {
				t.Fatalf("%s starts at %g, want %g", s.Name, v, want)
			}
		}
	}
}

func TestGradDoesNotAllocate(t *testing.T) {
	for spec, in := range map[string]sgd.Shape{
		"mlp(dropout=0.2)": mnist, "lenet5": mnist, "cifar10_full": {C: 3, H: 16, W: 16}, "resnet20": {C: 3, H: 16, W: 16},
		"resnet50": {C: 3, H: 33, W: 32}, "mnistcnn": {C: 1, H: 12, W: 12}, "quadratic": mnist,
		"wrn(10,1,ghost=8,dropout=0.1)": {C: 3, H: 16, W: 16}, "airbench94(widths=[8,8,8])": cifar, "inception3": {C: 3, H: 75, W: 75},
	} {
		if large(t, spec, sgd.Sample{Shape: in, Classes: 10}) {
			continue
		}
		m, p := newPass(t, spec, in)
		n := 40
		if spec == "inception3" {
			n = 2
		}
		b := randomBatch(sgd.Sample{Shape: in, Classes: 10}, n)
		least := func(pass func()) float64 {
			pass()
			pass()
			// The runtime's own allocations are counted with them, and are not made every time.
			n := testing.AllocsPerRun(2, pass)
			for range 2 {
				n = min(n, testing.AllocsPerRun(2, pass))
			}
			return n
		}
		if n := least(func() {
			if _, err := m.Grad(context.Background(), p, b); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %g allocations per step", spec, n)
		}
		if n := least(func() {
			if _, err := m.Eval(p.Params, p.Scratch, b); err != nil {
				t.Fatal(err)
			}
		}); n > 1 { // the sums of the score
			t.Errorf("%s: %g allocations per evaluation", spec, n)
		}
	}
}

func TestBitsDoNotDependOnThreads(t *testing.T) {
	for _, spec := range []string{"mlp(dropout=0.3)", "lenet5", "mnistcnn", "cifar10_full", "resnet20", "resnet18", "resnet18(stem=cifar)", "resnet50", "wrn(10,1,ghost=8,dropout=0.1)", "airbench94(widths=[8,8,8])", "inception3"} {
		in := sgd.Shape{C: 3, H: 17, W: 20}
		switch {
		case strings.HasPrefix(spec, "airbench94"):
			in = cifar
		case spec == "inception3":
			in = sgd.Shape{C: 3, H: 75, W: 76}
		}
		if large(t, spec, sgd.Sample{Shape: in, Classes: 10}) {
			continue
		}
		n := 37
		if spec == "inception3" {
			n = 5
		}
		b := randomBatch(sgd.Sample{Shape: in, Classes: 10}, n)
		grad := func(threads, limit int) ([]float32, float64) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
			m, p := newPass(t, spec, in)
			p.Threads = limit
			loss, err := m.Grad(context.Background(), p, b)
			if err != nil {
				t.Fatal(err)
			}
			return p.Grad, loss
		}
		one, l1 := grad(1, 0)
		counts := [][2]int{{2, 0}, {5, 0}, {3, 2}, {3, 1}}
		if len(one) > 5_000_000 {
			counts = counts[1:3] // the large ones take long, and are run by the same plans
		}
		for _, c := range counts {
			if g, l := grad(c[0], c[1]); l != l1 || !slices.Equal(g, one) {
				t.Errorf("%s: %v threads differ from one (loss %g, %g)", spec, c, l, l1)
			}
		}
	}
}

func TestDropoutDoesNotDependOnTheSplit(t *testing.T) {
	t.Parallel()
	m, p := newPass(t, "mlp(hidden=[50,40],dropout=0.5)", mnist)
	b := randomBatch(sgd.Sample{Shape: mnist, Classes: 10}, 8)
	whole, err := m.Grad(context.Background(), p, b)
	if err != nil {
		t.Fatal(err)
	}
	g := slices.Clone(p.Grad)
	mean, half := make([]float32, len(g)), 0.0
	for i := range 2 {
		part := b
		part.N, part.First = 4, b.First+uint64(4*i)
		part.X, part.Y = b.X[4*i*mnist.Len():], b.Y[4*i:]
		loss, err := m.Grad(context.Background(), p, part)
		if err != nil {
			t.Fatal(err)
		}
		half += loss / 2
		for j, v := range p.Grad {
			mean[j] += v / 2
		}
	}
	if math.Abs(whole-half) > 1e-6 {
		t.Errorf("loss %g, mean of halves %g", whole, half)
	}
	for j := range g {
		if math.Abs(float64(g[j]-mean[j])) > 1e-6 {
			t.Fatalf("gradient %d: %g, mean of halves %g", j, g[j], mean[j])
		}
	}
	// Another position or seed is another mask.
	b.First++
	if l, _ := m.Grad(context.Background(), p, b); l == whole {
		t.Error("the mask does not depend on the position")
	}
}

func TestEvalIsForwardWithoutDropout(t *testing.T) {
	t.Parallel()
	with, p := newPass(t, "mlp(hidden=[20],dropout=0.5)", mnist)
	without, q := newPass(t, "mlp(hidden=[20])", mnist)
	b := randomBatch(sgd.Sample{Shape: mnist, Classes: 10}, 200) // more than one chunk
	score, err := with.Eval(p.Params, p.Scratch, b)
	if err != nil {
		t.Fatal(err)
	}
	loss, err := without.Grad(context.Background(), q, b)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(score.Sums[1]/200-loss) > 1e-6 || score.N != 200 {
		t.Errorf("Eval %+v, mean loss of Grad %g", score, loss)
	}
	if acc := score.Mean(0); acc > 0.3 {
		t.Errorf("accuracy %g on noise", acc)
	}
}

func TestBatchNormRunningStatistics(t *testing.T) {
	t.Parallel()
	in := sgd.Shape{C: 2, H: 2, W: 1}
	n := mustNet(t, in, 4, 0, BatchNorm{})
	params, grad := make([]float32, 8), make([]float32, 8)
	n.Init(params, 1)
	params[4], params[6] = 3, 5 // running mean and variance of channel 0
	b := sgd.Batch{N: 2, X: []float32{1, 2, 0, 0, 3, 6, 0, 1}, Y: []int32{0, 1}}
	p := sgd.Pass{Params: params, Grad: grad, Scratch: n.NewScratch()}
	if _, err := n.Grad(context.Background(), p, b); err != nil {
		t.Fatal(err)
	}
	// Channel 0 has 1, 2, 3, 6: mean 3, variance 14/3; channel 1 0, 0, 0, 1.
	for i, want := range []float64{0.9*3 + 0.1*3, 0.1 * 0.25, 0.9*5 + 0.1*14/3, 0.9 + 0.1*0.25} {
		if got := float64(params[4+i] - grad[4+i]); math.Abs(got-want) > 1e-6 {
			t.Errorf("running statistic %d is %g, want %g", i, got, want)
		}
	}
	// Inference uses them: (1 − 3)/√5 first.
	score, err := n.Eval(params, p.Scratch, sgd.Batch{N: 1, X: []float32{1, 3, 0, 0}, Y: []int32{1}})
	if err != nil {
		t.Fatal(err)
	}
	want := math.Log(math.Exp(-2/math.Sqrt(5+1e-5)) + 3)
	if math.Abs(score.Sums[1]-want) > 1e-6 {
		t.Errorf("loss %g, want %g", score.Sums[1], want)
	}
}

func TestCallbacksAndErrors(t *testing.T) {
	t.Parallel()
	m, p := newPass(t, "resnet20", sgd.Shape{C: 1, H: 8, W: 8})
	b := randomBatch(sgd.Sample{Shape: sgd.Shape{C: 1, H: 8, W: 8}, Classes: 10}, 4)
	want, err := m.Grad(context.Background(), p, b)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	for _, at := range []int{0, 7, 40} {
		p.Need = func(s int) error {
			if s == at {
				return stop
			}
			return nil
		}
		if _, err := m.Grad(context.Background(), p, b); !errors.Is(err, stop) {
			t.Errorf("Need(%d): %v", at, err)
		}
		p.Need, p.Ready = nil, p.Need
		if _, err := m.Grad(context.Background(), p, b); !errors.Is(err, stop) {
			t.Errorf("Ready(%d): %v", at, err)
		}
		p.Ready = nil
		if got, err := m.Grad(context.Background(), p, b); got != want || err != nil {
			t.Errorf("after a failed pass: %g, %v, want %g", got, err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := m.Grad(ctx, p, b); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	bad := b
	bad.Y = []int32{0, 1, 10, 0}
	if _, err := m.Grad(context.Background(), p, bad); err == nil {
		t.Error("label out of range accepted")
	}
	p.Scratch = "nothing"
	if _, err := m.Grad(context.Background(), p, b); err == nil {
		t.Error("foreign scratch accepted")
	}
}

// leastInput is the smallest of a few samples that a model can work on.
func leastInput(t testing.TB, spec string) sgd.Sample {
	t.Helper()
	var errs []error
	for _, in := range []sgd.Sample{
		{Shape: sgd.Shape{C: 2, H: 8, W: 8}, Classes: 10}, {Shape: cifar, Classes: 10}, {Shape: sgd.Shape{C: 3, H: 75, W: 75}, Classes: 10}, passageOf(16, 10),
	} {
		if _, err := Models.MustParse(spec).New(in); err == nil {
			return in
		} else {
			errs = append(errs, err)
		}
	}
	t.Fatal(errors.Join(errs...))
	return sgd.Sample{}
}

// large says that a model is too large for a test of all models: those that are have
// a smaller one beside them, of the same parts. With the tag long fewer are.
func large(t testing.TB, spec string, in sgd.Sample) bool {
	t.Helper()
	m, err := Models.MustParse(spec).New(in)
	if err != nil {
		t.Fatal(err)
	}
	return m.Layout().Size() > 30e6 || m.Layout().Size() > 5e6 && !patience.Long
}

func TestCallbacksComeInOrder(t *testing.T) {
	t.Parallel()
	for _, spec := range Models.Names() {
		if spec == "vgg16" { // as it is it has 138 M parameters
			spec = "vgg16(head=small)"
		}
		in := leastInput(t, spec)
		if large(t, spec, in) {
			continue
		}
		m, p := newPassOf(t, spec, in)
		var needed, ready []int
		p.Need = func(s int) error { needed = append(needed, s); return nil }
		p.Ready = func(s int) error { ready = append(ready, s); return nil }
		if _, err := m.Grad(context.Background(), p, randomBatch(in, 2)); err != nil {
			t.Fatal(err)
		}
		var want []int
		for i := range m.Layout().Spans {
			want = append(want, i)
		}
		if !slices.Equal(needed, want) {
			t.Errorf("%s: Need came for %v", spec, needed)
		}
		slices.Reverse(want)
		if !slices.Equal(ready, want) {
			t.Errorf("%s: Ready came for %v", spec, ready)
		}
	}
}

func TestNonFiniteValuesDoNoHarm(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"lenet5", "cifar10_full", "resnet20"} {
		m, p := newPass(t, spec, sgd.Shape{C: 1, H: 12, W: 12})
		b := randomBatch(sgd.Sample{Shape: sgd.Shape{C: 1, H: 12, W: 12}, Classes: 10}, 4)
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			b.X[5] = float32(v)
			loss, err := m.Grad(context.Background(), p, b)
			if err != nil {
				t.Fatal(err)
			}
			if v != v && loss == loss {
				t.Errorf("%s hides NaN: loss %g", spec, loss)
			}
			if _, err := m.Eval(p.Params, p.Scratch, b); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestConstructionErrors(t *testing.T) {
	t.Parallel()
	tiny := sgd.Shape{C: 1, H: 2, W: 3}
	for text, want := range map[string]string{"lenet5": "at least 4x4", "mnistcnn": "at least 4x4", "cifar10_full": "at least 8x8"} {
		if _, err := Models.MustParse(text).New(sgd.Sample{Shape: tiny, Classes: 10}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s on %v: %v", text, tiny, err)
		}
	}
	for text, side := range map[string]int{"lenet5": 4, "mnistcnn": 4, "cifar10_full": 8, "resnet20": 4} {
		if _, err := Models.MustParse(text).New(sgd.Sample{Shape: sgd.Shape{C: 1, H: side, W: side}, Classes: 10}); err != nil {
			t.Errorf("%s at its least side %d: %v", text, side, err)
		}
	}
	in := sgd.Shape{C: 2, H: 6, W: 6}
	for want, layers := range map[string]Sequential{
		"at least one layer": {}, "conv1": {Conv{Out: 2, Kernel: 7}}, "maxpool1": {MaxPool{Kernel: 7}},
		"0 ≤ pad": {AvgPool{Kernel: 2, Pad: 2}}, "want 10 classes": {Dense{Out: 9}}, "dropout": {Dropout{Rate: 1}},
		"odd size": {LRN{Size: 2}}, "no identity": {Residual{Body: Sequential{Conv{Out: 1, Kernel: 1}}}},
		"to a shortcut of":    {Residual{Body: Sequential{Conv{Out: 3, Kernel: 1}}, Shortcut: Sequential{Conv{Out: 4, Kernel: 1}}}},
		"at least one output": {Dense{}},
	} {
		if _, err := New(sgd.Sample{Shape: in, Classes: 10}, 0, layers...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestQuadraticNoiseIsAveraged(t *testing.T) {
	t.Parallel()
	m, p := newPass(t, "quadratic(dim=5,condition=4,noise=1)", mnist)
	b := sgd.Batch{N: 2, First: 3}
	m.Grad(context.Background(), p, b)
	whole, mean := slices.Clone(p.Grad), make([]float32, 5)
	for i := range uint64(2) {
		m.Grad(context.Background(), p, sgd.Batch{N: 1, First: 3 + i})
		for j, v := range p.Grad {
			mean[j] += v / 2
		}
	}
	for j := range mean {
		if math.Abs(float64(whole[j]-mean[j])) > 1e-6 {
			t.Errorf("gradient %d: %g, mean of samples %g", j, whole[j], mean[j])
		}
	}
}
