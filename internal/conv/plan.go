package conv

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
)

// Plan knows how to do the three products of one geometry. It is immutable and
// safe for concurrent use.
type Plan struct {
	g        Geom
	rowwise  bool // forward: a tap is a whole row of the window, read from a padded image
	forward  *direct
	backward *direct
	weights  *weights
	// Where they are worth it they do the work of the plain ones, which are nil.
	fastForward, fastBackward *winograd
	fastWeights               *slopes
	pointwise                 *pointwise
	rounded                   *rounded // what it has goes before all others
}

// fewChannels is where a tap of a single pixel is too short to be worth a
// segment of its own.
const fewChannels = 8

// New makes a plan. It panics if the geometry is not valid.
func New(g Geom, o Options) *Plan {
	if err := g.Validate(); err != nil {
		panic(err)
	}
	p := &Plan{g: g, rowwise: g.In < fewChannels && g.Kernel > 1, rounded: new(rounded)}
	if g.Stride == 1 && !o.NoWinograd {
		p.fastForward = newWinograd(g.Kernel, g.H, g.W, g.In, g.Out, g.Pad)
		p.fastBackward = newWinograd(g.Kernel, g.OutH(), g.OutW(), g.Out, g.In, g.Kernel-1-g.Pad)
	}
	if o.Rounded {
		p.rounded = newRounded(g, p.fastForward != nil)
	}
	switch {
	case p.fastForward != nil:
	case p.rowwise:
		p.forward = forwardRows(g)
	default:
		p.forward = forwardTaps(g)
	}
	if p.fastBackward == nil {
		p.backward = backwardTaps(g)
	}
	if p.fastWeights = newSlopes(p.fastForward); p.fastWeights == nil {
		p.weights = newWeights(g)
		p.pointwise = newPointwise(p.weights)
	}
	return p
}

// Geom returns the geometry.
func (p *Plan) Geom() Geom { return p.g }

// flags is a byte a tap, as a place wants them.
func flags(n int, has func(k int) bool) string {
	s := make([]byte, n)
	for k := range s {
		if has(k) {
			s[k] = 1
		}
	}
	return string(s)
}

// forwardTaps reads images as they are, a pixel of all channels at a time.
func forwardTaps(g Geom) *direct {
	var places []place
	for oy := range g.OutH() {
		for ox := range g.OutW() {
			y, x := oy*g.Stride-g.Pad, ox*g.Stride-g.Pad
			places = append(places, place{
				at: int32((y*g.W + x) * g.In),
				ct: int32((oy*g.OutW() + ox) * g.Out),
				taps: flags(g.taps(), func(k int) bool {
					h, w := y+k/g.Kernel, x+k%g.Kernel
					return h >= 0 && h < g.H && w >= 0 && w < g.W
				}),
			})
		}
	}
	shift := make([]int32, g.taps())
	for k := range shift {
		shift[k] = int32((k/g.Kernel*g.W + k%g.Kernel) * g.In)
	}
	return newDirect(places, g.OutW(), g.Out, shift, g.In, shape{g.H, g.W, g.In})
}

// forwardRows reads padded images, a row of the window at a time.
func forwardRows(g Geom) *direct {
	q := g.padded()
	var places []place
	for oy := range g.OutH() {
		for ox := range g.OutW() {
			places = append(places, place{
				at: int32((oy*g.Stride*q.W + ox*g.Stride) * g.In),
				ct: int32((oy*g.OutW() + ox) * g.Out),
				taps: flags(g.Kernel, func(k int) bool {
					h := oy*g.Stride + k - g.Pad
					return h >= 0 && h < g.H
				}),
			})
		}
	}
	shift := make([]int32, g.Kernel)
	for k := range shift {
		shift[k] = int32(k * q.W * g.In)
	}
	return newDirect(places, g.OutW(), g.Out, shift, g.Kernel*g.In, shape{q.H, q.W, g.In})
}

// backwardTaps reads the gradient of the output, each position of the input
// having the taps by which it has been read.
func backwardTaps(g Geom) *direct {
	oh, ow := g.OutH(), g.OutW()
	var places []place
	for h := range g.H {
		for w := range g.W {
			y, x := h+g.Pad, w+g.Pad
			places = append(places, place{
				at: int32((y/g.Stride*ow + x/g.Stride) * g.Out),
				ct: int32((h*g.W + w) * g.In),
				taps: flags(g.taps(), func(k int) bool {
					v, u := y-k/g.Kernel, x-k%g.Kernel
					return v >= 0 && v%g.Stride == 0 && v/g.Stride < oh && u >= 0 && u%g.Stride == 0 && u/g.Stride < ow
				}),
			})
		}
	}
	shift := make([]int32, g.taps())
	for k := range shift {
		shift[k] = int32(-(k/g.Kernel/g.Stride*ow + k%g.Kernel/g.Stride) * g.Out)
	}
	return newDirect(places, g.W, g.In, shift, g.Out, shape{oh, ow, g.Out})
}

// padded is the geometry with the padding made part of the image.
func (g Geom) padded() Geom {
	g.H, g.W, g.Pad = g.H+2*g.Pad, g.W+2*g.Pad, 0
	return g
}

// padAll copies n images into s.image with their padding around them.
func (g Geom) padAll(s *Space, x []float32, n int) []float32 {
	if g.Pad == 0 {
		return x
	}
	q := g.padded()
	s.image = grow(&s.image, n*q.inLen())
	clear(s.image)
	row := g.W * g.In
	for i := range n {
		for h := range g.H {
			copy(s.image[i*q.inLen()+((h+g.Pad)*q.W+g.Pad)*g.In:], x[(i*g.H+h)*row:][:row])
		}
	}
	return s.image
}

// PackLen returns the lengths of the packed forms of the weights.
func (p *Plan) PackLen() (forward, backward int) {
	switch {
	case p.rounded.forward != nil:
		forward = p.rounded.forward.packLen()
	case p.fastForward != nil:
		forward = p.fastForward.packLen()
	default:
		forward = p.forward.packLen()
	}
	switch {
	case p.rounded.back != nil:
		backward = p.rounded.backLen()
	case p.fastBackward != nil:
		backward = p.fastBackward.packLen()
	default:
		backward = p.backward.packLen()
	}
	return forward, backward
}

// PackPieces returns the number of pieces packing is cut into.
func (p *Plan) PackPieces() int { return panels(p.g.Out) }

// Pack computes one piece of the packed forms of w, the weights, for Forward and
// for BackwardData; a nil one is left out. Pieces may run at the same time.
func (p *Plan) Pack(s *Space, piece int, forward, backward, w []float32) {
	depth, in, out := p.g.depth(), p.g.In, p.g.Out
	// Both forms of the weights of 16 output channels, while they are in cache.
	o0, o1 := piece*tileCols, min((piece+1)*tileCols, out)
	switch {
	case forward == nil:
	case p.rounded.forward != nil:
		p.rounded.packForward(s, o0, o1, forward, w)
	case p.fastForward != nil:
		p.fastForward.pack(s, piece, piece+1, 0, in, forward, w, depth, in, 1, false)
	default:
		p.forward.pack(piece, piece+1, 0, p.forward.run, forward, w, depth, p.forward.run, 1)
	}
	switch {
	case backward == nil:
	case p.rounded.back != nil:
		p.rounded.packBack(o0, o1, backward, w)
	case p.fastBackward != nil:
		p.fastBackward.pack(s, 0, panels(in), o0, o1, backward, w, 1, in, depth, true)
	default:
		p.backward.pack(0, panels(in), o0, o1, backward, w, 1, in, depth)
	}
}

// Forward computes y, n images one behind the other, from x:
//
//	y[n, oy, ox, o] = b[o] + Σ_{ky, kx, i} w[o, ky, kx, i] · x[n, oy·s + ky − p, ox·s + kx − p, i]
//
// and takes what is ≤ 0 to 0 if relu. packed is what Pack made of w; bias may be
// nil.
func (p *Plan) Forward(s *Space, packed, bias []float32, relu bool, x, y []float32, n int) {
	p.ForwardOf(s, packed, bias, relu, f32.Values{Full: x}, y, n)
}

// Halves says which of ForwardOf, BackwardDataOf and BackwardWeightsOf read bfloat16:
// those whose products do. The others panic on it.
func (p *Plan) Halves() (forward, data, weights bool) {
	return p.rounded.forward != nil, p.rounded.back != nil, p.rounded.weights != nil
}

// ForwardOf is Forward of x in float32 or bfloat16.
func (p *Plan) ForwardOf(s *Space, packed, bias []float32, relu bool, of f32.Values, y []float32, n int) {
	in, out := p.g.inLen(), p.g.outLen()
	check("Forward", n, of.Len(), in, len(y), out)
	if p.rounded.forward != nil {
		p.rounded.forward.do(s, packed, bias, relu, of, y, n)
		return
	}
	x := floats(of)
	switch {
	case p.fastForward != nil:
		p.fastForward.do(s, packed, bias, relu, x, y, n)
		return
	case !p.rowwise:
		p.forward.do(s, packed, bias, relu, x, y, n)
		return
	}
	for i := range n {
		q := p.g.padAll(s, x[i*in:(i+1)*in], 1)
		p.forward.do(s, packed, bias, relu, q, y[i*out:(i+1)*out], 1)
	}
}

// BackwardData computes dx, n images one behind the other, from dy: the
// transpose of Forward without bias.
func (p *Plan) BackwardData(s *Space, packed, dy, dx []float32, n int) {
	p.BackwardDataOf(s, packed, f32.Values{Full: dy}, dx, n)
}

// BackwardDataOf is BackwardData of dy in float32 or bfloat16.
func (p *Plan) BackwardDataOf(s *Space, packed []float32, of f32.Values, dx []float32, n int) {
	in, out := p.g.inLen(), p.g.outLen()
	check("BackwardData", n, len(dx), in, of.Len(), out)
	if p.rounded.back != nil {
		p.rounded.backward(s, packed, of, dx, n)
		return
	}
	switch dy := floats(of); {
	case p.fastBackward != nil:
		p.fastBackward.do(s, packed, nil, false, dy, dx, n)
	default:
		p.backward.do(s, packed, nil, false, dy, dx, n)
	}
}

func check(what string, n, x, in, y, out int) {
	if n < 0 || x < n*in || y < n*out {
		panic(fmt.Sprintf("conv: %s of %d images: %d and %d floats, need %d and %d", what, n, x, y, n*in, n*out))
	}
}
