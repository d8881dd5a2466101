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

	"golang.org/x/sys/cpu"
)

// A layer is one of the products of training.
type layer struct {
	name    string
	m, n, k int
	ta, tb  bool
}

// layers are squares, and the convolutions (Y = W·col, dW = dY·colᵀ, dcol =
// Wᵀ·dY) and dense layers of the models; blk4 is a convolution done four images
// at a time.
var layers = []layer{
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

// flop is the work of the product.
func (l layer) flop() float64 { return 2 * float64(l.m) * float64(l.n) * float64(l.k) }

// op is N or T for A and B.
func (l layer) op() string {
	letter := map[bool]string{false: "N", true: "T"}
	return letter[l.ta] + letter[l.tb]
}

// product returns the product of random matrices, to be computed.
func (l layer) product() func() {
	r := newRand(1)
	x, y, z := randVec(r, l.m*l.k), randVec(r, l.k*l.n), make([]float32, l.m*l.n)
	lda, ldb := l.k, l.n
	if l.ta {
		lda = l.m
	}
	if l.tb {
		ldb = l.k
	}
	return func() { Gemm(l.ta, l.tb, l.m, l.n, l.k, 1, x, lda, y, ldb, 0, z, l.n) }
}

// openblas is the program in testdata/openblas, answering requests.
type openblas struct {
	ask   io.WriteCloser
	reply *bufio.Reader
}

// startOpenBLAS builds and starts the program. Where gcc or the library is not
// installed it skips the test; whatever else keeps the program from running is a
// failure. The variable OPENBLAS names the library, if it is not where the linker
// looks.
func startOpenBLAS(b testing.TB) *openblas {
	if _, err := os.Stat("testdata/openblas/sgemm.c"); err != nil {
		b.Fatalf("the peer is not there: %v", err)
	}
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
	// turn: half a millisecond, in either flavour (2^20 cycles; a pause takes up to 140).
	cmd.Env = append(os.Environ(), "OPENBLAS_THREAD_TIMEOUT=20", "GOMP_SPINCOUNT=10000")
	if cpu.X86.HasAVX512F && os.Getenv("OPENBLAS_CORETYPE") == "" {
		cmd.Env = append(cmd.Env, "OPENBLAS_CORETYPE=SkylakeX") // on a model that it does not know it takes SSE
	}
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
	if _, _, err := p.run(1, false, false, 8, 8, 8, 1); err != nil {
		p.ask.Close()
		cmd.Wait()
		if notInstalled := cmd.ProcessState.ExitCode() == 2; notInstalled && os.Getenv("OPENBLAS") == "" {
			b.Skip("no OpenBLAS: apt-get install libopenblas0, or name the library in OPENBLAS")
		}
		b.Fatalf("the peer testdata/openblas/sgemm.c cannot run: %v (%v)", cmd.ProcessState, err)
	}
	b.Cleanup(func() {
		p.ask.Close()
		cmd.Wait()
	})
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

// beside is what one layer took: GFLOP/s of both and their ratio.
type beside struct{ ours, theirs, ratio float64 }

// BenchmarkPeer times Gemm beside OpenBLAS, in turns of some milliseconds each,
// and takes medians: GFLOP/s of both, and the ratio of neighbouring turns. Then
// it prints all of it as a table, with the geometric mean and the least of the
// ratios. Iterations are turns: -benchtime 15x.
//
// If the machine has other work, a thread waiting for its processor makes
// nonsense of two threads: give them a real-time policy, as by chrt -r 1.
func BenchmarkPeer(b *testing.B) {
	peer := startOpenBLAS(b)
	defer SetThreads(0)
	results := map[int]map[string]beside{1: {}, 2: {}}
	for _, threads := range []int{1, 2} {
		for _, l := range layers {
			b.Run(fmt.Sprintf("%s/%d", l.name, threads), func(b *testing.B) {
				SetThreads(threads)
				r := peer.beside(b, l, threads)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(r.ours, "GFLOP/s")
				b.ReportMetric(r.theirs, "OpenBLAS")
				b.ReportMetric(r.ratio, "ratio")
				results[threads][l.name] = r
			})
		}
	}
	printTable(os.Stdout, results)
}

// The peer is there, starts and answers, so that a benchmark cannot pass without
// having measured anything.
func TestPeerAnswers(t *testing.T) {
	peer := startOpenBLAS(t)
	if seconds, core, err := peer.run(2, false, true, 16, 8, 24, 1); err != nil || seconds <= 0 || core == "" {
		t.Fatalf("%g s by kernels %q, %v", seconds, core, err)
	}
}

// beside takes turns with the peer.
func (p *openblas) beside(b *testing.B, l layer, threads int) beside {
	call := l.product()
	repeats := max(1, int(0.010*80e9*float64(threads)/l.flop()))
	ours := func() float64 {
		for begin := time.Now(); time.Since(begin) < 5*time.Millisecond; {
			call() // until all threads are awake
		}
		start := time.Now()
		for range repeats {
			call()
		}
		return time.Since(start).Seconds()
	}
	theirs := func() float64 {
		t, _, err := p.run(threads, l.ta, l.tb, l.m, l.n, l.k, repeats)
		if err != nil {
			b.Fatal(err)
		}
		time.Sleep(3 * time.Millisecond) // until its threads rest
		return t
	}
	var us, them, ratio []float64
	for b.Loop() {
		t, u := theirs(), ours()
		us, them, ratio = append(us, u), append(them, t), append(ratio, t/u)
	}
	rate := l.flop() * float64(repeats) / 1e9
	return beside{rate / median(us), rate / median(them), median(ratio)}
}

// printTable writes results, by threads and layer, in Markdown.
func printTable(w io.Writer, results map[int]map[string]beside) {
	fmt.Fprintln(w, "| product | m, n, k | op | 1 thread: GFLOP/s | OpenBLAS | ratio | 2 threads: GFLOP/s | OpenBLAS | ratio |")
	fmt.Fprintln(w, "|---|---|---|--:|--:|--:|--:|--:|--:|")
	ratios := map[int][]float64{}
	for _, l := range layers {
		row := fmt.Sprintf("| %s | %d, %d, %d | %s |", l.name, l.m, l.n, l.k, l.op())
		measured := false
		for _, threads := range []int{1, 2} {
			r, ok := results[threads][l.name]
			if !ok {
				row += " | | |"
				continue
			}
			measured = true
			row += fmt.Sprintf(" %.0f | %.0f | %.2f |", r.ours, r.theirs, r.ratio)
			ratios[threads] = append(ratios[threads], r.ratio)
		}
		if measured {
			fmt.Fprintln(w, row)
		}
	}
	mean, least := "| geometric mean | | |", "| least | | |"
	for _, threads := range []int{1, 2} {
		x := ratios[threads]
		if len(x) == 0 {
			mean, least = mean+" | | |", least+" | | |"
			continue
		}
		logs := 0.0
		for _, r := range x {
			logs += math.Log(r)
		}
		mean += fmt.Sprintf(" | | %.2f |", math.Exp(logs/float64(len(x))))
		least += fmt.Sprintf(" | | %.2f |", slices.Min(x))
	}
	fmt.Fprintf(w, "%s\n%s\n", mean, least)
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}
