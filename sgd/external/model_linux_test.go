package external_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/external"
	"github.com/gradlab/gradlab/sgd/sgdtest"
)

// python is the interpreter and a program.
func python(t *testing.T) []string {
	t.Helper()
	return []string{program.Python(t, "numpy"), filepath.FromSlash("testdata/softmax.py")}
}

func open(t *testing.T, limit time.Duration, args ...string) *external.Model {
	t.Helper()
	command := python(t)
	if len(args) > 0 {
		command = append(command[:1], append([]string{"testdata/bad.py"}, args...)...)
	}
	m, err := external.Open(context.Background(), external.Options{Command: command, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func batch(t *testing.T, first uint64, n int) sgd.Batch {
	t.Helper()
	ds, err := data.Open("digits", data.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var b sgd.Batch
	if err := ds.Train.Batch(sgd.Draw{First: first, N: n}, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGradientIsThatOfTheLoss: the gradient agrees with differences, spans come in the
// order in which the process made them, and a pass again has the same bits.
func TestGradientIsThatOfTheLoss(t *testing.T) {
	m := open(t, 0)
	l := m.Layout()
	if got := l.Spans[0]; got != (sgd.Span{Name: "w", Rows: 10, Cols: 64}) || l.Size() != 650 {
		t.Fatalf("layout %+v", l)
	}
	var as sgd.Model = m
	if f := as.SpanFLOPs(); len(f) != len(l.Spans) || as.NewScratch() != nil {
		t.Errorf("operations %v of %d spans, scratch %v", f, len(l.Spans), as.NewScratch())
	}
	p, g := make([]float32, 650), make([]float32, 650)
	m.Init(p, 7)
	b := batch(t, 0, 16)
	var order []int
	loss, err := m.Grad(context.Background(), sgd.Pass{Params: p, Grad: g, Ready: func(i int) error { order = append(order, i); return nil }}, b)
	if err != nil || !slices.Equal(order, []int{1, 0}) {
		t.Fatalf("loss %v, spans %v, %v", loss, order, err)
	}
	eval := func(i int, h float32) float64 {
		q := slices.Clone(p)
		q[i] += h
		s, err := m.Eval(q, nil, b)
		if err != nil {
			t.Fatal(err)
		}
		return s.Mean(1)
	}
	if at := eval(0, 0); math.Abs(at-loss) > 1e-6 {
		t.Errorf("evaluated %v, in training %v", at, loss)
	}
	for _, i := range []int{20, 345, 645} {
		const h = 1.0 / 64
		if d := (eval(i, h) - eval(i, -h)) / (2 * h); math.Abs(d-float64(g[i])) > 1e-3 {
			t.Errorf("gradient %d is %v, by differences %v", i, g[i], d)
		}
	}
	// What the program measures besides is a mean over a batch, and a sum over batches.
	var parts sgd.Score
	for first := range 2 {
		s, err := m.Eval(p, nil, batch(t, uint64(8*first), 8))
		if err != nil {
			t.Fatal(err)
		}
		parts.Add(s)
	}
	whole, err := m.Eval(p, nil, b)
	if want := []sgd.Metric{sgd.Accuracy, sgd.Loss, {Name: "brier", LessIsBetter: true}}; !slices.Equal(m.Metrics(), want) {
		t.Fatalf("metrics %+v", m.Metrics())
	}
	if want := whole.Sums[2]; err != nil || want <= 0 || want > 2*16 || math.Abs(parts.Sums[2]-want) > 1e-5 || len(parts.Sums) != 3 {
		t.Errorf("sums of two halves %v, of the whole batch %v, %v", parts.Sums, whole.Sums, err)
	}
	again := make([]float32, 650)
	if l2, err := m.Grad(context.Background(), sgd.Pass{Params: p, Grad: again}, b); err != nil || l2 != loss || !slices.Equal(again, g) {
		t.Errorf("a second pass differs: %v, %v", l2, err)
	}
}

// TestWeightsOfAProgram: its parameters go to a file and come back, and a run begins there.
func TestWeightsOfAProgram(t *testing.T) {
	if err := sgdtest.Portable(open(t, 0)); err != nil {
		t.Error(err)
	}
}

// TestLearns: descent on larger and larger batches, so that the shared memory grows.
func TestLearns(t *testing.T) {
	m := open(t, 0)
	p, g := make([]float32, 650), make([]float32, 650)
	m.Init(p, 1)
	test := batch(t, 0, 500)
	for s := range 60 {
		if _, err := m.Grad(context.Background(), sgd.Pass{Params: p, Grad: g}, batch(t, uint64(500+s*64), 4+s)); err != nil {
			t.Fatal(err)
		}
		for i := range p {
			p[i] -= 0.3 * g[i]
		}
	}
	if s, err := m.Eval(p, nil, test); err != nil || s.Mean(0) < 0.8 {
		t.Errorf("accuracy %v, %v", s.Mean(0), err)
	}
}

// TestFailures: every way to fail is an error that says how, with the last output.
func TestFailures(t *testing.T) {
	for how, want := range map[string]string{
		"dies": "exit status 3", "hangs": "said nothing for", "size": "has shape (3, 3); want (10, 64)",
		"garbage": "garbage on its socket", "throws": "RuntimeError: no luck", "shrinks": "Operation not permitted",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			limit := time.Duration(0)
			if how == "hangs" {
				limit = patience.Stretch(5 * time.Second) // the hello must come within it
			}
			m := open(t, limit, how)
			p, g := make([]float32, 650), make([]float32, 650)
			m.Init(p, 1)
			_, err := m.Grad(context.Background(), sgd.Pass{Params: p, Grad: g}, batch(t, 0, 4))
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the last words") {
				t.Errorf("%v; want %q and the last words", err, want)
			}
		})
	}
	for how, want := range map[string]string{
		"named": `metric 2 is called "a/b"`, "double": "metric loss is there twice", "many": "67 metrics; want at most 64", "either": `better with 'either'; want "more" or "less"`,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			command := []string{python(t)[0], "testdata/bad.py", how}
			if m, err := external.Open(context.Background(), external.Options{Command: command}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %q", err, want)
				if err == nil {
					m.Close()
				}
			}
		})
	}
	for how, want := range map[string]string{"infinite": "metric mae is inf", "unsaid": `such as metrics={'mae': "less"}`} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			m := open(t, 0, how)
			p := make([]float32, 650)
			m.Init(p, 1)
			if _, err := m.Eval(p, nil, batch(t, 0, 4)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the last words") {
				t.Errorf("%v; want %q and the last words", err, want)
			}
		})
	}
	t.Run("nan", func(t *testing.T) {
		m := open(t, 0, "nan")
		p, g := make([]float32, 650), make([]float32, 650)
		m.Init(p, 1)
		if loss, err := m.Grad(context.Background(), sgd.Pass{Params: p, Grad: g}, batch(t, 0, 4)); err != nil || !math.IsNaN(loss) || g[0] == g[0] {
			t.Errorf("loss %v, gradient %v, %v; want NaN, which the engine judges", loss, g[0], err)
		}
		if got := m.Printed(); got != "the last words" {
			t.Errorf("printed %q", got)
		}
	})
	t.Run("first", func(t *testing.T) {
		m := open(t, 0, "first")
		p := make([]float32, 650)
		m.Init(p, 1)
		if _, err := m.Grad(context.Background(), sgd.Pass{Params: p, Grad: p}, batch(t, 0, 4)); err == nil || !strings.Contains(err.Error(), `first parameters of tensor "b" hold NaN`) {
			t.Error(err)
		}
	})
	t.Run("twice", func(t *testing.T) { // an answer too many is no answer to what is asked next
		m := open(t, 0, "twice")
		p, g := make([]float32, 650), make([]float32, 650)
		m.Init(p, 1)
		_, err := m.Grad(context.Background(), sgd.Pass{Params: p, Grad: g}, batch(t, 0, 4))
		if err == nil {
			_, err = m.Eval(p, nil, batch(t, 0, 4))
		}
		if err == nil || !strings.Contains(err.Error(), "to be answered once") {
			t.Error(err)
		}
	})
	t.Run("command", func(t *testing.T) {
		if _, err := external.Open(context.Background(), external.Options{Command: []string{"/nowhere"}}); err == nil || !strings.Contains(err.Error(), "does not start") {
			t.Error(err)
		}
	})
}

// TestCancelled: a process that hangs is ended with the run, and none is left behind.
func TestCancelled(t *testing.T) {
	m := open(t, 0, "hangs")
	p, g := make([]float32, 650), make([]float32, 650)
	m.Init(p, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancelled := make(chan error, 1)
	go func() {
		_, err := m.Grad(ctx, sgd.Pass{Params: p, Grad: g}, batch(t, 0, 4))
		cancelled <- err
	}()
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	m.Close()
	if n, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == nil {
		t.Errorf("process %d is left", n)
	}
}

// What a program started is ended with it, in a session of its own too.
func TestDaemonsEnd(t *testing.T) {
	told := filepath.Join(t.TempDir(), "pid")
	m := open(t, 0, "daemon", told)
	p, g := make([]float32, 650), make([]float32, 650)
	m.Init(p, 1)
	if _, err := m.Grad(context.Background(), sgd.Pass{Params: p, Grad: g}, batch(t, 0, 4)); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for pid == 0 {
		b, _ := os.ReadFile(told)
		pid, _ = strconv.Atoi(string(b))
		time.Sleep(time.Millisecond)
	}
	m.Close()
	for { // it is dead, and gone once it is reaped
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(b, []byte(") Z ")) {
			break
		}
		time.Sleep(time.Millisecond)
	}
}

// A program that hangs does not hold up a run that is to stop: passes under way and later
// ones end, and without the hurry programs have their time again.
func TestHurry(t *testing.T) {
	m := open(t, 0, "hangs")
	p, g := make([]float32, 650), make([]float32, 650)
	m.Init(p, 1)
	defer external.Hurry(0)
	ended := make(chan error, 1)
	go func() {
		_, err := m.Grad(context.Background(), sgd.Pass{Params: p, Grad: g}, batch(t, 0, 4))
		ended <- err
	}()
	for m.Printed() == "" { // the pass has begun
	}
	external.Hurry(time.Millisecond)
	if err := <-ended; !errors.Is(err, external.ErrHurried) || !strings.Contains(err.Error(), "the last words") {
		t.Error(err)
	}
	external.Hurry(0)
	if good := open(t, 0); good.Layout().Size() != 650 {
		t.Error("no program starts any more")
	}
}

// A process that has not said hello is ended with the run, too, and that is the error.
func TestCancelledAtTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	started := filepath.Join(t.TempDir(), "started")
	opened := make(chan error, 1)
	go func() {
		_, err := external.Open(ctx, external.Options{Command: []string{"sh", "-c", "echo > " + started + "; exec sleep 1000"}})
		opened <- err
	}()
	for {
		if _, err := os.Stat(started); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-opened; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Runs with the same options share a model; CloseAll ends its processes, and the next
// run starts others.
func TestShared(t *testing.T) {
	p := external.Program{Command: strings.Join(python(t), " ")}
	in := sgd.Shape{C: 1, H: 8, W: 8}
	first, err := p.New(sgd.Sample{Shape: in, Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.New(sgd.Sample{Shape: in, Classes: 10}); err != nil || again != first {
		t.Errorf("another model, %v", err)
	}
	if other, err := p.New(sgd.Sample{Shape: in, Classes: 9}); err != nil || other == first {
		t.Errorf("the same model for other samples, %v", err)
	}
	external.CloseAll()
	v := make([]float32, 650)
	if _, err := first.Grad(context.Background(), sgd.Pass{Params: v, Grad: v}, batch(t, 0, 4)); err == nil {
		t.Error("a closed model computes")
	}
	if next, err := p.New(sgd.Sample{Shape: in, Classes: 10}); err != nil || next == first {
		t.Errorf("the closed model, %v", err)
	}
	external.CloseAll()
	if n, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == nil {
		t.Errorf("process %d is left", n)
	}
}
