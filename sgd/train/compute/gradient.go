package compute

import (
	"context"
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// Desk is the memory of a pass, and what it has to say of it. It belongs to one goroutine at a
// time.
type Desk struct {
	Scratch sgd.Scratch
	Batches *Loader
	scan    *scan
	hearing                         // of the lengths of gradients
	Meet    func(sgd.Meeting) error // see sgd.Pass; nil: none
	part    []float32               // the gradient of a micro-batch behind the first
	spoilt  bool                    // the gradient had NaN or Inf, made zero
	Soft    bool                    // they are made zero, whatever the task says of them
}

// NewDesk makes the memory for passes of m over samples of src.
func NewDesk(m sgd.Model, src sgd.Source) *Desk {
	return &Desk{Scratch: m.NewScratch(), Batches: NewLoader(src), scan: newScan()}
}

// another is room for a further gradient of n values.
func (d *Desk) another(n int) []float32 {
	if len(d.part) != n {
		d.part = make([]float32, n)
	}
	return d.part
}

// Task is what all gradients of a job have in common.
type Task struct {
	Gate *Gate
	// Model is the model at a side of its pictures; 0: that of the data set.
	Model func(side int) sgd.Model
	// Batch is the samples of a worker's first step, Accumulate in how many micro-batches
	// they are computed, at least 1. Others are cut into micro-batches no larger, but for
	// one sample.
	Batch, Accumulate int
	// Zero makes NaN and Inf in a gradient zero. Otherwise they are an error.
	Zero bool
	// Between is called before each micro-batch of a step; an error breaks it off. nil: never.
	Between func(worker, step, done, of int) error
}

// Micros is in how many micro-batches samples are computed.
func (t *Task) Micros(samples sgd.Draw) int {
	n := (samples.N*t.Accumulate + t.Batch - 1) / t.Batch
	return max(1, min(n, samples.N))
}

// micro is micro-batch i of n: consecutive samples, as many in each but for one.
func micro(d sgd.Draw, i, n int) sgd.Draw {
	from, to := i*d.N/n, (i+1)*d.N/n
	return sgd.Draw{First: d.First + uint64(from), N: to - from, Side: d.Side}
}

// Wanted is the gradient that a worker wants in a step.
type Wanted struct {
	Params, Grad []float32 // both as long as the model
	Worker, Step int
	Samples      sgd.Draw
	Weight       float64  // factor on the gradient
	Next         sgd.Draw // samples that are wanted next, drawn meanwhile; of none (N is 0): nobody knows
	// Need is called before parameters of a span are read, Ready once its gradient is there;
	// nil: all are there, and together. See sgd.Pass.
	Need, Ready func(span int) error
}

// Gradient computes a gradient, micro-batch by micro-batch, and returns the mean loss. NaN and
// Inf are caught here, before anything is encoded: at the end, or span by span where spans
// leave as they get ready. bad says that there were some and that they were made zero.
func (d *Desk) Gradient(ctx context.Context, t *Task, g Wanted) (loss float64, bad bool, err error) {
	d.spoilt = false
	d.begin()
	l := t.Model(0).Layout()
	passes, spans, model := t.Micros(g.Samples), len(l.Spans), t.Model(g.Samples.Side)
	grad, leave := g.Grad, g.Ready // the closure holds these: all of g would be allocated for it
	for i := range passes {
		if t.Between != nil {
			if err := t.Between(g.Worker, g.Step, i, passes); err != nil {
				return 0, false, err
			}
		}
		m := micro(g.Samples, i, passes)
		b, err := d.Batches.Batch(m)
		if err != nil {
			return 0, false, fmt.Errorf("batch: %w", err)
		}
		first, last := i == 0, i == passes-1
		switch {
		case !t.Gate.own:
		case !last:
			d.Batches.Ahead(micro(g.Samples, i+1, passes))
		case g.Next.N > 0:
			d.Batches.Ahead(micro(g.Next, 0, t.Micros(g.Next)))
		}
		share, part := float64(m.N)/float64(g.Samples.N), g.Grad
		weighted := share * g.Weight
		if !first {
			part = d.another(len(g.Grad))
		}
		p := sgd.Pass{Params: g.Params, Grad: part, Meet: d.Meet, Scratch: d.Scratch, Threads: t.Gate.threads}
		if first {
			p.Need = g.Need
		}
		if last && leave != nil {
			p.Ready = func(span int) error {
				d.hear(l, part, m.N, span, span+1)
				gather(l, grad, part, weighted, first, span, span+1)
				if err := d.sift(t, l, grad, span, span+1); err != nil {
					return err
				}
				return leave(span)
			}
		}
		of, err := model.Grad(ctx, p, *b)
		if err != nil {
			return 0, false, err
		}
		if p.Ready == nil {
			d.hear(l, part, m.N, 0, spans)
			gather(l, g.Grad, part, weighted, first, 0, spans)
		}
		loss += float64(share * of)
	}
	if g.Ready == nil {
		if err := d.sift(t, l, g.Grad, 0, spans); err != nil {
			return 0, false, err
		}
	}
	if d.spoilt {
		return 0, true, nil
	}
	return loss, false, nil
}

// gather adds spans [lo, hi) of the gradient of a micro-batch, which has that share of
// the samples, to those before it; that of the first is in grad already. It goes span
// by span, so that the bits are the same whether spans leave one by one or together.
func gather(l sgd.Layout, grad, part []float32, share float64, first bool, lo, hi int) {
	if share == 1 {
		return
	}
	for span := lo; span < hi; span++ {
		if first {
			f32.Scale(l.View(grad, span), float32(share))
		} else {
			f32.Axpy(l.View(grad, span), float32(share), l.View(part, span))
		}
	}
}

// sift looks for NaN and Inf in spans [lo, hi) of a gradient. They are an error,
// or make all these spans zero.
func (d *Desk) sift(t *Task, l sgd.Layout, grad []float32, lo, hi int) error {
	part := grad[l.Spans[lo].Off:l.Spans[hi-1].End()]
	if d.scan.allFinite(part, t.Gate.Threads()) {
		return nil
	}
	if d.Soft || t.Zero {
		d.spoilt = true
		clear(part)
		return nil
	}
	for f32.AllFinite(l.View(grad, lo)) {
		lo++
	}
	return fmt.Errorf("%s %w; lower the learning rate, add clip, or set nonfinite=zero%s", l.Spans[lo].Name, ErrNotFinite, printed(t.Model(0)))
}

// ErrNotFinite is in the error of a run that a gradient with NaN or Inf ends.
var ErrNotFinite = errors.New("has NaN or Inf")

// printed is what an error about a gradient ends with: the last output of the program
// that computed it, if another did.
func printed(m sgd.Model) string {
	if p, ok := m.(sgd.Printing); ok {
		if text := p.Printed(); text != "" {
			return "; the program's last output:\n" + text
		}
	}
	return ""
}

// Descent follows a backward pass: left is the index of the lowest span from
// which on all are ready.
type Descent struct {
	ready []bool
	Left  int
}

// NewDescent is the beginning of a backward pass.
func NewDescent(spans int) *Descent { return &Descent{make([]bool, spans), spans} }

// Pass notes that the gradient of a span is there.
func (d *Descent) Pass(span int) {
	for d.ready[span] = true; d.Left > 0 && d.ready[d.Left-1]; {
		d.Left--
	}
}
