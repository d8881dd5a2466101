package nn

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// reference is what a net computes, spelt out: float64, one loop an index, one
// layer after the other, nothing fused and nothing reused. It is the
// specification of the layers; finite differences check it, and it checks the
// kernels.
type reference struct {
	net          *Net
	params, grad []float64
	train        bool
	first, seed  uint64
	n            int

	spans, drops, attentions int // met so far

	// margin is how close it came to deciding otherwise: the smallest |x| at a
	// ReLU and lead of a maximum, but for exact ties, which rounding leaves alone.
	margin float64
	// spread is the least σ²/(1 + μ²) that a batch norm divided by: where it is
	// small, so are the figures that rounding leaves.
	spread float64
}

// decided notes a decision by a lead.
func (r *reference) decided(lead float64) {
	if lead = math.Abs(lead); lead > 0 && lead < r.margin {
		r.margin = lead
	}
}

// images is a batch of activations: C×H×W as batches come, or H×W×C.
type images struct {
	sgd.Shape
	planar bool
	v      []float64
}

// derivative takes the gradient of a layer's output to that of its input,
// setting those of its parameters.
type derivative func(dy []float64) []float64

// loss returns the mean loss and, in training, sets the gradient.
func (r *reference) loss(x []float64, labels []int32) float64 {
	r.n, r.spans, r.drops, r.attentions = len(labels)/r.net.in.Labels(), 0, 0, 0
	r.margin, r.spread = math.Inf(1), math.Inf(1)
	z, back := r.layer(r.net.layers, images{r.net.in.Shape, true, x})
	smoothing := r.net.smoothing
	if !r.train {
		smoothing = 0
	}
	classes := r.net.in.Classes
	dz, loss := make([]float64, len(z.v)), 0.0
	for s, label := range labels {
		z, dz := z.v[s*classes:(s+1)*classes], dz[s*classes:(s+1)*classes]
		norm := 0.0
		for _, v := range z {
			norm += math.Exp(v)
		}
		for k, v := range z {
			q := smoothing / float64(classes)
			if k == int(label) {
				q += 1 - smoothing
			}
			loss -= q * (v - math.Log(norm)) / float64(len(labels))
			dz[k] = (math.Exp(v)/norm - q) / float64(len(labels))
		}
	}
	if r.train {
		back(dz)
	}
	return loss
}

// span returns the parameters of the next span and their gradient.
func (r *reference) span() (w, dw []float64) {
	s := r.net.layout.Spans[r.spans]
	r.spans++
	if r.grad != nil {
		dw = r.grad[s.Off:s.End()]
		clear(dw)
	}
	return r.params[s.Off:s.End()], dw
}

func (r *reference) layer(l Layer, x images) (images, derivative) {
	switch l := l.(type) {
	case Sequential:
		return r.sequence(l, x)
	case Residual:
		return r.residual(l, x)
	case Dense:
		return r.dense(l, x)
	case Dropout:
		return r.dropout(l, x)
	case ReLU:
		return r.relu(x)
	case GELU:
		return r.gelu(x)
	case Scale:
		return r.scale(l, x)
	}
	if e, ok := l.(Embedding); ok {
		return r.embedding(e, x)
	}
	x = r.turned(x)
	switch l := l.(type) {
	case Unembedding:
		return r.unembedding(x)
	case Positions:
		return r.positions(x)
	case Linear:
		return r.linear(l, x)
	case LayerNorm:
		return r.rowNorm(true, !l.NoBias, l.Epsilon, x)
	case RMSNorm:
		return r.rowNorm(false, false, l.Epsilon, x)
	case Rotary:
		return r.rotary(l, x)
	case Attention:
		return r.attention(l, x)
	case SwiGLU:
		return r.swiglu(x)
	case Conv:
		return r.conv(l, x)
	case BatchNorm:
		return r.batchNorm(l, x)
	case MaxPool:
		return r.maxPool(l, x)
	case AvgPool:
		return r.avgPool(l.Kernel, l.Stride, l.Pad, l.Ceil, x)
	case GlobalAvgPool:
		return r.globalAvgPool(x)
	case LRN:
		return r.lrn(l, x)
	case LRNAcross:
		return r.lrnAcross(l, x)
	case AdaptiveAvgPool:
		return r.adaptiveAvgPool(l, x)
	case Concat:
		return r.concat(l, x)
	}
	panic(fmt.Sprintf("no reference for %T", l))
}

// turned is x as H×W×C.
func (r *reference) turned(x images) images {
	if !x.planar {
		return x
	}
	y := images{x.Shape, false, make([]float64, len(x.v))}
	i := 0
	for s := range r.n {
		for c := range x.C {
			for h := range x.H {
				for w := range x.W {
					y.v[y.at(s, h, w, c)] = x.v[i]
					i++
				}
			}
		}
	}
	return y
}

// at is the place of a value, −1 beyond the edges.
func (x images) at(s, h, w, c int) int {
	if h < 0 || h >= x.H || w < 0 || w >= x.W {
		return -1
	}
	return ((s*x.H+h)*x.W+w)*x.C + c
}

func (r *reference) empty(s sgd.Shape) images {
	return images{s, false, make([]float64, r.n*s.Len())}
}

func (r *reference) sequence(l Sequential, x images) (images, derivative) {
	var backs []derivative
	for _, l := range l {
		y, back := r.layer(l, x)
		x, backs = y, append(backs, back)
	}
	return x, func(dy []float64) []float64 {
		for i := len(backs) - 1; i >= 0; i-- {
			dy = backs[i](dy)
		}
		return dy
	}
}

func (r *reference) residual(l Residual, x images) (images, derivative) {
	x = r.turned(x)
	body, backBody := r.layer(l.Body, x)
	side, backSide := images{}, derivative(nil)
	if l.Shortcut != nil {
		side, backSide = r.layer(l.Shortcut, x)
	} else {
		side, backSide = r.optionA(x, body.Shape)
	}
	y := r.empty(body.Shape)
	for i := range y.v {
		y.v[i] = body.v[i] + side.v[i]
	}
	return y, func(dy []float64) []float64 {
		a, b := backBody(dy), backSide(dy)
		dx := make([]float64, len(a))
		for i := range dx {
			dx[i] = a[i] + b[i]
		}
		return dx
	}
}

func (r *reference) optionA(x images, out sgd.Shape) (images, derivative) {
	y := r.empty(out)
	stride := (x.H + out.H - 1) / out.H
	each := func(fn func(from, to int)) {
		for s := range r.n {
			for h := range out.H {
				for w := range out.W {
					for c := range x.C {
						fn(x.at(s, h*stride, w*stride, c), y.at(s, h, w, c))
					}
				}
			}
		}
	}
	each(func(from, to int) { y.v[to] = x.v[from] })
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(x.v))
		each(func(from, to int) { dx[from] += dy[to] })
		return dx
	}
}

func (r *reference) dense(l Dense, x images) (images, derivative) {
	w, dw := r.span()
	b, db := make([]float64, l.Out), make([]float64, l.Out)
	if !l.NoBias {
		b, db = r.span()
	}
	in := x.Len()
	y := r.empty(sgd.Shape{C: 1, H: 1, W: l.Out})
	for s := range r.n {
		for o := range l.Out {
			t := b[o]
			for i := range in {
				t += w[o*in+i] * x.v[s*in+i]
			}
			y.v[s*l.Out+o] = t
		}
	}
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(x.v))
		for s := range r.n {
			for o := range l.Out {
				d := dy[s*l.Out+o]
				db[o] += d
				for i := range in {
					dw[o*in+i] += d * x.v[s*in+i]
					dx[s*in+i] += d * w[o*in+i]
				}
			}
		}
		return dx
	}
}

func (r *reference) conv(l Conv, x images) (images, derivative) {
	w, dw := r.span()
	b, db := make([]float64, l.Out), make([]float64, l.Out)
	if !l.NoBias {
		b, db = r.span()
	}
	stride, groups, kw, pw := max(l.Stride, 1), max(l.Groups, 1), l.KernelW, l.PadW
	if kw == 0 {
		kw, pw = l.Kernel, l.Pad
	}
	n := x.C / groups
	y := r.empty(sgd.Shape{C: l.Out, H: (x.H+2*l.Pad-l.Kernel)/stride + 1, W: (x.W+2*pw-kw)/stride + 1})
	each := func(fn func(out, weight, in int)) {
		for s := range r.n {
			for h := range y.H {
				for wd := range y.W {
					for o := range y.C {
						for ky := range l.Kernel {
							for kx := range kw {
								in := x.at(s, h*stride+ky-l.Pad, wd*stride+kx-pw, 0)
								if in < 0 {
									continue
								}
								in += o / (l.Out / groups) * n
								weight, out := ((o*l.Kernel+ky)*kw+kx)*n, y.at(s, h, wd, o)
								for i := range n {
									fn(out, weight+i, in+i)
								}
							}
						}
					}
				}
			}
		}
	}
	for i := range y.v {
		y.v[i] = b[i%l.Out]
	}
	each(func(out, weight, in int) { y.v[out] += w[weight] * x.v[in] })
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(x.v))
		each(func(out, weight, in int) {
			dw[weight] += dy[out] * x.v[in]
			dx[in] += dy[out] * w[weight]
		})
		for i, d := range dy {
			db[i%l.Out] += d
		}
		if l.Frozen {
			clear(dw)
		}
		return dx
	}
}

func (r *reference) relu(x images) (images, derivative) {
	y := images{x.Shape, x.planar, make([]float64, len(x.v))}
	for i, v := range x.v {
		y.v[i] = max(v, 0)
		r.decided(v)
	}
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(dy))
		for i, v := range x.v {
			if v > 0 {
				dx[i] = dy[i]
			}
		}
		return dx
	}
}

func (r *reference) dropout(l Dropout, x images) (images, derivative) {
	r.drops++
	layer := rng.New(r.seed, "dropout").With(uint64(r.drops))
	rate := math.Round(l.Rate*(1<<16)) / (1 << 16)
	apply := func(v []float64) []float64 {
		out := make([]float64, len(v))
		for s := range r.n {
			key := layer.With(r.first + uint64(s))
			for j := range x.Len() {
				draw := float64(key.Uint64(uint64(j/4))>>(16*(j%4))&0xffff) / (1 << 16)
				switch i := s*x.Len() + j; {
				case !r.train:
					out[i] = v[i]
				case draw >= rate:
					out[i] = v[i] / (1 - rate)
				}
			}
		}
		return out
	}
	return images{x.Shape, x.planar, apply(x.v)}, apply
}

// windows calls fn for each output pixel of a pool, with the number of values
// its mean counts and a walk over the pixels under it.
func (r *reference) windows(g poolGeometry, fn func(s, h, w, count int, each func(func(h, w int)))) {
	for s := range r.n {
		for oh := range g.outH {
			for ow := range g.outW {
				h0, w0 := oh*g.stride-g.pad, ow*g.stride-g.pad
				h1, w1 := min(h0+g.k, g.h+g.pad), min(w0+g.k, g.w+g.pad)
				fn(s, oh, ow, (h1-h0)*(w1-w0), func(visit func(h, w int)) {
					for h := max(h0, 0); h < min(h1, g.h); h++ {
						for w := max(w0, 0); w < min(w1, g.w); w++ {
							visit(h, w)
						}
					}
				})
			}
		}
	}
}

func (r *reference) maxPool(l MaxPool, x images) (images, derivative) {
	g, err := newPool("", x.Shape, l.Kernel, l.Stride, l.Pad, l.Ceil)
	if err != nil {
		panic(err)
	}
	y := r.empty(g.shape())
	where := make([]int, len(y.v))
	r.windows(g, func(s, oh, ow, _ int, each func(func(h, w int))) {
		for c := range x.C {
			to, best := y.at(s, oh, ow, c), math.Inf(-1)
			each(func(h, w int) {
				if from := x.at(s, h, w, c); x.v[from] > best {
					best, where[to] = x.v[from], from
				}
			})
			each(func(h, w int) { r.decided(best - x.v[x.at(s, h, w, c)]) })
			y.v[to] = best
		}
	})
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(x.v))
		for i, d := range dy {
			dx[where[i]] += d
		}
		return dx
	}
}

func (r *reference) avgPool(k, stride, pad int, ceil bool, x images) (images, derivative) {
	g, err := newPool("", x.Shape, k, stride, pad, ceil)
	if err != nil {
		panic(err)
	}
	y := r.empty(g.shape())
	each := func(fn func(from, to int, share float64)) {
		r.windows(g, func(s, oh, ow, count int, each func(func(h, w int))) {
			each(func(h, w int) {
				for c := range x.C {
					fn(x.at(s, h, w, c), y.at(s, oh, ow, c), 1/float64(count))
				}
			})
		})
	}
	each(func(from, to int, share float64) { y.v[to] += share * x.v[from] })
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(x.v))
		each(func(from, to int, share float64) { dx[from] += share * dy[to] })
		return dx
	}
}

func (r *reference) globalAvgPool(x images) (images, derivative) {
	y := r.empty(sgd.Shape{C: x.C, H: 1, W: 1})
	plane := x.H * x.W
	index := func(i int) int { return i/x.Len()*x.C + i%x.C }
	for i, v := range x.v {
		y.v[index(i)] += v / float64(plane)
	}
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(x.v))
		for i := range dx {
			dx[i] = dy[index(i)] / float64(plane)
		}
		return dx
	}
}

func (r *reference) lrn(l LRN, x images) (images, derivative) {
	n2 := float64(l.Size * l.Size)
	// box is the sum of v over the window around each pixel.
	box := func(v []float64) []float64 {
		out := make([]float64, len(v))
		for s := range r.n {
			for h := range x.H {
				for w := range x.W {
					for c := range x.C {
						for i := -(l.Size / 2); i <= l.Size/2; i++ {
							for j := -(l.Size / 2); j <= l.Size/2; j++ {
								if from := x.at(s, h+i, w+j, c); from >= 0 {
									out[x.at(s, h, w, c)] += v[from]
								}
							}
						}
					}
				}
			}
		}
		return out
	}
	square := make([]float64, len(x.v))
	for i, v := range x.v {
		square[i] = v * v
	}
	scale := box(square)
	y := r.empty(x.Shape)
	for i, v := range x.v {
		scale[i] = 1 + l.Alpha/n2*scale[i]
		y.v[i] = v * math.Pow(scale[i], -l.Beta)
	}
	return y, func(dy []float64) []float64 {
		q := make([]float64, len(dy))
		for i, d := range dy {
			q[i] = d * x.v[i] * math.Pow(scale[i], -l.Beta-1)
		}
		q = box(q)
		dx := make([]float64, len(dy))
		for i, d := range dy {
			dx[i] = d*math.Pow(scale[i], -l.Beta) - 2*l.Alpha*l.Beta/n2*x.v[i]*q[i]
		}
		return dx
	}
}
