package nn

import (
	"context"
	"math"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Gradients are checked in float64: (L(w + h) − L(w − h))/2h against Grad, with
// h = 1e-5, on some coordinates of every span.

// example is a random batch, parameters away from their special initial values,
// and a float64 pass over them.
type example struct {
	net    *Net
	s      *scratch[float64]
	params []float64
	x      []float64
	y      []int32
	first  uint64
}

func newExample(net *Net, n int, seed uint64) *example {
	e := &example{net: net, s: newScratch[float64](net), first: 7}
	e.params = make([]float64, net.layout.Size())
	initialise(net, e.params, seed)
	key := rng.New(seed, "example")
	for _, s := range net.layout.Spans {
		if s.Role == sgd.Bias || s.Role == sgd.Norm {
			for i := s.Off; i < s.End(); i++ {
				e.params[i] += 0.3 * key.Norm(uint64(i))
			}
		}
	}
	e.x = make([]float64, n*net.in.Len())
	for i := range e.x {
		e.x[i] = key.With(1).Norm(uint64(i))
	}
	for i := range n {
		e.y = append(e.y, int32(key.With(2).IntN(uint64(i), net.classes)))
	}
	return e
}

func (e *example) grad(t *testing.T, g []float64) float64 {
	t.Helper()
	e.s.ctx, e.s.params, e.s.grad, e.s.first, e.s.seed = context.Background(), e.params, g, e.first, 5
	loss, err := e.s.gradPass(e.x, e.y)
	if err != nil {
		t.Fatal(err)
	}
	return loss
}

// check compares up to perSpan coordinates of each span.
func (e *example) check(t *testing.T, perSpan int) {
	t.Helper()
	g, scrap := make([]float64, len(e.params)), make([]float64, len(e.params))
	for i := range g {
		g[i] = math.NaN() // Grad overwrites
	}
	e.grad(t, g)
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
			up := e.grad(t, scrap)
			e.params[i] = old - h
			down := e.grad(t, scrap)
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
	n, err := New(in, classes, smoothing, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLayerGradients(t *testing.T) {
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
			newExample(net, 3, 1).check(t, 8)
			// In front nothing asks for the gradient of the input.
			net = mustNet(t, in, 4, 0, Sequential{layers, back}...)
			newExample(net, 3, 2).check(t, 4)
		})
	}
}

func TestModelGradients(t *testing.T) {
	for text, in := range map[string]sgd.Shape{
		"logistic(smoothing=0.1)":       {C: 1, H: 3, W: 4},
		"mlp(hidden=[7,5],dropout=0.2)": {C: 1, H: 1, W: 6},
		"lenet5":                        {C: 1, H: 8, W: 8},
		"mnistcnn":                      {C: 1, H: 5, W: 4},
		"cifar10_full":                  {C: 3, H: 9, W: 8},
		"resnet20(zero_gamma=false,smoothing=0.1)": {C: 3, H: 5, W: 4},
	} {
		t.Run(text, func(t *testing.T) {
			m, err := Models.MustParse(text).New(in, 10)
			if err != nil {
				t.Fatal(err)
			}
			e := newExample(m.(*Net), 3, 3)
			if text == "cifar10_full" { // initial weights of 1e-4 say little
				for i := range e.params {
					e.params[i] *= 20
				}
			}
			e.check(t, 2)
		})
	}
}
