package nn

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Gradients are checked twice over: those of the reference in float64 against
// differences, (L(w + h) − L(w − h))/2h with h = 1e-5, on some coordinates of
// every span; and all that Grad and Eval return, in float32, against the
// reference.

// example is a random batch and parameters away from their special initial
// values, all of them exact in float32.
type example struct {
	net    *Net
	ref    reference
	params []float64
	x      []float64
	batch  sgd.Batch
}

func newExample(net *Net, n int, seed uint64) *example {
	size := net.layout.Size()
	e := &example{net: net, params: make([]float64, size), batch: randomBatch(net.in, n)}
	p := make([]float32, size)
	net.Init(p, seed)
	key := rng.New(seed, "example")
	for _, s := range net.layout.Spans {
		for i := s.Off; i < s.End(); i++ {
			v := p[i]
			switch s.Role {
			case sgd.Bias, sgd.Norm:
				v += 0.3 * float32(key.Norm(uint64(i)))
			case sgd.Buffer:
				v += key.Float32(uint64(i))
			}
			e.params[i] = float64(v)
		}
	}
	for _, v := range e.batch.X {
		e.x = append(e.x, float64(v))
	}
	for _, v := range e.batch.Tokens {
		e.x = append(e.x, float64(v))
	}
	e.ref = reference{net: net, params: e.params, train: true, first: e.batch.First, seed: e.batch.Seed}
	return e
}

func (e *example) grad(g []float64) float64 {
	e.ref.grad = g
	return e.ref.loss(e.x, e.batch.Y)
}

// compare checks Grad and Eval against the reference. Errors are relative to
// the norm of a span's gradient, or to 0.03 of that of all: biases in front of a
// batch norm have none.
func (e *example) compare(t rapid.TB, tolerance float64) {
	t.Helper()
	want, size := make([]float64, len(e.params)), len(e.params)
	p := sgd.Pass{Params: make([]float32, size), Grad: make([]float32, size), Scratch: e.net.NewScratch()}
	for i, v := range e.params {
		p.Params[i] = float32(v)
		p.Grad[i] = float32(math.NaN()) // Grad overwrites
	}
	loss, wantLoss := 0.0, e.grad(want)
	for range 2 { // the second time over used memory
		var err error
		if loss, err = e.net.Grad(context.Background(), p, e.batch); err != nil {
			t.Fatal(err)
		}
	}
	if d := math.Abs(loss - wantLoss); !(d <= tolerance*max(1, wantLoss)) {
		t.Errorf("loss %.8g, want %.8g", loss, wantLoss)
	}
	whole := 0.0
	for _, v := range want {
		whole += v * v
	}
	for _, s := range e.net.layout.Spans {
		var norm, off float64
		for i := s.Off; i < s.End(); i++ {
			d := float64(p.Grad[i]) - want[i]
			norm, off = norm+want[i]*want[i], off+d*d
		}
		if !(math.Sqrt(off) <= tolerance*(math.Sqrt(norm)+0.03*math.Sqrt(whole))) {
			t.Errorf("%s: gradient is off by %.3g of %.3g", s.Name, math.Sqrt(off), math.Sqrt(norm))
		}
	}
	score, err := e.net.Eval(p.Params, p.Scratch, e.batch)
	if err != nil {
		t.Fatal(err)
	}
	ref := e.ref
	ref.train = false
	wantLoss = ref.loss(e.x, e.batch.Y) * float64(e.batch.N)
	got := score.Sums[slices.Index(e.net.Metrics(), sgd.Loss)]
	if d := math.Abs(got - wantLoss); !(d <= tolerance*max(1, wantLoss)) {
		t.Errorf("Eval says %.8g, want %.8g", got, wantLoss)
	}
}

// differences compares up to perSpan coordinates of each span.
func (e *example) differences(t *testing.T, perSpan int) {
	t.Helper()
	g, scrap := make([]float64, len(e.params)), make([]float64, len(e.params))
	e.grad(g)
	const h = 1e-5
	for si, s := range e.net.layout.Spans {
		if s.Role == sgd.Buffer {
			continue
		}
		norm := 0.0
		for _, v := range g[s.Off:s.End()] {
			norm += v * v
		}
		if norm == 0 {
			t.Errorf("%s: gradient is all zero", s.Name)
		}
		rms := math.Sqrt(norm / float64(s.Len()))
		key := rng.New(1, "coordinates").With(uint64(si))
		for k := range min(perSpan, s.Len()) {
			i := s.Off + key.Permute(k, s.Len())
			old := e.params[i]
			e.params[i] = old + h
			up := e.grad(scrap)
			e.params[i] = old - h
			down := e.grad(scrap)
			e.params[i] = old
			num := (up - down) / (2 * h)
			if d := math.Abs(num - g[i]); !(d <= 1e-6*max(math.Abs(num), rms)+1e-10) {
				t.Errorf("%s[%d]: gradient %.10g, by differences %.10g", s.Name, i-s.Off, g[i], num)
			}
		}
	}
}

func mustNet(t testing.TB, in sgd.Shape, classes int, smoothing float64, layers ...Layer) *Net {
	t.Helper()
	n, err := New(sgd.Sample{Shape: in, Classes: classes}, smoothing, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLayerGradients(t *testing.T) {
	t.Parallel()
	// The layer under test stands between two with parameters, so that the
	// gradient of its input is checked too.
	front := Conv{Out: 3, Kernel: 1}
	back := Dense{Out: 4}
	in := sgd.Shape{C: 2, H: 7, W: 5}
	for name, layers := range map[string]Sequential{
		"dense":                {Dense{Out: 6}},
		"conv 3 same":          {Conv{Out: 4, Kernel: 3, Pad: 1}},
		"conv 5 same":          {Conv{Out: 2, Kernel: 5, Pad: 2}},
		"conv 3 valid":         {Conv{Out: 2, Kernel: 3}},
		"conv 3 stride 2":      {Conv{Out: 2, Kernel: 3, Stride: 2, Pad: 1}},
		"conv 2 stride 3":      {Conv{Out: 2, Kernel: 2, Stride: 3, Pad: 1, NoBias: true}},
		"conv 1 stride 2":      {Conv{Out: 2, Kernel: 1, Stride: 2}},
		"conv 4 pad 3":         {Conv{Out: 2, Kernel: 4, Pad: 3}},
		"conv 11 same":         {Conv{Out: 2, Kernel: 11, Pad: 5}},
		"max 2":                {MaxPool{Kernel: 2}},
		"max 2 ceil":           {MaxPool{Kernel: 2, Ceil: true}},
		"max 3 stride 2 pad":   {MaxPool{Kernel: 3, Stride: 2, Pad: 1}},
		"max 3 stride 2 ceil":  {MaxPool{Kernel: 3, Stride: 2, Ceil: true}},
		"mean 2":               {AvgPool{Kernel: 2}},
		"mean 3 stride 2 ceil": {AvgPool{Kernel: 3, Stride: 2, Ceil: true}},
		"mean 8 stride 4 ceil": {AvgPool{Kernel: 8, Stride: 4, Ceil: true}},
		"mean 3 pad ceil":      {AvgPool{Kernel: 3, Stride: 2, Pad: 1, Ceil: true}},
		"global mean":          {GlobalAvgPool{}},
		"relu":                 {ReLU{}},
		"relu relu":            {ReLU{}, ReLU{}},
		"dropout":              {Dropout{Rate: 0.3}},
		"relu dropout":         {ReLU{}, Dropout{Rate: 0.3}},
		"dropout relu":         {Dropout{Rate: 0.3}, ReLU{}},
		"batch norm":           {BatchNorm{}},
		"batch norm features":  {Dense{Out: 5}, BatchNorm{}},
		"lrn 3":                {LRN{Size: 3, Alpha: 0.5, Beta: 0.75}},
		"lrn 5":                {LRN{Size: 5, Alpha: 2, Beta: 0.6}},
		"lrn 9":                {LRN{Size: 9, Alpha: 2, Beta: 0.75}},
		"batch norm 0.4":       {BatchNorm{Momentum: 0.4, Epsilon: 1e-3, NoScale: true}},
		"batch norm of 2":      {BatchNorm{Ghost: 2}, ReLU{}},
		"batch norm of 1":      {BatchNorm{Ghost: 1, Momentum: 1}},
		"dense without bias":   {Dense{Out: 6, NoBias: true}, ReLU{}},
		"conv 1×3":             {Conv{Out: 4, Kernel: 1, KernelW: 3, PadW: 1}, ReLU{}},
		"conv 3×1":             {Conv{Out: 4, Kernel: 3, KernelW: 1, Pad: 1, NoBias: true}, ReLU{}},
		"conv 2×3 stride 2":    {Conv{Out: 2, Kernel: 2, KernelW: 3, Pad: 1, Stride: 2}},
		"conv 3 in groups":     {Conv{Out: 4, Kernel: 1}, Conv{Out: 6, Kernel: 3, Pad: 1, Groups: 2}, ReLU{}},
		"gelu":                 {GELU{}},
		"gelu between":         {Conv{Out: 3, Kernel: 1}, GELU{}, Scale{By: 0.5}},
		"lrn across 3":         {LRNAcross{Size: 3, K: 2, Alpha: 0.5, Beta: 0.75}},
		"lrn across 5":         {LRNAcross{Size: 5, K: 1, Alpha: 2, Beta: 0.6}},
		"adaptive mean 2":      {AdaptiveAvgPool{Side: 2}},
		"adaptive mean 9":      {AdaptiveAvgPool{Side: 9}},
		"concat":               {Concat{{Conv{Out: 2, Kernel: 1}}, {MaxPool{Kernel: 3, Stride: 1, Pad: 1}}}, ReLU{}},
		"concat of concats": {Concat{
			{Conv{Out: 2, Kernel: 1}, BatchNorm{}, ReLU{}, Concat{{Conv{Out: 3, Kernel: 1}, ReLU{}}, {ReLU{}}, {GELU{}}}},
			{AvgPool{Kernel: 3, Stride: 1, Pad: 1}, Conv{Out: 2, Kernel: 3, Pad: 1}, BatchNorm{Ghost: 2}, ReLU{}},
		}, BatchNorm{}},
		"residual":             {Residual{Body: Sequential{Conv{Out: 3, Kernel: 3, Pad: 1}}}},
		"residual relu inside": {Residual{Body: Sequential{ReLU{}, Conv{Out: 3, Kernel: 3, Pad: 1}, ReLU{}}}, ReLU{}},
		"residual only relu":   {Residual{Body: Sequential{ReLU{}}}},
		"residual option A":    {Residual{Body: Sequential{Conv{Out: 5, Kernel: 3, Stride: 2, Pad: 1}}}, ReLU{}},
		"residual projection": {Residual{
			Body:     Sequential{Conv{Out: 4, Kernel: 3, Stride: 2, Pad: 1}, BatchNorm{}},
			Shortcut: Sequential{Conv{Out: 4, Kernel: 1, Stride: 2}, BatchNorm{}},
		}},
		"residual nested": {Residual{Body: Sequential{Residual{Body: Sequential{Conv{Out: 3, Kernel: 1}, ReLU{}}}, ReLU{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			net := mustNet(t, in, 4, 0.1, Sequential{front, layers, back}...)
			newExample(net, 3, 1).differences(t, 8)
			newExample(net, 3, 1).compare(t, 1e-5)
			// In front nothing asks for the gradient of the input.
			net = mustNet(t, in, 4, 0, Sequential{layers, back}...)
			newExample(net, 3, 2).differences(t, 4)
			newExample(net, 33, 2).compare(t, 1e-5) // several lanes and microbatches
		})
	}
}

func TestModelGradients(t *testing.T) {
	t.Parallel()
	for _, c := range patience.Few(6, []struct {
		text string
		in   sgd.Shape
	}{
		{"logistic(smoothing=0.1)", sgd.Shape{C: 1, H: 3, W: 4}},
		{"mlp(hidden=[7,5],dropout=0.2)", sgd.Shape{C: 1, H: 1, W: 6}},
		{"resnet18", sgd.Shape{C: 2, H: 9, W: 8}},
		{"lenet5", sgd.Shape{C: 1, H: 8, W: 8}},
		{"resnet18(stem=cifar)", sgd.Shape{C: 2, H: 5, W: 6}},
		{"mnistcnn", sgd.Shape{C: 1, H: 5, W: 4}},
		{"resnet20(zero_gamma=false,smoothing=0.1)", sgd.Shape{C: 3, H: 5, W: 4}},
		{"cifar10_full", sgd.Shape{C: 3, H: 9, W: 8}},
		{"wrn(16,2)", sgd.Shape{C: 3, H: 4, W: 4}},
		{"wrn(10,1,dropout=0.2,ghost=2)", sgd.Shape{C: 3, H: 5, W: 4}},
		{"airbench94(widths=[4,6,5],ghost=2)", sgd.Shape{C: 3, H: 25, W: 26}},
	}) {
		text, in := c.text, c.in
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			m, err := Models.MustParse(text).New(sgd.Sample{Shape: in, Classes: 10})
			if err != nil {
				t.Fatal(err)
			}
			net := m.(*Net)
			if net.layout.Size() > 1e6 {
				// Too large to look at by differences, and over few values a batch
				// norm makes much of rounding.
				newExample(net, 8, 4).compare(t, 1e-3)
				return
			}
			e := newExample(net, 3, 4)
			if text == "cifar10_full" { // initial weights of 1e-4 say little
				for i := range e.params {
					e.params[i] *= 20
				}
			}
			if strings.HasPrefix(text, "airbench94") { // whitened noise is large, so that steps cross corners of maxima
				for i := range net.layout.Spans[0].Len() {
					e.params[i] *= 0.02
				}
			}
			e.differences(t, 2)
			e.compare(t, 3e-4) // Winograd's algorithm rounds up to five times as much as plain sums
			plain, err := net.With(Options{NoWinograd: true})
			if err != nil {
				t.Fatal(err)
			}
			e.net = plain
			e.compare(t, 1e-4)
		})
	}
}

// TestRandomNets draws nets: what is fused, how the batch is cut and where
// everything lies depends on what stands beside what.
func TestRandomNets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := sgd.Shape{
			C: rapid.IntRange(1, 3).Draw(t, "channels"),
			H: rapid.IntRange(1, 8).Draw(t, "height"),
			W: rapid.IntRange(1, 8).Draw(t, "width"),
		}
		layers := append(drawLayers(t, 2), Dense{Out: 3})
		net, err := New(sgd.Sample{Shape: in, Classes: 3}, 0.1, layers...)
		if err != nil {
			t.Skip(err)
		}
		e := newExample(net, rapid.IntRange(8, 40).Draw(t, "batch"), rapid.Uint64().Draw(t, "seed"))
		e.grad(make([]float64, len(e.params)))
		if e.ref.margin < 1e-5 || e.ref.spread < 1e-2 {
			t.Skip("rounding might matter")
		}
		e.compare(t, 1e-3)
	})
}

// drawLayers draws one to six layers, residual blocks depth deep.
func drawLayers(t *rapid.T, depth int) (layers Sequential) {
	side := rapid.IntRange(1, 3)
	for range rapid.IntRange(1, 6).Draw(t, "layers") {
		kind := rapid.IntRange(0, 18).Draw(t, "layer")
		k, stride := side.Draw(t, "kernel"), side.Draw(t, "stride")
		pad, odd := k/2, rapid.Bool().Draw(t, "odd")
		conv := Conv{Out: 2 * k, Kernel: k, Stride: stride, Pad: pad, NoBias: odd}
		switch kind {
		case 0, 1:
			layers = append(layers, conv)
		case 2:
			layers = append(layers, conv, BatchNorm{})
		case 3, 4:
			layers = append(layers, ReLU{})
		case 5:
			layers = append(layers, MaxPool{Kernel: k, Stride: stride, Pad: pad, Ceil: odd})
		case 6:
			layers = append(layers, AvgPool{Kernel: k, Stride: stride, Pad: pad, Ceil: odd})
		case 7:
			layers = append(layers, Dense{Out: 3 * k})
		case 8:
			layers = append(layers, Dropout{Rate: 0.25})
		case 9:
			layers = append(layers, LRN{Size: 3, Alpha: 1, Beta: 0.75})
		case 10:
			layers = append(layers, GlobalAvgPool{})
		case 11:
			if depth > 0 {
				layers = append(layers, Residual{Body: drawLayers(t, depth-1)})
			}
		case 12: // with shapes that fit
			same := Conv{Out: 4, Kernel: 3, Pad: 1, NoBias: odd}
			body := Sequential{same, BatchNorm{}, ReLU{}, same}
			if k > 1 {
				body = append(body, BatchNorm{})
			}
			half := Sequential{Conv{Out: 4, Kernel: 1}}
			if stride > 1 {
				half = append(half, BatchNorm{})
			}
			layers = append(layers, Residual{Body: body, Shortcut: half}, ReLU{})
		case 13:
			layers = append(layers, conv, BatchNorm{Ghost: 3 * k, Momentum: 0.5, NoScale: odd})
		case 14:
			layers = append(layers, GELU{})
		case 15:
			layers = append(layers, Conv{Out: 2 * k, Kernel: k, KernelW: 4 - k, Pad: k / 2, PadW: (4 - k) / 2, Stride: stride, NoBias: odd})
		case 16:
			layers = append(layers, AdaptiveAvgPool{Side: k})
		case 17:
			layers = append(layers, Conv{Out: 4, Kernel: 1}, Conv{Out: 2 * k, Kernel: k, Pad: pad, Groups: 2, NoBias: odd})
		case 18:
			if depth > 0 {
				same := Conv{Out: k, Kernel: 3, Pad: 1}
				layers = append(layers, Concat{append(drawLayers(t, depth-1), AdaptiveAvgPool{Side: 2}), {same, BatchNorm{}, ReLU{}, AdaptiveAvgPool{Side: 2}}})
			}
		}
	}
	return layers
}
