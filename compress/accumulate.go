package compress

import (
	"errors"
	"fmt"
)

// accumulate adds gradients up and sends their sum every few steps.
//
//	a = a + g;  in every n-th step send C(a) and set a = 0, else nothing
//
// Gradients of n steps at nearly the same parameters are one of a batch n times
// as large; Lin et al. 2018 (DGC, arXiv 1712.01887) call it local gradient
// accumulation, and it is what strom and top-k do element by element. Nothing is
// left out but what the codec inside leaves out.
// Steps in between cost nothing on any road, and move parameters by momentum and
// decay alone. feedback belongs inside: outside it would give back what is only
// being kept.
// Tuning: accumulate(feedback(topk),every=4), and a rate as for a batch that is
// larger and a gradient that is not a mean: what comes is the sum of n.
// Cost: that of the codec inside, divided by n; four bytes of state an element.
// Payload: that of the codec inside, or none.

var _ = Families.Add("accumulate", "the sum of several steps' gradients in the last one of them",
	Accumulate{In: Feedback{In: topKDefault, Decay: 1}, Every: 4})

// Accumulate wraps a codec that is used every few steps.
type Accumulate struct {
	In    Family `doc:"the codec inside"`
	Every int    `spec:",show" doc:"steps, at least 1"`
}

// Inner lists the codec inside.
func (f Accumulate) Inner() []Family { return []Family{f.In} }

// Validate checks the options.
func (f Accumulate) Validate() error {
	if f.In == nil {
		return errors.New("want a codec inside")
	}
	if f.Every < 1 {
		return fmt.Errorf(`option "every": want a number of steps, not %d`, f.Every)
	}
	return noReceiver("accumulate", f.In)
}

// Claims are the inner codec's as far as they survive: bounds on sizes, and
// linearity.
func (f Accumulate) Claims(b Block) Claims {
	in, _ := ClaimsOf(f.In, b)
	return Claims{
		Size: in.Size, Linear: in.Linear, Stateful: true, Allocs: in.Allocs,
		Rounds: in.Rounds, Asked: in.Asked, AskedBound: true,
	}
}

// New makes a codec whose state is the sum.
func (f Accumulate) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	in, err := f.In.New(b)
	if err != nil {
		return nil, err
	}
	return &accumulate{sum: f.memory(b), in: in, every: f.Every}, nil
}

// memory is the sum as a residual.
func (f Accumulate) memory(b Block) memory { return memory{d: b.Len(), decay: 1} }

// due reports whether a step sends.
func due(step, every int) bool { return step%every == every-1 }

type accumulate struct {
	sum   memory
	in    Codec
	every int
}

func (c *accumulate) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	if err := c.sum.add(g); err != nil {
		return dst, err
	}
	if due(s.N, c.every) {
		out, err := c.in.Append(dst, c.sum.p, s)
		if err != nil {
			return dst, err
		}
		clear(c.sum.p)
		dst = out
	}
	c.sum.settle()
	return dst, nil
}

// AddTo: steps in between have no payload, and it stands for nothing.
func (c *accumulate) AddTo(dst []float32, scale float32, p []byte, from From) error {
	checkLen(len(dst), c.sum.d)
	if !due(from.Step, c.every) {
		if len(p) > 0 {
			return Corruptf("%d bytes in a step that sends none", len(p))
		}
		return nil
	}
	return c.in.AddTo(dst, scale, p, from)
}

// AppendBinary appends the sum and the inner codec's state.
func (c *accumulate) AppendBinary(b []byte) ([]byte, error) {
	return appendState(c.sum.appendTo(b), c.in)
}

// UnmarshalBinary restores them.
func (c *accumulate) UnmarshalBinary(b []byte) error { return c.sum.restore(b, c.in) }

// accumulateExchange is the same around an exchange. In between it asks for a
// sum of nothing, which keeps the ranks in step.
type accumulateExchange struct {
	sum   memory
	in    Exchange
	every int
	idle  bool
}

func (x *accumulateExchange) Begin(g []float32, s Step) (Op, error) {
	if err := x.sum.add(g); err != nil {
		return Op{}, err
	}
	if x.idle = !due(s.N, x.every); x.idle {
		x.sum.settle()
		return Op{Kind: OpSum}, nil
	}
	op, err := x.in.Begin(x.sum.p, s)
	return x.after(op, err)
}

func (x *accumulateExchange) Next(done Op) (Op, error) {
	if x.idle {
		return Op{}, nil
	}
	op, err := x.in.Next(done)
	return x.after(op, err)
}

// after empties the sum once the inner exchange is done.
func (x *accumulateExchange) after(op Op, err error) (Op, error) {
	if err == nil && op.Kind == OpNone {
		clear(x.sum.p)
		x.sum.settle()
	}
	return op, err
}

func (x *accumulateExchange) Output(dst []float32, scale float32) error {
	if x.idle {
		return nil
	}
	return x.in.Output(dst, scale)
}

func (x *accumulateExchange) Credited(dst []float32, scale float32) error {
	if x.idle {
		return nil
	}
	return x.in.Credited(dst, scale)
}

// AppendBinary appends the sum and the inner exchange's state.
func (x *accumulateExchange) AppendBinary(b []byte) ([]byte, error) {
	return appendState(x.sum.appendTo(b), x.in)
}

// UnmarshalBinary restores them.
func (x *accumulateExchange) UnmarshalBinary(b []byte) error { return x.sum.restore(b, x.in) }
