package conv

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// peerShapes are convolutions of the models, with a batch that takes a while.
var peerShapes = []struct {
	name string
	n    int
	g    Geom
}{
	{"mnistcnn.conv1", 32, Geom{28, 28, 1, 32, 5, 1, 2}},
	{"mnistcnn.conv2", 32, Geom{14, 14, 32, 64, 5, 1, 2}},
	{"resnet20.first", 32, Geom{32, 32, 3, 16, 3, 1, 1}},
	{"resnet20.16", 32, Geom{32, 32, 16, 16, 3, 1, 1}},
	{"resnet20.16-32", 32, Geom{32, 32, 16, 32, 3, 2, 1}},
	{"resnet20.32", 32, Geom{16, 16, 32, 32, 3, 1, 1}},
	{"resnet20.32-64", 32, Geom{16, 16, 32, 64, 3, 2, 1}},
	{"resnet20.64", 32, Geom{8, 8, 64, 64, 3, 1, 1}},
	{"resnet20.short", 32, Geom{16, 16, 32, 64, 1, 2, 0}},
	{"resnet50@64.first", 16, Geom{64, 64, 3, 64, 7, 2, 3}},
	{"resnet50@64.64", 16, Geom{16, 16, 64, 64, 3, 1, 1}},
	{"resnet50@64.128", 16, Geom{8, 8, 128, 128, 3, 1, 1}},
	{"resnet50@64.256", 16, Geom{4, 4, 256, 256, 3, 1, 1}},
	{"resnet50@64.512", 16, Geom{2, 2, 512, 512, 3, 1, 1}},
	{"resnet50.first", 4, Geom{224, 224, 3, 64, 7, 2, 3}},
	{"resnet50.64", 4, Geom{56, 56, 64, 64, 3, 1, 1}},
	{"resnet50.64-256.1x1", 4, Geom{56, 56, 64, 256, 1, 1, 0}},
	{"resnet50.256-64.1x1", 4, Geom{56, 56, 256, 64, 1, 1, 0}},
	{"resnet50.128.half", 4, Geom{56, 56, 128, 128, 3, 2, 1}},
	{"resnet50.256-512.short", 4, Geom{56, 56, 256, 512, 1, 2, 0}},
	{"resnet50.128", 4, Geom{28, 28, 128, 128, 3, 1, 1}},
	{"resnet50.512-128.1x1", 4, Geom{28, 28, 512, 128, 1, 1, 0}},
	{"resnet50.256", 4, Geom{14, 14, 256, 256, 3, 1, 1}},
	{"resnet50.256-1024.1x1", 4, Geom{14, 14, 256, 1024, 1, 1, 0}},
	{"resnet50.512", 4, Geom{7, 7, 512, 512, 3, 1, 1}},
	{"resnet50.2048-512.1x1", 4, Geom{7, 7, 2048, 512, 1, 1, 0}},
}

// flop is what the definition asks for, padding included: the nominal count.
func (g Geom) flop(n int) float64 {
	return 2 * float64(n) * float64(g.outLen()) * float64(g.depth())
}

// products to time: forward and data with the packing of the weights, as in a
// step of training.
var timed = []string{"forward", "data", "weights"}

// timer returns a function that does one product once.
func timer(p *Plan, op string, n int) func() {
	g := p.Geom()
	r := rand.New(rand.NewPCG(1, 2))
	x, w, y := random(r, n*g.inLen()), random(r, g.Out*g.depth()), random(r, n*g.outLen())
	fl, bl := p.PackLen()
	s, fw, bw := new(Space), make([]float32, fl), make([]float32, bl)
	pieces, floats := p.WeightPieces(n)
	part, dw := make([]float32, floats), make([]float32, len(w))
	pack := func(f, b []float32) {
		for i := range p.PackPieces() {
			p.Pack(s, i, f, b, w)
		}
	}
	switch op {
	case "forward":
		return func() {
			pack(fw, nil)
			p.Forward(s, fw, nil, false, x, y, n)
		}
	case "data":
		return func() {
			pack(nil, bw)
			p.BackwardData(s, bw, y, x, n)
		}
	}
	return func() {
		for i := range pieces {
			p.BackwardWeights(s, i, dw, part, x, y, n)
		}
		p.SumWeights(dw, part, n)
	}
}

// BenchmarkConv times the products alone, in nominal GFLOP/s.
func BenchmarkConv(b *testing.B) {
	for _, c := range peerShapes {
		for _, op := range timed {
			b.Run(c.name+"/"+op, func(b *testing.B) {
				run := timer(New(c.g, Options{}), op, c.n)
				run()
				b.ReportAllocs()
				for b.Loop() {
					run()
				}
				b.ReportMetric(c.g.flop(c.n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// torch is the program testdata/peer.py, answering requests.
type torch struct {
	ask   io.WriteCloser
	reply *bufio.Reader
}

// startTorch starts the program, or skips the benchmark. The variable PYTHON
// names the interpreter, if it is not python3.
func startTorch(b *testing.B) *torch {
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	cmd := exec.Command(python, "testdata/peer.py")
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1")
	p := new(torch)
	ask, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p.ask, p.reply = ask, bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		b.Skipf("no Python: %v", err)
	}
	b.Cleanup(func() {
		p.ask.Close()
		cmd.Wait()
	})
	if _, err := p.reply.ReadString('\n'); err != nil {
		b.Skipf("no PyTorch (set PYTHON): %v", err)
	}
	return p
}

func (p *torch) run(op string, n int, g Geom, repeats int) (seconds float64, layout string, err error) {
	if _, err = fmt.Fprintln(p.ask, op, n, g.H, g.W, g.In, g.Out, g.Kernel, g.Stride, g.Pad, repeats); err == nil {
		_, err = fmt.Fscanln(p.reply, &seconds, &layout)
	}
	return seconds, layout, err
}

// BenchmarkPeer times the products beside PyTorch's, in turns, and reports
// medians: nominal GFLOP/s of both, and the ratio of neighbouring turns.
// Iterations are turns: -benchtime 5x.
func BenchmarkPeer(b *testing.B) {
	peer := startTorch(b)
	var logs [3]float64
	count := 0
	for _, c := range peerShapes {
		for k, op := range timed {
			b.Run(c.name+"/"+op, func(b *testing.B) {
				run := timer(New(c.g, Options{}), op, c.n)
				run()
				flop := c.g.flop(c.n)
				repeats := max(1, int(0.010*80e9/flop))
				var us, them, ratio []float64
				var layout string
				for b.Loop() {
					t, l, err := peer.run(op, c.n, c.g, repeats)
					if err != nil {
						b.Fatal(err)
					}
					layout = l
					start := time.Now()
					for range repeats {
						run()
					}
					u := time.Since(start).Seconds()
					us, them, ratio = append(us, u), append(them, t), append(ratio, t/u)
				}
				rate := flop * float64(repeats) / 1e9
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(rate/median(us), "GFLOP/s")
				b.ReportMetric(rate/median(them), layout+"-GFLOP/s")
				b.ReportMetric(median(ratio), "ratio")
				logs[k] += math.Log(median(ratio))
				count++
			})
		}
	}
	for k, op := range timed {
		if count > 0 {
			b.Logf("%s: geometric mean of ratios %.2f", op, math.Exp(logs[k]*float64(len(timed))/float64(count)))
		}
	}
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}
