package external

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
)

// Model is a model that processes compute. A pass takes a process that is idle or
// starts one, so there are as many as passes at a time. A pass depends only on what it is
// sent, so which process computes it changes no bit. Close ends all of them.
type Model struct {
	opt    Options
	layout sgd.Layout
	flops  []float64
	files  []nn.Tensor // what tensors are in a file of weights
	counts []sgd.Metric
	first  []float32 // parameters to begin with, where From was given some

	mu     sync.Mutex
	idle   []*process
	all    map[*process]bool
	closed bool
	failed error // of Init, which cannot return it
}

// Open starts a first process and agrees with it on the layout. The error says what
// is wrong and has the last lines that the process printed.
func Open(ctx context.Context, opt Options) (*Model, error) {
	if len(opt.Command) == 0 {
		return nil, errors.New("external: no command; give the program that computes the model, such as python3 train.py")
	}
	if err := checkValues(opt.Values); err != nil {
		return nil, fmt.Errorf("external: %w", err)
	}
	m := &Model{opt: opt, all: map[*process]bool{}}
	p, err := m.take(ctx)
	if err != nil {
		return nil, err
	}
	m.layout, m.flops, m.files, m.counts = p.layout, p.flops, p.files, p.counts
	m.give(p)
	return m, nil
}

// Close ends every process, and waits until it is gone.
func (m *Model) Close() {
	m.mu.Lock()
	m.closed = true
	all, idle := m.all, m.idle
	m.all, m.idle = nil, nil
	m.mu.Unlock()
	for p := range all {
		p.kill()
	}
	for _, p := range idle {
		p.unmap()
	}
}

// take returns a process that nobody else has.
func (m *Model) take(ctx context.Context) (*process, error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, errors.New("external: the model was closed")
	}
	if n := len(m.idle); n > 0 {
		p := m.idle[n-1]
		m.idle = m.idle[:n-1]
		m.mu.Unlock()
		return p, nil
	}
	p, err := start(m.opt)
	if err == nil {
		m.all[p] = true
	}
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, p.end)
	err = p.hello()
	if !stop() { // the process was ended
		err = context.Cause(ctx)
	}
	if err == nil && len(m.layout.Spans) > 0 && !slices.Equal(p.counts, m.counts) {
		err = p.because(errors.New("its measures are not those of the process before it: every process must name the same metrics in the same order"))
	}
	if err == nil && len(m.layout.Spans) > 0 && p.layout.Hash() != m.layout.Hash() {
		err = p.because(errors.New("its layout is not that of the process before it: every process must name the same tensors in the same order"))
	}
	if err != nil {
		m.drop(p)
		return nil, err
	}
	return p, nil
}

func (m *Model) give(p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		p.unmap()
		return
	}
	m.idle = append(m.idle, p)
}

func (m *Model) drop(p *process) {
	p.kill()
	p.unmap()
	m.mu.Lock()
	delete(m.all, p)
	m.mu.Unlock()
}

// with runs one exchange. A process that fails, or is interrupted, is ended.
func (m *Model) with(ctx context.Context, f func(*process) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := m.take(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, p.end)
	err = f(p)
	if !stop() { // the process was ended
		err = context.Cause(ctx)
	}
	if err != nil {
		m.drop(p)
		return err
	}
	m.give(p)
	return nil
}

// Layout implements sgd.Model.
func (m *Model) Layout() sgd.Layout { return m.layout }

// Metrics implements sgd.Model: what the process said in its layout.
func (m *Model) Metrics() []sgd.Metric { return m.counts }

// SpanFLOPs implements sgd.Model: what the process said in its layout, 0 where it did not.
func (m *Model) SpanFLOPs() []float64 { return m.flops }

// At implements sgd.Resizable, for programs that say that they take pictures of any side.
func (m *Model) At(side int) (sgd.Model, error) {
	at := sided{Model: m}
	err := m.with(context.Background(), func(p *process) (err error) {
		at.flops, err = p.at(side)
		return err
	})
	return at, err
}

// sided is a model for pictures of another side, which batches name.
type sided struct {
	*Model
	flops []float64
}

// SpanFLOPs implements sgd.Model.
func (m sided) SpanFLOPs() []float64 { return m.flops }

// NewScratch implements sgd.Model. Working memory is the process's own.
func (m *Model) NewScratch() sgd.Scratch { return nil }

// Init asks the process for the first parameters. Its error is returned by the passes
// after it; the parameters are then NaN.
func (m *Model) Init(params []float32, seed uint64) {
	if m.first != nil && len(params) == len(m.first) {
		copy(params, m.first)
		return
	}
	err := m.with(context.Background(), func(p *process) error {
		if err := p.fit(params); err != nil {
			return err
		}
		if err := p.send(message{Op: "init", Seed: seed}); err != nil {
			return err
		}
		if _, err := p.answer("done"); err != nil {
			return err
		}
		copy(params, p.floats(0, len(params)))
		for i, s := range m.layout.Spans {
			if !f32.AllFinite(m.layout.View(params, i)) {
				return p.because(fmt.Errorf("the first parameters of tensor %q hold NaN or Inf", s.Name))
			}
		}
		return nil
	})
	if err != nil {
		for i := range params {
			params[i] = float32(math.NaN())
		}
		m.mu.Lock()
		m.failed = err
		m.mu.Unlock()
	}
}

// late is how long what a process printed may take to come, on a machine that others want.
const late = 2 * time.Second

// Printed implements sgd.Printing: the last lines of every process that printed any. They
// come by a pipe, maybe later than the answer that they explain.
func (m *Model) Printed() string {
	for end := time.Now().Add(late); ; time.Sleep(late / 100) {
		if text := m.printed(); text != "" || time.Now().After(end) {
			return text
		}
	}
}

func (m *Model) printed() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, p := range slices.SortedFunc(maps.Keys(m.all), func(a, b *process) int { return a.cmd.Process.Pid - b.cmd.Process.Pid }) {
		if text := p.out.lines(); text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "\n")
}

func (m *Model) broken() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// Grad implements sgd.Model. Spans are ready as the process says so; those it did not
// name are ready at its end, last first. A loss that is not finite is NaN.
func (m *Model) Grad(ctx context.Context, pass sgd.Pass, b sgd.Batch) (loss float64, err error) {
	if err := m.broken(); err != nil {
		return 0, err
	}
	told := make([]bool, len(m.layout.Spans))
	err = m.with(ctx, func(p *process) error {
		if err := p.fit(pass.Params, pass.Grad); err != nil {
			return err
		}
		for i := range told {
			if pass.Need == nil {
				break
			}
			if err := pass.Need(i); err != nil {
				return err
			}
		}
		if err := p.ask("step", pass.Params, b); err != nil {
			return err
		}
		ready := func(i int) error {
			told[i] = true
			p.gradient(m.layout.View(pass.Grad, i), i)
			if pass.Ready == nil {
				return nil
			}
			return pass.Ready(i)
		}
		for {
			a, err := p.answer("ready", "done")
			if err != nil {
				return err
			}
			if a.Op == "done" {
				if loss = math.NaN(); a.Loss != nil {
					loss = *a.Loss
				}
				break
			}
			if a.Span < 0 || a.Span >= len(told) || told[a.Span] {
				return p.because(fmt.Errorf("it says span %d is ready; want each of 0 to %d once", a.Span, len(told)-1))
			}
			if err := ready(a.Span); err != nil {
				return err
			}
		}
		for i := range slices.Backward(told) {
			if !told[i] {
				if err := ready(i); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return loss, err
}

// Eval implements sgd.Model.
func (m *Model) Eval(params []float32, _ sgd.Scratch, b sgd.Batch) (s sgd.Score, err error) {
	if err := m.broken(); err != nil {
		return s, err
	}
	err = m.with(context.Background(), func(p *process) error {
		if err := p.fit(params); err != nil {
			return err
		}
		if err := p.ask("evaluate", params, b); err != nil {
			return err
		}
		a, err := p.answer("done")
		if err != nil {
			return err
		}
		if a.Correct < 0 || a.Correct > b.N {
			return p.because(fmt.Errorf("it counts %d correct of %d samples", a.Correct, b.N))
		}
		s, err = m.score(a, b.N)
		if err != nil {
			return p.because(err)
		}
		return nil
	})
	return s, err
}

// score is what a program's answer to an evaluation of n samples says.
func (m *Model) score(a message, n int) (sgd.Score, error) {
	s := sgd.Score{N: n}
	for _, of := range m.counts {
		mean, sent := a.Metrics[of.Name]
		switch {
		case of == sgd.Accuracy:
			s.Sums = append(s.Sums, float64(a.Correct))
			continue
		case of == sgd.Loss && a.Loss != nil:
			mean = *a.Loss
		case of == sgd.Loss || !sent: // not finite
			mean = math.NaN()
		}
		s.Sums = append(s.Sums, mean*float64(n))
	}
	for _, name := range slices.Sorted(maps.Keys(a.Metrics)) {
		if of, ok := sgd.FindMetric(m.counts, name); !ok || of == sgd.Accuracy || of == sgd.Loss {
			return s, fmt.Errorf("its evaluation has metric %q, which is no metric beside accuracy and loss in measures of its layout (docs/external.md)", name)
		}
	}
	return s, nil
}
