package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// Options change how a net computes, not what it is: the layout, the initial
// weights and the random draws stay the same. The zero value is what New builds.
type Options struct {
	Precision Precision
	// LossScale multiplies the loss of a training pass, so that small gradients
	// of activations do not vanish in float16; the gradient Grad returns is
	// divided by it, in float32. 0 is 1, except for Float16: DefaultLossScale.
	// With Float16 a scale that made the gradient overflow is halved and the
	// backward pass repeated, as often as that helps. See Precision.
	LossScale float64
	// NoWinograd computes every convolution as plain sums. By default 3×3 and 5×5
	// windows at stride 1 are done by Winograd's algorithm where that is faster;
	// its rounding errors are two to three times those of plain sums, in gradients
	// of weights up to five times (see internal/conv).
	NoWinograd bool
}

// DefaultLossScale is that of Float16.
const DefaultLossScale = 1024

// With returns the same net computing in another way. n is not changed; a
// Scratch of one does not fit the other.
func (n *Net) With(o Options) (*Net, error) {
	if !(o.LossScale >= 0 && o.LossScale <= 1<<64) {
		return nil, fmt.Errorf("nn: the loss scale must be from 0 to 2^64, not %g", o.LossScale)
	}
	if o.Precision > Float16 {
		return nil, fmt.Errorf("nn: no precision %d", o.Precision)
	}
	if o.LossScale == 0 {
		o.LossScale = 1
		if o.Precision == Float16 {
			o.LossScale = DefaultLossScale
		}
	}
	other, err := build(n.in, n.smoothing, n.layers, o)
	if err != nil {
		return nil, err
	}
	other.modules, other.forms, other.first, other.looks = n.modules, n.forms, n.first, n.looks
	return other, nil
}

// Precision is how a pass stores what it computes, and what its products read. Sums are
// float32 in any case, as are parameters, gradients, biases, and the scales and
// statistics of normalisations.
//
// The others are the mixed-precision training of Micikevicius et al. 2018,
// section 3: activations kept for the backward pass, and gradients of activations
// between the stages of a net, are stored in two bytes, rounded to the nearest
// value; weights are rounded likewise on their way into products, from a master
// copy in float32. What lives only in cache, within a stage, is not rounded. The
// paper skips a step whose gradient overflowed and adapts the scale over many
// steps; here a step repeats its backward pass with half the scale, from
// Options.LossScale on each time, so that no step is lost and none depends on
// those before it.
//
// BFloat16 rounds more: both operands of the products of dense layers, and of
// convolutions where that is fast, so gradients within a stage too, as autocast of
// PyTorch does. Such a product takes half the time where the processor has AVX512_BF16,
// and has the same bits elsewhere (see internal/f32.GemmRounded, and newRounded of
// internal/conv for which convolutions). Windows of 3×3 and 5×5 by Winograd's algorithm
// are about as fast in float32, or faster, and stay so.
type Precision uint8

const (
	Float32  Precision = iota // four bytes
	BFloat16                  // two, with the range of float32 and 8 bits of precision
	Float16                   // two, up to 65504, with 11 bits of precision
)

var precisions = [...]string{"float32", "bfloat16", "float16"}

func (p Precision) String() string {
	if int(p) < len(precisions) {
		return precisions[p]
	}
	return fmt.Sprintf("Precision(%d)", uint8(p))
}

// ParsePrecision is the inverse of String.
func ParsePrecision(s string) (Precision, error) {
	for p, name := range precisions {
		if s == name {
			return Precision(p), nil
		}
	}
	return 0, fmt.Errorf("nn: no precision %q; there are float32, bfloat16 and float16", s)
}

// kept is what a pass keeps from stage to stage: float32 values or, where
// the run is half, two bytes each.
type kept struct {
	full []float32
	half []byte
}

func (m *kept) grow(values int, half bool) {
	if half {
		grow(&m.half, 2*values)
	} else {
		grow(&m.full, values)
	}
}

// halves converts to and from two bytes a value.
type halves struct {
	encode func([]byte, []float32)
	decode func([]float32, []byte)
	round  func([]float32)
}

// halvesOf returns nil for Float32.
func halvesOf(p Precision) *halves {
	switch p {
	case BFloat16:
		return &halves{f32.EncodeBF16, f32.DecodeBF16, f32.RoundBF16}
	case Float16:
		return &halves{f32.EncodeFP16, f32.DecodeFP16, f32.RoundFP16}
	}
	return nil
}

// buffer names the float32 copies a goroutine has of the halves it works on.
type buffer int

const (
	bufX buffer = iota
	bufAdd
	bufY
	bufDY
	bufDX
	buffers
)

// keep stores v, what a node has written to place at of a microbatch, if there it is
// kept in halves.
func (r *run) keep(p *microbatch, at place, of *kept, v []float32) {
	if r.half != nil && !at.local {
		lo := at.off*r.n + p.lo*at.size
		r.half.encode(of.half[2*lo:2*(lo+len(v))], v)
	}
}

func (r *run) keepValue(p *microbatch, v int, x []float32)    { r.keep(p, r.mem.values[v], &r.acts, x) }
func (r *run) keepGradient(p *microbatch, g int, x []float32) { r.keep(p, r.grads[g], &r.slopes, x) }

// keepBack stores what node n has left behind in the backward pass.
func (r *run) keepBack(p *microbatch, n int) {
	w, t := &r.wires[n], r.nodes[n].traits()
	if t.spoils || t.passes || w.copy >= 0 {
		r.keepGradient(p, w.left(), p.dy)
	}
	if w.dx >= 0 {
		r.keepGradient(p, w.dx, p.dx)
	}
}

// left is the gradient dy as the node leaves it.
func (w *wiring) left() int {
	if w.copy >= 0 {
		return w.copy
	}
	return w.dy
}

// unfold decodes what node n reads of the whole batch at the end of the
// backward pass, or shows it as it is kept.
func (r *run) unfold(p *microbatch, n int, t traits) {
	w := &r.wires[n]
	if t.halvesXDY {
		if p.xHalf, p.dyHalf = r.halfValue(p, w.x), r.halfGradient(p, w.left()); w.x == 0 {
			p.x = r.value(p, 0, bufX, true)
		}
		return
	}
	all := microbatch{hi: r.n, slot: noSlot}
	decode := func(buf *[]float32, at place, of *kept) []float32 {
		if at.local {
			return nil
		}
		grow(buf, r.n*at.size)
		r.unfolding.to, r.unfolding.from = *buf, of.half[2*at.off*r.n:]
		r.share((len(*buf)+unfoldFloats-1)/unfoldFloats, len(*buf), r.unfoldPiece)
		return *buf
	}
	switch {
	case w.x == 0:
		p.x = r.value(&all, 0, bufX, true)
	case w.x > 0:
		p.x = decode(&r.wholeX, r.mem.values[w.x], &r.acts)
	}
	p.dy = decode(&r.wholeDY, r.grads[w.left()], &r.slopes)
}

// unfoldFloats is how much of a batch a goroutine decodes at a time.
const unfoldFloats = 1 << 15

func (r *run) doUnfold(i, _ int) {
	lo := i * unfoldFloats
	hi := min(lo+unfoldFloats, len(r.unfolding.to))
	r.half.decode(r.unfolding.to[lo:hi], r.unfolding.from[2*lo:2*hi])
}

// roundWeights rounds the weights of a stage on their way into products, where these do
// not.
func (r *run) roundWeights(s *stage) {
	if r.half == nil {
		return
	}
	grow(&r.rounded, len(r.params))
	for n := s.from; n < s.to; n++ {
		if r.nodes[n].traits().rounds {
			continue
		}
		for _, i := range r.nodes[n].spans {
			if role := r.layout.Spans[i].Role; role.IsWeight() || role == sgd.Buffer { // frozen weights are buffers
				w := r.layout.View(r.rounded, i)
				copy(w, r.layout.View(r.params, i))
				r.half.round(w)
			}
		}
	}
}

// weights is the parameters of a span as products read them.
func (r *run) weights(span int) []float32 {
	if r.half != nil {
		return r.layout.View(r.rounded, span)
	}
	return r.param(span)
}

// repeats says whether a gradient that overflowed is tried again with a
// smaller scale.
func (o Options) repeats() bool { return o.Precision == Float16 && o.LossScale > 1 }

// unscale divides the gradient by the loss scale, and says whether it is
// finite. Buffers were not scaled.
func (r *run) unscale(scale float64) (finite bool) {
	finite = true
	for i, s := range r.layout.Spans {
		if s.Role == sgd.Buffer {
			continue
		}
		g := r.slope(i)
		finite = finite && f32.AllFinite(g)
		if scale != 1 {
			f32.Scale(g, float32(1/scale))
		}
	}
	return finite
}
