package f32

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// peerShapes are products of training: squares, and the convolutions (Y = W·col,
// dW = dY·colᵀ, dcol = Wᵀ·dY) and dense layers of the models; blk4 is a
// convolution done four images at a time.
var peerShapes = []struct {
	name    string
	m, n, k int
	ta, tb  bool
}{
	{"sq256", 256, 256, 256, false, false},
	{"sq512", 512, 512, 512, false, false},
	{"sq1024", 1024, 1024, 1024, false, false},
	{"sq2048", 2048, 2048, 2048, false, false},
	{"mnist.conv1.fwd", 32, 100352, 25, false, false},
	{"mnist.conv1.dW", 32, 25, 100352, false, true},
	{"mnist.conv2.fwd", 64, 25088, 800, false, false},
	{"mnist.conv2.dW", 64, 800, 25088, false, true},
	{"mnist.conv2.dcol", 800, 25088, 64, true, false},
	{"blk4.conv2.fwd", 64, 784, 800, false, false},
	{"blk4.conv2.dW", 64, 800, 784, false, true},
	{"blk4.conv2.dcol", 800, 784, 64, true, false},
	{"mnist.fc1.fwd", 128, 1024, 3136, false, true},
	{"mnist.fc1.dW", 1024, 3136, 128, true, false},
	{"mnist.fc1.dX", 128, 3136, 1024, false, false},
	{"mlp.fc1.fwd", 128, 512, 784, false, true},
	{"mlp.fc1.dW", 512, 784, 128, true, false},
	{"r20.16ch.fwd", 16, 131072, 144, false, false},
	{"r20.32ch.fwd", 32, 32768, 288, false, false},
	{"r20.64ch.fwd", 64, 8192, 576, false, false},
	{"r50.64ch.fwd", 64, 12544, 576, false, false},
	{"r50.64ch.dW", 64, 576, 12544, false, true},
	{"r50.64ch.dcol", 576, 12544, 64, true, false},
	{"r50.1x1.64-256", 256, 4096, 64, false, false},
	{"r50.1x1.2048-512", 512, 392, 2048, false, false},
	{"r50.512ch.fwd", 512, 392, 4608, false, false},
}

// openblas is the program in testdata/openblas, answering requests.
type openblas struct {
	ask   io.WriteCloser
	reply *bufio.Reader
}

// startOpenBLAS builds and starts the program, or skips the benchmark. The
// variable OPENBLAS names the library, if it is not where the linker looks.
func startOpenBLAS(b *testing.B) *openblas {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		b.Skip("no gcc: nothing to build the peer with")
	}
	exe := filepath.Join(b.TempDir(), "sgemm")
	if out, err := exec.Command(gcc, "-O2", "-o", exe, "testdata/openblas/sgemm.c", "-ldl").CombinedOutput(); err != nil {
		b.Fatalf("gcc: %v\n%s", err, out)
	}
	cmd := exec.Command(exe)
	if lib := os.Getenv("OPENBLAS"); lib != "" {
		cmd.Args = append(cmd.Args, lib)
	}
	// Its threads must spin from call to call, as ours do, but not into our
	// turn: about a millisecond, in either flavour (2^21 cycles).
	cmd.Env = append(os.Environ(), "OPENBLAS_THREAD_TIMEOUT=21", "GOMP_SPINCOUNT=300000")
	cmd.Stderr = os.Stderr
	p := new(openblas)
	if p.ask, err = cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p.reply = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		p.ask.Close()
		cmd.Wait()
	})
	if _, _, err := p.run(1, false, false, 8, 8, 8, 1); err != nil {
		b.Skipf("no OpenBLAS: %v", err)
	}
	return p
}

// run returns the seconds the calls took, and the name of the kernels.
func (p *openblas) run(threads int, ta, tb bool, m, n, k, repeats int) (seconds float64, core string, err error) {
	flag := map[bool]int{true: 1}
	if _, err = fmt.Fprintln(p.ask, threads, flag[ta], flag[tb], m, n, k, repeats); err == nil {
		_, err = fmt.Fscanln(p.reply, &seconds, &core)
	}
	return seconds, core, err
}

// BenchmarkPeer times Gemm beside OpenBLAS, in turns of some milliseconds each,
// and reports medians: GFLOP/s of both, and the ratio of neighbouring turns; at
// the end the geometric mean and the least of the ratios. Iterations are turns:
// -benchtime 15x.
func BenchmarkPeer(b *testing.B) {
	peer := startOpenBLAS(b)
	defer SetThreads(0)
	for _, threads := range []int{1, 2} {
		SetThreads(threads)
		var ratios []float64
		for _, s := range peerShapes {
			b.Run(fmt.Sprintf("threads=%d/%s", threads, s.name), func(b *testing.B) {
				r := newRand(1)
				x, y, z := randVec(r, s.m*s.k), randVec(r, s.k*s.n), make([]float32, s.m*s.n)
				lda, ldb := s.k, s.n
				if s.ta {
					lda = s.m
				}
				if s.tb {
					ldb = s.k
				}
				call := func() {
					Gemm(s.ta, s.tb, s.m, s.n, s.k, 1, x, lda, y, ldb, 0, z, s.n)
				}
				ours := func(repeats int) float64 {
					for begin := time.Now(); time.Since(begin) < 5*time.Millisecond; {
						call() // until all threads are awake
					}
					start := time.Now()
					for range repeats {
						call()
					}
					return time.Since(start).Seconds()
				}
				theirs := func(repeats int) float64 {
					t, _, err := peer.run(threads, s.ta, s.tb, s.m, s.n, s.k, repeats)
					if err != nil {
						b.Fatal(err)
					}
					time.Sleep(3 * time.Millisecond) // until its threads rest
					return t
				}
				flop := 2 * float64(s.m) * float64(s.n) * float64(s.k)
				repeats := max(1, int(0.010*80e9*float64(threads)/flop))
				var us, them, ratio []float64
				for b.Loop() {
					t, u := theirs(repeats), ours(repeats)
					us, them, ratio = append(us, u), append(them, t), append(ratio, t/u)
				}
				rate := flop * float64(repeats) / 1e9
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(rate/median(us), "GFLOP/s")
				b.ReportMetric(rate/median(them), "OpenBLAS-GFLOP/s")
				b.ReportMetric(median(ratio), "ratio")
				ratios = append(ratios, median(ratio))
			})
		}
		b.Run(fmt.Sprintf("threads=%d/all", threads), func(b *testing.B) {
			if len(ratios) == 0 {
				b.Skip("nothing measured")
			}
			for b.Loop() {
			}
			logs := 0.0
			for _, r := range ratios {
				logs += math.Log(r)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(math.Exp(logs/float64(len(ratios))), "mean-ratio")
			b.ReportMetric(slices.Min(ratios), "least-ratio")
		})
	}
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}
