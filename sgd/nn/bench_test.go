package nn

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// randomBatch is n standard normal samples with uniform labels.
func randomBatch(in sgd.Sample, n int) sgd.Batch {
	b := sgd.Batch{Y: make([]int32, n*in.Labels()), N: n, First: 1000, Seed: 3}
	key := rng.New(1, "batch")
	if in.Vocabulary > 0 {
		b.Tokens = make([]int32, n*in.Len())
		for i := range b.Tokens {
			b.Tokens[i] = int32(key.With(2).IntN(uint64(i), in.Vocabulary))
		}
	} else {
		b.X = make([]float32, n*in.Len())
	}
	for i := range b.X {
		b.X[i] = float32(key.Norm(uint64(i)))
	}
	for i := range b.Y {
		b.Y[i] = int32(key.With(1).IntN(uint64(i), in.Classes))
	}
	return b
}

var (
	mnist = sgd.Shape{C: 1, H: 28, W: 28}
	cifar = sgd.Shape{C: 3, H: 32, W: 32}
	small = sgd.Shape{C: 3, H: 64, W: 64}
	photo = sgd.Shape{C: 3, H: 224, W: 224}
)

func BenchmarkGrad(b *testing.B) {
	for _, c := range []struct {
		spec  string
		in    sgd.Shape
		batch int
	}{
		{"logistic", mnist, 128},
		{"mlp", mnist, 128},
		{"lenet5", mnist, 100},
		{"mnistcnn", mnist, 100},
		{"cifar10_full", cifar, 100},
		{"resnet20", cifar, 128},
		{"resnet50", small, 16},
		{"resnet50", photo, 8},
	} {
		b.Run(fmt.Sprintf("%s/%dpx/batch=%d", c.spec, c.in.W, c.batch), func(b *testing.B) {
			m, p := newPass(b, c.spec, c.in)
			batch := randomBatch(sgd.Sample{Shape: c.in, Classes: 10}, c.batch)
			if _, err := m.Grad(context.Background(), p, batch); err != nil { // fills the scratch
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Grad(context.Background(), p, batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*c.batch)/b.Elapsed().Seconds(), "img/s")
		})
	}
}

// BenchmarkPrecision compares gradients in bfloat16 with those in float32, in turns on one
// thread: images a second by the least time of each.
func BenchmarkPrecision(b *testing.B) {
	for _, c := range []struct {
		spec  string
		in    sgd.Shape
		batch int
	}{{"mlp", mnist, 128}, {"mnistcnn", mnist, 100}, {"resnet20", cifar, 128}, {"resnet50", small, 16}, {"resnet50", photo, 8}} {
		b.Run(fmt.Sprintf("%s/%dpx/batch=%d", c.spec, c.in.W, c.batch), func(b *testing.B) {
			full, p := newPass(b, c.spec, c.in)
			half, err := full.(*Net).With(Options{Precision: BFloat16})
			if err != nil {
				b.Fatal(err)
			}
			batch := randomBatch(sgd.Sample{Shape: c.in, Classes: 10}, c.batch)
			var least [2]float64
			var passes [2]sgd.Pass
			for i, m := range []*Net{full.(*Net), half} {
				passes[i] = p
				passes[i].Scratch, passes[i].Threads = m.NewScratch(), 1
			}
			for b.Loop() {
				for i, m := range []*Net{full.(*Net), half} {
					begin := time.Now()
					if _, err := m.Grad(context.Background(), passes[i], batch); err != nil {
						b.Fatal(err)
					}
					if s := time.Since(begin).Seconds(); least[i] == 0 || s < least[i] {
						least[i] = s
					}
				}
			}
			b.ReportMetric(float64(c.batch)/least[0], "float32-img/s")
			b.ReportMetric(float64(c.batch)/least[1], "img/s")
			b.ReportMetric(least[0]/least[1], "ratio")
		})
	}
}

func BenchmarkEval(b *testing.B) {
	m, p := newPass(b, "mnistcnn", mnist)
	batch := randomBatch(sgd.Sample{Shape: mnist, Classes: 10}, 500)
	for b.Loop() {
		if _, err := m.Eval(p.Params, p.Scratch, batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*batch.N)/b.Elapsed().Seconds(), "img/s")
}

// newPass builds a model with 10 classes and a pass at its initial weights, or for a large
// one at weights of the same size that take less time to draw.
// newPass is a model for ten classes, and a pass of it.
func newPass(t testing.TB, spec string, in sgd.Shape) (sgd.Model, sgd.Pass) {
	t.Helper()
	return newPassOf(t, spec, sgd.Sample{Shape: in, Classes: 10})
}

func newPassOf(t testing.TB, spec string, in sgd.Sample) (sgd.Model, sgd.Pass) {
	t.Helper()
	m, err := Models.MustParse(spec).New(in)
	if err != nil {
		t.Fatal(err)
	}
	size := m.Layout().Size()
	p := sgd.Pass{Params: make([]float32, size), Grad: make([]float32, size), Scratch: m.NewScratch()}
	if size < 3_000_000 {
		m.Init(p.Params, 1)
		return m, p
	}
	for i, s := range m.Layout().Spans {
		x := m.Layout().View(p.Params, i)
		switch {
		case s.Role == sgd.Weight, s.Role == sgd.Buffer && !strings.HasSuffix(s.Name, ".mean") && !strings.HasSuffix(s.Name, ".var"): // uniform, with the variance He has
			scale := math.Sqrt(6/float64(s.Cols)) * 0x1p-31
			for k := range x {
				x[k] = float32(scale * float64(int32(rng.Mix(uint64(s.Off+k)))))
			}
		case strings.HasSuffix(s.Name, ".scale"), strings.HasSuffix(s.Name, ".var"):
			f32.Fill(x, 1)
		}
	}
	return m, p
}

// BenchmarkGPT is a pass of nanoGPT's setting for laptops, 768 tokens.
func BenchmarkGPT(b *testing.B) {
	in := passageOf(64, 65)
	m, p := newPassOf(b, "gpt", in)
	batch := randomBatch(in, 12)
	for b.Loop() {
		if _, err := m.Grad(context.Background(), p, batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*12*64)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkGPT384 is a pass of a GPT of 10.7 million parameters, 2,048 tokens.
func BenchmarkGPT384(b *testing.B) {
	in := passageOf(256, 65)
	m, p := newPassOf(b, "gpt(layers=6,heads=6,width=384)", in)
	batch := randomBatch(in, 8)
	for b.Loop() {
		if _, err := m.Grad(context.Background(), p, batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*8*256)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkGPT768 is a pass of a GPT of GPT-2's size, 512 tokens.
func BenchmarkGPT768(b *testing.B) {
	in := passageOf(256, 50304)
	m, p := newPassOf(b, "gpt(layers=12,heads=12,width=768)", in)
	batch := randomBatch(in, 2)
	for b.Loop() {
		if _, err := m.Grad(context.Background(), p, batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*2*256)/b.Elapsed().Seconds(), "tokens/s")
}
