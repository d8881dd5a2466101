package compress

import (
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
)

var _ = Families.Add("ef21", "compressed differences to an estimate kept at both ends", EF21{In: topKDefault})

// EF21 sends compressed differences to an estimate that both ends keep.
//
//	c = C(g − h);  h = h + c at the sender and at the receiver;  C21(g) = h
//
// Richtárik et al. 2021 (arXiv 2106.05203), algorithm 2, from h = 0. Where
// feedback makes up for what was left out by adding it to a later gradient, the
// estimate here tracks the gradient itself. Nothing is sent twice, stale
// gradients leave no trace, and for a contraction ‖g − h‖ falls by √(1−δ) a step
// while g stands still. Without a server every rank keeps its own h and the sum
// of all, so the codec inside may take any road: what it sums is summed, in
// float32 or whole numbers. Halves, which are rounded on every hop, are refused:
// the sum of all would drift away from what the ranks keep (by a fifth of it in
// 3,000 steps of noise in bf16). A server keeps an h for each worker and block.
// Every payload must arrive, once and in order, or the two ends part. The codec
// is refused for parameters on their way down, which have a memory of their own,
// and beside a policy that drops pushes.
//
// Departures: h begins at 0, where the paper sends the first gradient in full.
//
// Tuning: ef21(topk(keep=0.01)); the rate needs the same δ as with feedback.
//
// Cost: that of the codec inside; four bytes of state an element at either end,
// eight in memory.
type EF21 struct {
	In        Family `doc:"the codec inside"`
	Unchecked bool   `doc:"permit a codec that is no contraction"`
}

// Inner lists the codec inside.
func (f EF21) Inner() []Family { return []Family{f.In} }

// Remembers is the codec inside.
func (f EF21) Remembers() Family { return f.In }

// Validate checks the options.
func (f EF21) Validate() error {
	if f.In == nil {
		return errors.New("want a codec inside")
	}
	return noReceiver("ef21", f.In)
}

// Claims are the inner codec's as far as they survive: sizes and linearity. What is
// left out is kept by the receiver, too, which has no more to be sent than the next
// difference.
func (f EF21) Claims(b Block) Claims {
	c := Feedback{In: f.In, Unchecked: f.Unchecked}.Claims(b)
	c.Remembers, c.HalfSums = false, false
	return c
}

func (f EF21) check(b Block) error {
	if err := f.Validate(); err != nil {
		return err
	}
	return checkContraction("ef21", f.In, b, f.Unchecked)
}

// New makes the sending end, whose state is the estimate. Its AddTo gives the
// difference that a payload carries; what it stands for takes a Receiver.
func (f EF21) New(b Block) (Codec, error) {
	if err := f.check(b); err != nil {
		return nil, err
	}
	in, err := f.In.New(b)
	if err != nil {
		return nil, err
	}
	return &ef21{estimate: estimate{d: b.Len()}, in: in, rank: b.Rank}, nil
}

// NewAround makes an exchange of the differences, whose state is the estimates of this
// rank and of the sum of all.
func (f EF21) NewAround(of Family, b Block, inside func(Family) (Exchange, Road, error)) (Exchange, error) {
	if _, own := of.(EF21); !own {
		return nil, nil
	}
	if err := f.check(b); err != nil {
		return nil, err
	}
	in, road, err := inside(f.In)
	if err != nil {
		return nil, err
	}
	if c, _ := ClaimsOf(f.In, b); c.HalfSums && road != RoadGather {
		return nil, f.rounded()
	}
	return &ef21Exchange{own: estimate{d: b.Len()}, all: estimate{d: b.Len()}, in: in, rounded: f.rounded}, nil
}

// rounded is the refusal of sums in two bytes.
func (f EF21) rounded() error {
	return fmt.Errorf("ef21 over %s: its sums travel in two bytes and are rounded on the way, so that the estimate of the sum would part from those of the ranks step by step; use values of f32, mode gather, or feedback", Spec(f.In))
}

// NewReceiver makes the receiving end for one sender.
func (f EF21) NewReceiver(b Block) (Receiver, error) {
	if err := f.check(b); err != nil {
		return nil, err
	}
	in, err := f.In.New(b)
	if err != nil {
		return nil, err
	}
	return &ef21Receiver{estimate: estimate{d: b.Len()}, in: in}, nil
}

// estimate is h and a difference to it. Both are allocated by the first use.
type estimate struct {
	d       int
	h, diff []float32
}

func (e *estimate) start() {
	if e.h == nil {
		e.h, e.diff = make([]float32, e.d), make([]float32, e.d)
	}
}

// away sets diff = g − h.
func (e *estimate) away(g []float32) error {
	checkLen(len(g), e.d)
	e.start()
	f32.AxpyTo(e.diff, g, -1, e.h)
	if !f32.AllFinite(e.diff) {
		return ErrNotFinite
	}
	return nil
}

// move sets h = h + diff, unless that overflows.
func (e *estimate) move() error {
	f32.Add(e.diff, e.h)
	if !f32.AllFinite(e.diff) {
		return errors.New("the estimate overflows")
	}
	e.h, e.diff = e.diff, e.h
	return nil
}

// AppendBinary appends h, nothing before the first step.
func (e *estimate) AppendBinary(b []byte) ([]byte, error) {
	m := residual{e: e.h}
	return m.appendTo(b), nil
}

// restore reads h and the state of in. On an error h is unchanged.
func (e *estimate) restore(b []byte, in any) error {
	m := residual{d: e.d}
	if err := m.restore(b, in); err != nil {
		return err
	}
	e.h, e.diff = m.e, m.p
	return nil
}

type ef21 struct {
	estimate
	in   Codec
	rank int
}

func (c *ef21) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	if err := c.away(g); err != nil {
		return dst, err
	}
	out, err := c.in.Append(dst, c.diff, s)
	if err != nil {
		return dst, err
	}
	clear(c.diff)
	if err := c.in.AddTo(c.diff, 1, out[len(dst):], From{Rank: c.rank, Step: s.N}); err != nil {
		return dst, err
	}
	if err := c.move(); err != nil {
		return dst, fmt.Errorf("%w: %w", ErrNotFinite, err)
	}
	return out, nil
}

func (c *ef21) AddTo(dst []float32, scale float32, p []byte, from From) error {
	return c.in.AddTo(dst, scale, p, from)
}

// AppendBinary appends the estimate and the inner codec's state.
func (c *ef21) AppendBinary(b []byte) ([]byte, error) {
	b, _ = c.estimate.AppendBinary(b)
	return appendState(b, c.in)
}

// UnmarshalBinary restores them.
func (c *ef21) UnmarshalBinary(b []byte) error { return c.restore(b, c.in) }

// ef21Receiver is the other end of one ef21.
type ef21Receiver struct {
	estimate
	in Codec
}

func (r *ef21Receiver) Receive(dst []float32, scale float32, p []byte, from From) error {
	checkLen(len(dst), r.d)
	r.start()
	clear(r.diff)
	if err := r.in.AddTo(r.diff, 1, p, from); err != nil {
		return err
	}
	if err := r.move(); err != nil {
		return Corruptf("%v", err)
	}
	f32.Axpy(dst, scale, r.h)
	return nil
}

// UnmarshalBinary restores the estimate; the codec inside only decodes here.
func (r *ef21Receiver) UnmarshalBinary(b []byte) error { return r.restore(b, nil) }

// ef21Exchange is all ends in one: this rank's estimate, and the sum of all.
type ef21Exchange struct {
	own, all estimate
	in       Exchange
	rounded  func() error // the error of a codec inside that asks for sums it has not claimed
}

func (x *ef21Exchange) Begin(g []float32, s Step) (Op, error) {
	if err := x.own.away(g); err != nil {
		return Op{}, err
	}
	op, err := x.in.Begin(x.own.diff, s)
	return x.after(op, err)
}

func (x *ef21Exchange) Next(done Op) (Op, error) {
	op, err := x.in.Next(done)
	return x.after(op, err)
}

// after moves both estimates once the inner exchange is done.
func (x *ef21Exchange) after(op Op, err error) (Op, error) {
	if err == nil && op.Kind == OpSum && len(op.Floats) > 0 && (op.Wire == F16 || op.Wire == BF16) {
		return Op{}, x.rounded()
	}
	if err != nil || op.Kind != OpNone {
		return op, err
	}
	x.all.start()
	clear(x.own.diff)
	clear(x.all.diff)
	if err := x.in.Credited(x.own.diff, 1); err != nil {
		return op, err
	}
	if err := x.in.Output(x.all.diff, 1); err != nil {
		return op, err
	}
	if err := errors.Join(x.own.move(), x.all.move()); err != nil {
		return op, fmt.Errorf("%w: %w", ErrNotFinite, err)
	}
	return op, nil
}

func (x *ef21Exchange) Output(dst []float32, scale float32) error {
	f32.Axpy(dst, scale, x.all.h)
	return nil
}

func (x *ef21Exchange) Credited(dst []float32, scale float32) error {
	f32.Axpy(dst, scale, x.own.h)
	return nil
}

// AppendBinary appends the sum, the rank's estimate and the inner exchange's
// state.
func (x *ef21Exchange) AppendBinary(b []byte) ([]byte, error) {
	b, _ = x.all.AppendBinary(b)
	b, _ = x.own.AppendBinary(b)
	return appendState(b, x.in)
}

// UnmarshalBinary restores them.
func (x *ef21Exchange) UnmarshalBinary(b []byte) error {
	n, err := residualLen(b, x.all.d)
	if err != nil {
		return err
	}
	all := estimate{d: x.all.d}
	if err := all.restore(b[:n], nil); err != nil {
		return err
	}
	if err := x.own.restore(b[n:], x.in); err != nil {
		return err
	}
	x.all = all
	return nil
}
