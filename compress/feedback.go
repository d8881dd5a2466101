package compress

import (
	"errors"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/f32"
)

var _ = Families.Add("feedback", "error feedback around a codec", Feedback{In: topKDefault, Decay: 1})

// Feedback remembers what the inner codec leaves out and adds it next time.
//
//	p = g + decay·e;  send C(p);  e = p − (what the sum was credited with)
//
// Seide et al. 2014; Stich et al. 2018 (arXiv 1809.07599), algorithm 1;
// Karimireddy et al. 2019 (arXiv 1901.09847), algorithm 1. With decay=1 the
// credited contributions and the residual telescope to the sum of all inputs.
// decay < 1 is the leaky memory of DeMo- and SparseLoCo-like methods. With
// lowpass=l the residual is averaged, e = l·e + (1−l)·(p − credited): the filter
// of ScaleCom (arXiv 2104.11125, with β = 1−l) and the moving average of LoCo
// (arXiv 2407.04480).
//
// Departures: a codec that claims neither a contraction nor a bound on its
// absolute error is refused unless unchecked=true, because the residual then
// need not stay bounded. QSGD with whole-layer norms and memory scored 0 % in
// GRACE's own data. What is sent counts as arrived: a push that a policy drops
// (backup, dropslowest, bounded) takes with it what it made up for of earlier
// gradients.
//
// Tuning: feedback lengthens the delay by about 1/δ: scale the rate accordingly.
//
// Cost: four bytes of state an element, eight in memory; one decoding of one's
// own payload.
type Feedback struct {
	In        Family  `doc:"the codec inside"`
	Decay     float64 `doc:"factor on the residual, in (0, 1]"`
	LowPass   float64 `spec:"lowpass" doc:"share of the old residual in the new one, in [0, 1)"`
	Unchecked bool    `doc:"permit a codec that is no contraction"`
}

// Residualer is implemented by codecs and exchanges of families that remember what they
// leave out (Claims.Remembers).
type Residualer interface {
	// ResidualNorm is ‖e‖₂ of what is still to be sent, before the first step 0. Where
	// one memory is around others it is the square root of the sum of their squares.
	ResidualNorm() float64
}

// Owing is a Residualer whose residual can be read and added to, so that ranks of another
// number can take it over. Where one memory is around others, theirs are part of it.
type Owing interface {
	Residualer
	// AddResidual adds scale·e to dst, which has the block's length.
	AddResidual(dst []float32, scale float32)
	// Owe adds e, of the block's length and finite, to what is still to be sent.
	Owe(e []float32)
}

// addResidual adds scale·e of what v owes to dst.
func addResidual(dst []float32, scale float32, v any) {
	if o, ok := v.(Owing); ok {
		o.AddResidual(dst, scale)
	}
}

// owe adds e to what v owes.
func owe(v any, e []float32) {
	if o, ok := v.(Owing); ok {
		o.Owe(e)
	}
}

// ResidualNorm is that of a codec or an exchange, 0 if it keeps nothing to be sent.
func ResidualNorm(of any) float64 {
	if r, ok := of.(Residualer); ok {
		return r.ResidualNorm()
	}
	return 0
}

// together is the norm of what several keep.
func together(of ...any) float64 {
	sum := 0.0
	for _, v := range of {
		n := ResidualNorm(v)
		sum += float64(n * n)
	}
	return math.Sqrt(sum)
}

// Compensator is implemented by families that make up for what the codec inside
// leaves out.
type Compensator interface {
	// Remembers is that codec.
	Remembers() Family
}

// Remembers is the codec inside.
func (f Feedback) Remembers() Family { return f.In }

// Telescoper is implemented by families with feedback that may be told to
// forget or to change what they keep.
type Telescoper interface {
	// Telescopes reports whether contributions and residual add up to the
	// inputs.
	Telescopes() bool
}

// Telescopes: without decay and filter.
func (f Feedback) Telescopes() bool { return f.Decay == 1 && f.LowPass == 0 }

// Inner lists the codec inside.
func (f Feedback) Inner() []Family { return []Family{f.In} }

// Validate checks the options.
func (f Feedback) Validate() error {
	if f.In == nil {
		return errors.New("want a codec inside")
	}
	if !(f.Decay > 0 && f.Decay <= 1) {
		return fmt.Errorf(`option "decay": want a factor in (0, 1], 1 for plain feedback, not %v`, f.Decay)
	}
	if !(f.LowPass >= 0 && f.LowPass < 1) {
		return fmt.Errorf(`option "lowpass": want a share in [0, 1), not %v`, f.LowPass)
	}
	return noReceiver("feedback", f.In)
}

// Claims are the inner codec's as far as they survive: sizes and linearity. What loses
// nothing leaves nothing to remember.
func (f Feedback) Claims(b Block) Claims {
	in, _ := ClaimsOf(f.In, b)
	return Claims{
		Size: in.Size, Exact: in.Exact, Linear: in.Linear, Raw: in.Raw, Shaped: in.Shaped, Stateful: true, Allocs: 2 * in.Allocs, // its own payload is decoded too
		Rounds: in.Rounds, Asked: in.Asked, AskedBound: in.AskedBound, HalfSums: in.HalfSums,
		Remembers: !in.Lossless, Unchecked: f.Unchecked, WarmsUp: in.WarmsUp,
	}
}

// check is the refusal at construction.
func (f Feedback) check(b Block) error {
	if err := f.Validate(); err != nil {
		return err
	}
	return checkContraction("feedback", f.In, b, f.Unchecked)
}

// checkContraction refuses a memory over a codec that bounds no error.
func checkContraction(memory string, in Family, b Block, unchecked bool) error {
	if err := validate(in); err != nil {
		return err
	}
	if c, _ := ClaimsOf(in, b); c.Delta <= 0 && c.Absolute <= 0 && !unchecked {
		way := ""
		if _, err := (Contraction{In: in}).omega(b); err == nil {
			way = fmt.Sprintf("put contraction(%s) there, ", Spec(in))
		}
		return fmt.Errorf("%s over %s, which is no contraction on %q (%d elements): the residual may grow "+
			"without bound; %schoose another codec or state unchecked=true", memory, Spec(in), b.Name, b.Len(), way)
	}
	return nil
}

// New makes a codec whose state is the residual.
func (f Feedback) New(b Block) (Codec, error) {
	if err := f.check(b); err != nil {
		return nil, err
	}
	in, err := f.In.New(b)
	if err != nil {
		return nil, err
	}
	return &feedback{residual: f.residual(b), in: in, rank: b.Rank}, nil
}

// NewAround makes an exchange whose state is the residual, around that of the codec
// inside.
func (f Feedback) NewAround(of Family, b Block, inside func(Family) (Exchange, Road, error)) (Exchange, error) {
	if _, own := of.(Feedback); !own {
		return nil, nil
	}
	if err := f.check(b); err != nil {
		return nil, err
	}
	in, _, err := inside(f.In)
	if err != nil {
		return nil, err
	}
	return &feedbackExchange{residual: f.residual(b), in: in}, nil
}

func (f Feedback) residual(b Block) residual {
	return residual{d: b.Len(), decay: float32(f.Decay), lowpass: float32(f.LowPass)}
}

type feedback struct {
	residual
	in   Codec
	rank int
}

func (c *feedback) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	if err := c.add(g); err != nil {
		return dst, err
	}
	out, err := c.in.Append(dst, c.p, s)
	if err != nil {
		return dst, err
	}
	if err := c.in.AddTo(c.p, -1, out[len(dst):], From{Rank: c.rank, Step: s.N}); err != nil {
		return dst, err
	}
	c.settle()
	return out, nil
}

func (c *feedback) AddTo(dst []float32, scale float32, p []byte, from From) error {
	return c.in.AddTo(dst, scale, p, from)
}

// AppendBinary appends the residual and the inner codec's state.
func (c *feedback) AppendBinary(b []byte) ([]byte, error) { return appendState(c.appendTo(b), c.in) }

// UnmarshalBinary restores them.
func (c *feedback) UnmarshalBinary(b []byte) error { return c.restore(b, c.in) }

// feedbackExchange is the same around an exchange, so that feedback over a
// codec that sums is summed too.
type feedbackExchange struct {
	residual
	in Exchange
}

func (x *feedbackExchange) Begin(g []float32, s Step) (Op, error) {
	if err := x.add(g); err != nil {
		return Op{}, err
	}
	op, err := x.in.Begin(x.p, s)
	return x.after(op, err)
}

func (x *feedbackExchange) Next(done Op) (Op, error) {
	op, err := x.in.Next(done)
	return x.after(op, err)
}

// after settles the residual once the inner exchange is done.
func (x *feedbackExchange) after(op Op, err error) (Op, error) {
	if err != nil || op.Kind != OpNone {
		return op, err
	}
	if err := x.in.Credited(x.p, -1); err != nil {
		return op, err
	}
	x.settle()
	return op, nil
}

func (x *feedbackExchange) Output(dst []float32, scale float32) error { return x.in.Output(dst, scale) }

func (x *feedbackExchange) Credited(dst []float32, scale float32) error {
	return x.in.Credited(dst, scale)
}

// AppendBinary appends the residual and the inner exchange's state.
func (x *feedbackExchange) AppendBinary(b []byte) ([]byte, error) {
	return appendState(x.appendTo(b), x.in)
}

// UnmarshalBinary restores them.
func (x *feedbackExchange) UnmarshalBinary(b []byte) error { return x.restore(b, x.in) }

// residual is what is left, e, and the compensated gradient p. e is allocated by the
// first encoding: an instance that only decodes costs nothing.
type residual struct {
	d              int
	decay, lowpass float32
	e, p           []float32
}

// strip is how many elements are looked at while they are near.
const strip = 4096

// add makes p = g + decay·e and leaves e alone.
func (m *residual) add(g []float32) error {
	m.start(g)
	for lo := 0; lo < m.d; lo += strip {
		if !f32.AllFinite(m.mix(g, lo, min(lo+strip, m.d))) {
			return ErrNotFinite
		}
	}
	return nil
}

// start makes room.
func (m *residual) start(g []float32) {
	checkLen(len(g), m.d)
	m.room()
}

func (m *residual) room() {
	if m.e == nil {
		m.e, m.p = make([]float32, m.d), make([]float32, m.d)
	}
}

// mix makes p = g + decay·e from lo to hi, and returns that part.
func (m *residual) mix(g []float32, lo, hi int) []float32 {
	p := m.p[lo:hi]
	f32.AxpyTo(p, g[lo:hi], m.decay, m.e[lo:hi])
	return p
}

// settle takes p, from which the contribution has been taken off, into the new
// residual.
func (m *residual) settle() {
	if m.lowpass > 0 {
		f32.Scale(m.p, 1-m.lowpass)
		f32.Axpy(m.p, m.lowpass, m.e)
	}
	m.e, m.p = m.p, m.e
}

// ResidualNorm is the Euclidean norm of the residual.
func (m *residual) ResidualNorm() float64 { return norm(m.e) }

// AddResidual adds scale·e to dst.
func (m *residual) AddResidual(dst []float32, scale float32) {
	checkLen(len(dst), m.d)
	if m.e != nil {
		f32.Axpy(dst, scale, m.e)
	}
}

// Owe adds to the residual.
func (m *residual) Owe(e []float32) {
	m.start(e)
	f32.Add(m.e, e)
}
