package conv

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/par"
	"github.com/gradlab/gradlab/internal/program"
)

// peerShapes are convolutions of the models, with a batch that takes a while. Windows
// of one pixel have 16 images: with fewer PyTorch 1.13 takes a slow way on one thread.
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
	{"resnet50.64-256.1x1", 16, Geom{56, 56, 64, 256, 1, 1, 0}},
	{"resnet50.256-64.1x1", 16, Geom{56, 56, 256, 64, 1, 1, 0}},
	{"resnet50.128.half", 4, Geom{56, 56, 128, 128, 3, 2, 1}},
	{"resnet50.256-512.short", 16, Geom{56, 56, 256, 512, 1, 2, 0}},
	{"resnet50.128", 4, Geom{28, 28, 128, 128, 3, 1, 1}},
	{"resnet50.512-128.1x1", 16, Geom{28, 28, 512, 128, 1, 1, 0}},
	{"resnet50.256", 4, Geom{14, 14, 256, 256, 3, 1, 1}},
	{"resnet50.256-1024.1x1", 16, Geom{14, 14, 256, 1024, 1, 1, 0}},
	{"resnet50.512", 4, Geom{7, 7, 512, 512, 3, 1, 1}},
	{"resnet50.2048-512.1x1", 16, Geom{7, 7, 2048, 512, 1, 1, 0}},
}

// flop is what the definition asks for, padding included: the nominal count.
func (g Geom) flop(n int) float64 {
	return 2 * float64(n) * float64(g.outLen()) * float64(g.depth())
}

// products to time: forward and data with the packing of the weights, as in a
// step of training.
var timed = []string{"forward", "data", "weights"}

// timer returns a function that does one product once, on so many threads.
func timer(p *Plan, op string, n, threads int) func() {
	g := p.Geom()
	r := rand.New(rand.NewPCG(1, 2))
	x, w, y := random(r, n*g.inLen()), random(r, g.Out*g.depth()), random(r, n*g.outLen())
	fl, bl := p.PackLen()
	fw, bw := make([]float32, fl), make([]float32, bl)
	pieces, floats := p.WeightPieces(n)
	part, dw := make([]float32, floats), make([]float32, len(w))
	spaces := make([]Space, threads)
	team := new(par.Team)
	pack := func(f, b []float32) {
		team.Run(p.PackPieces(), threads, func(i, slot int) { p.Pack(&spaces[slot], i, f, b, w) })
	}
	// images gives each thread its part of them.
	images := func(f func(s *Space, x, y []float32, n int)) {
		team.Run(threads, threads, func(i, slot int) {
			from, to := i*n/threads, (i+1)*n/threads
			f(&spaces[slot], x[from*g.inLen():to*g.inLen()], y[from*g.outLen():to*g.outLen()], to-from)
		})
	}
	switch op {
	case "forward":
		return func() {
			pack(fw, nil)
			images(func(s *Space, x, y []float32, n int) { p.Forward(s, fw, nil, false, x, y, n) })
		}
	case "data":
		return func() {
			pack(nil, bw)
			images(func(s *Space, x, y []float32, n int) { p.BackwardData(s, bw, y, x, n) })
		}
	}
	return func() {
		team.Run(pieces, threads, func(i, slot int) { p.BackwardWeights(&spaces[slot], i, dw, part, x, y, n) })
		p.SumWeights(dw, part, n)
	}
}

// BenchmarkConv times the products alone, in nominal GFLOP/s.
func BenchmarkConv(b *testing.B) {
	for _, c := range peerShapes {
		for _, op := range timed {
			b.Run(c.name+"/"+op, func(b *testing.B) {
				run := timer(New(c.g, Options{}), op, c.n, 1)
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

// startTorch starts the program. Where PyTorch is installed and it does not start,
// that is a failure.
func startTorch(tb testing.TB) *torch {
	cmd := exec.Command(program.Python(tb, "torch"), "testdata/peer.py")
	// Its threads must spin from call to call, as ours do, but not through our turn: GNU
	// OpenMP's 300,000 pauses are 14 ms where a pause takes 140 cycles.
	cmd.Env = append(os.Environ(), "GOMP_SPINCOUNT=10000")
	cmd.Stderr = os.Stderr
	ask, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	p := &torch{ask, bufio.NewReader(out)}
	if err := cmd.Start(); err != nil {
		tb.Fatalf("the peer does not start: %v", err)
	}
	tb.Cleanup(func() {
		p.ask.Close()
		cmd.Wait()
	})
	hello, err := p.reply.ReadString('\n')
	if err != nil || strings.HasPrefix(hello, "error") {
		tb.Fatalf("the peer testdata/peer.py cannot run: %s (%v)", strings.TrimSpace(hello), err)
	}
	return p
}

func (p *torch) run(threads int, op string, n int, g Geom, repeats int) (seconds float64, layout string, err error) {
	if _, err = fmt.Fprintln(p.ask, threads, op, n, g.H, g.W, g.In, g.Out, g.Kernel, g.Stride, g.Pad, repeats); err == nil {
		_, err = fmt.Fscanln(p.reply, &seconds, &layout)
	}
	return seconds, layout, err
}

// The peer's script is there, starts and answers, so that a benchmark cannot pass
// without having measured anything.
func TestPeerAnswers(t *testing.T) {
	if _, err := os.Stat("testdata/peer.py"); err != nil {
		t.Fatal(err)
	}
	peer := startTorch(t)
	for threads := 1; threads <= 2; threads++ {
		for _, op := range timed {
			seconds, layout, err := peer.run(threads, op, 2, Geom{8, 8, 8, 16, 3, 1, 1}, 1)
			if err != nil || seconds <= 0 || layout != "nchw" && layout != "nhwc" {
				t.Fatalf("%s on %d threads: %g s in layout %q, %v", op, threads, seconds, layout, err)
			}
		}
	}
}

// BenchmarkPeer times the products beside PyTorch's, in turns, on one thread and on
// two, and reports medians: nominal GFLOP/s of both, and the ratio of neighbouring
// turns. Then it prints the geometric means and the least ratios. Iterations are
// turns: -benchtime 5x.
func BenchmarkPeer(b *testing.B) {
	peer := startTorch(b)
	ratios := map[string][]float64{}
	for _, threads := range []int{1, 2} {
		for _, c := range peerShapes {
			for _, op := range timed {
				b.Run(fmt.Sprintf("%s/%s/%d", c.name, op, threads), func(b *testing.B) {
					defer par.SetThreads(0)
					par.SetThreads(threads)
					of := fmt.Sprintf("%s, %d threads", op, threads)
					ratios[of] = append(ratios[of], peer.beside(b, c.g, op, c.n, threads))
				})
			}
		}
	}
	for _, of := range slices.Sorted(maps.Keys(ratios)) {
		sum := 0.0
		for _, r := range ratios[of] {
			sum += math.Log(r)
		}
		fmt.Printf("%s: geometric mean of %d ratios %.2f, least %.2f\n", of, len(ratios[of]), math.Exp(sum/float64(len(ratios[of]))), slices.Min(ratios[of]))
	}
}

// beside takes turns with the peer and returns the ratio.
func (p *torch) beside(b *testing.B, g Geom, op string, n, threads int) float64 {
	call := timer(New(g, Options{}), op, n, threads)
	flop := g.flop(n)
	repeats := max(1, int(0.050*80e9*float64(threads)/flop))
	var us, them, ratio []float64
	var layout string
	for b.Loop() {
		t, l, err := p.run(threads, op, n, g, repeats)
		if err != nil {
			b.Fatalf("the peer has ended: %v", err)
		}
		layout = l
		call() // as the peer does, so that neither begins cold
		start := time.Now()
		for range repeats {
			call()
		}
		u := time.Since(start).Seconds()
		us, them, ratio = append(us, u), append(them, t), append(ratio, t/u)
	}
	rate := flop * float64(repeats) / 1e9
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rate/median(us), "GFLOP/s")
	b.ReportMetric(rate/median(them), layout+"-GFLOP/s")
	b.ReportMetric(median(ratio), "ratio")
	return median(ratio)
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}
