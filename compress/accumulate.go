package compress

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var _ = Families.Add("accumulate", "the sum of several steps' gradients in the last one of them",
	Accumulate{In: Feedback{In: topKDefault, Decay: 1}, Every: 4})

// Accumulate adds gradients up and sends their sum every few steps.
//
//	a = a + g;  every n-th time send C(a) and set a = 0, else nothing
//
// Gradients of n steps at nearly the same parameters are one of a batch n times
// as large. Lin et al. 2018 (DGC, arXiv 1712.01887) call it local gradient
// accumulation, and it is what strom and top-k do element by element. Nothing is
// left out but what the codec inside leaves out. What is counted is encodings,
// so a worker that encodes every other step (mode downpour) sends every n-th of
// those. Steps in between cost nothing (a byte a block behind a server), and
// move parameters by momentum and decay alone. feedback belongs inside: outside
// it would give back what is only being kept.
//
// Tuning: accumulate(feedback(topk),every=4), and a rate as for a batch that is
// larger and a gradient that is not a mean: what comes is the sum of n.
//
// Cost: that of the codec inside, divided by n; four bytes of state an element,
// eight in memory.
//
// Payload: that of the codec inside, or none.
type Accumulate struct {
	In    Family `doc:"the codec inside"`
	Every int    `spec:",show" doc:"steps, at least 1"`
}

// Inner lists the codec inside.
func (f Accumulate) Inner() []Family { return []Family{f.In} }

// Telescopes: no, as the codec inside may leave out what nobody keeps.
func (f Accumulate) Telescopes() bool { return false }

// Validate checks the options.
func (f Accumulate) Validate() error {
	if f.In == nil {
		return errors.New("want a codec inside")
	}
	if f.Every < 1 {
		return fmt.Errorf(`option "every": want at least 1 step, not %d`, f.Every)
	}
	return noReceiver("accumulate", f.In)
}

// Claims are the inner codec's as far as they survive: bounds on sizes, and
// linearity.
func (f Accumulate) Claims(b Block) Claims {
	in, _ := ClaimsOf(f.In, b)
	return Claims{
		Size: in.Size, Linear: in.Linear, Stateful: true, Allocs: in.Allocs, Shaped: in.Shaped,
		Rounds: in.Rounds, Asked: in.Asked, AskedBound: true, HalfSums: in.HalfSums,
		Remembers: f.Every > 1 || in.Remembers, WarmsUp: in.WarmsUp,
	}
}

// NewAround makes an exchange whose state is the sum, around that of the codec inside.
func (f Accumulate) NewAround(of Family, b Block, inside func(Family) (Exchange, Road, error)) (Exchange, error) {
	if _, own := of.(Accumulate); !own {
		return nil, nil
	}
	in, _, err := inside(f.In)
	if err != nil {
		return nil, err
	}
	return &accumulateExchange{accumulator: f.accumulator(b), in: in}, nil
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
	return &accumulate{accumulator: f.accumulator(b), in: in}, nil
}

func (f Accumulate) accumulator(b Block) accumulator {
	return accumulator{sum: residual{d: b.Len(), decay: 1}, every: f.Every}
}

// accumulator is the sum of gradients, kept as a residual, and how many of them
// it is.
type accumulator struct {
	sum   residual
	n     int
	every int
}

// due reports whether the gradient just added is the last of its group.
func (a *accumulator) due() bool { return a.n+1 == a.every }

// settle takes the sum as it is now; sent: it is empty, and a new group begins.
func (a *accumulator) settle(sent bool) {
	a.n++
	if sent {
		clear(a.sum.p)
		a.n = 0
	}
	a.sum.settle()
}

// appendTo appends the count, the sum and the state of in.
func (a *accumulator) appendTo(b []byte, in any) ([]byte, error) {
	return appendState(a.sum.appendTo(binary.LittleEndian.AppendUint32(b, uint32(a.n))), in)
}

// restore is the reverse.
func (a *accumulator) restore(b []byte, in any) error {
	if len(b) < 4 {
		return Corruptf("state of %d bytes", len(b))
	}
	n := binary.LittleEndian.Uint32(b)
	if int64(n) >= int64(a.every) {
		return Corruptf("%d gradients of %d", n, a.every)
	}
	if err := a.sum.restore(b[4:], in); err != nil {
		return err
	}
	a.n = int(n)
	return nil
}

type accumulate struct {
	accumulator
	in Codec
}

// ResidualNorm is that of the sum and of what the codec inside keeps.
func (c *accumulate) ResidualNorm() float64 { return together(&c.sum, c.in) }

// AddResidual adds scale times the sum and what the codec inside keeps to dst.
func (c *accumulate) AddResidual(dst []float32, scale float32) {
	c.sum.AddResidual(dst, scale)
	addResidual(dst, scale, c.in)
}

// Owe adds to the sum.
func (c *accumulate) Owe(e []float32) { c.sum.Owe(e) }

func (c *accumulate) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	if err := c.sum.add(g); err != nil {
		return dst, err
	}
	if !c.due() {
		c.settle(false)
		return dst, nil
	}
	out, err := c.in.Append(dst, c.sum.p, s)
	if err != nil {
		return dst, err
	}
	c.settle(true)
	return out, nil
}

// AddTo: an empty payload stands for nothing, whatever the codec inside.
func (c *accumulate) AddTo(dst []float32, scale float32, p []byte, from From) error {
	checkLen(len(dst), c.sum.d)
	if len(p) == 0 {
		return nil
	}
	return c.in.AddTo(dst, scale, p, from)
}

// AppendBinary appends the sum and the inner codec's state.
func (c *accumulate) AppendBinary(b []byte) ([]byte, error) {
	return c.appendTo(b, c.in)
}

// UnmarshalBinary restores them.
func (c *accumulate) UnmarshalBinary(b []byte) error { return c.restore(b, c.in) }

// accumulateExchange is the same around an exchange. In between it asks for a
// sum of nothing, which keeps the ranks in step.
type accumulateExchange struct {
	accumulator
	in   Exchange
	idle bool
}

// ResidualNorm is that of the sum and of what the exchange inside keeps.
func (x *accumulateExchange) ResidualNorm() float64 { return together(&x.sum, x.in) }

// AddResidual adds scale times the sum and what the exchange inside keeps to dst.
func (x *accumulateExchange) AddResidual(dst []float32, scale float32) {
	x.sum.AddResidual(dst, scale)
	addResidual(dst, scale, x.in)
}

// Owe adds to the sum.
func (x *accumulateExchange) Owe(e []float32) { x.sum.Owe(e) }

func (x *accumulateExchange) Begin(g []float32, s Step) (Op, error) {
	if err := x.sum.add(g); err != nil {
		return Op{}, err
	}
	if x.idle = !x.due(); x.idle {
		x.settle(false)
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
		x.settle(true)
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
	return x.appendTo(b, x.in)
}

// UnmarshalBinary restores them.
func (x *accumulateExchange) UnmarshalBinary(b []byte) error { return x.restore(b, x.in) }
