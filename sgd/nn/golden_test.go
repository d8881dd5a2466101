package nn

import (
	"bufio"
	"context"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Two steps against PyTorch's, in float64: see testdata/torch/golden.py for
// what the files hold and where weights and inputs come from.
func TestPyTorchSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec  string
		in    sgd.Sample
		batch int
		// Of gradients and of what follows from them. Depth asks for more: where
		// rounding takes one of a million values across the corner of a ReLU, all
		// gradients before it change a little.
		tolerance float64
	}{
		{"mlp", pictures(mnist), 8, 1e-4},
		{"lenet5", pictures(mnist), 8, 1e-4},
		{"mnistcnn(dropout=0)", pictures(mnist), 8, 1e-4},
		{"cifar10_full", pictures(cifar), 4, 1e-4},
		{"resnet20", pictures(cifar), 8, 1e-3},
		{"resnet50", pictures(small), 8, 2e-2},
		{"gpt(layers=2,heads=2,width=32)", passageOf(70, 65), 3, 1e-4},
		{"llama(layers=2,heads=4,kv_heads=2,width=32,hidden=48)", passageOf(70, 65), 3, 1e-4},
	} {
		t.Run(c.spec, func(t *testing.T) {
			name, _, _ := strings.Cut(c.spec, "(")
			testGolden(t, "testdata/torch/"+name+".txt", c.spec, c.in, c.batch, c.tolerance)
		})
	}
}

// pictures is samples of ten classes.
func pictures(in sgd.Shape) sgd.Sample { return sgd.Sample{Shape: in, Classes: 10} }

func testGolden(t *testing.T, path, spec string, in sgd.Sample, batch int, tolerance float64) {
	m, p := newPassOf(t, spec, in)
	layout := m.Layout()
	for i, s := range layout.Spans {
		centre, width := 0.0, 0.1
		switch {
		case s.Role.IsWeight():
			width = math.Sqrt(6 / float64(s.Cols))
		case strings.HasSuffix(s.Name, ".scale"), strings.HasSuffix(s.Name, ".var"):
			centre = 1
		}
		key := rng.Key(1000 + i)
		for j, v := range layout.View(p.Params, i) {
			v = 2*key.Float32(uint64(j)) - 1
			layout.View(p.Params, i)[j] = float32(centre + width*float64(v))
		}
	}
	b := randomBatch(in, batch)
	for i := range b.X {
		b.X[i] = 4*rng.Key(1).Float32(uint64(i)) - 2
	}
	for i := range b.Y {
		b.Y[i] = int32(float64(in.Classes) * float64(rng.Key(2).Float32(uint64(i))))
	}
	for i := range b.Tokens {
		b.Tokens[i] = int32(float64(in.Vocabulary) * float64(rng.Key(1).Float32(uint64(i))))
	}

	var losses [2]float64
	first := make([]float32, len(p.Grad))
	momentum, err := sgd.Momentum{Beta: 0.9}.New(layout)
	if err != nil {
		t.Fatal(err)
	}
	for step := range losses {
		if losses[step], err = m.Grad(context.Background(), p, b); err != nil {
			t.Fatal(err)
		}
		if step == 0 {
			copy(first, p.Grad)
		}
		momentum.Apply(p.Grad, p.Params, sgd.Step{N: step, LR: 0.0001})
		for i, u := range p.Grad {
			p.Params[i] -= u
		}
	}

	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	met := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if words[0] == "loss" {
			check(t, "first loss", losses[:1], words[1:2], losses[0], 1e-5)
			check(t, "second loss", losses[1:], words[2:], losses[1], tolerance)
			continue
		}
		v := p.Params
		if words[0] == "grad" {
			v = first
		}
		span := layout.Find(words[1])
		if span < 0 {
			t.Fatalf("no span %s", words[1])
		}
		met++
		v = layout.View(v, span)
		var square, sum float64
		for _, x := range v {
			square += float64(x) * float64(x)
			sum += float64(x)
		}
		norm, what := math.Sqrt(square), words[0]+" of "+words[1]
		want := words[2:]
		check(t, what+": norm", []float64{norm}, want[:1], norm, tolerance)
		check(t, what+": sum", []float64{sum}, want[1:2], norm, tolerance*math.Sqrt(float64(len(v))))
		var samples []float64
		for j := range want[2:] {
			samples = append(samples, float64(v[j*len(v)/len(want[2:])]))
		}
		check(t, what+": samples", samples, want[2:], norm, tolerance)
	}
	buffers := 0
	for _, s := range layout.Spans {
		if s.Role == sgd.Buffer {
			buffers++
		}
	}
	if want := 2*len(layout.Spans) - buffers; met != want {
		t.Errorf("%s tells of %d spans, want %d", path, met, want)
	}
}

// check compares figures with those of a file. They may differ by a part of
// scale.
func check(t *testing.T, what string, got []float64, want []string, scale, tolerance float64) {
	t.Helper()
	for i, text := range want {
		w, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		if d := math.Abs(got[i] - w); !(d <= tolerance*math.Abs(scale)) {
			t.Errorf("%s %d: %.7g, PyTorch has %s, off by %.2g of %.3g", what, i, got[i], text, d/scale, scale)
		}
	}
}
