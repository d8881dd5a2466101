package nn

import (
	"math"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// Layers on sequences, written down again in float64: position t of sample s is row
// s·T + t of as many values as channels.

// rows is how many there are in all samples.
func (r *reference) rows(x images) int { return r.n * x.H * x.W }

func (r *reference) embedding(l Embedding, x images) (images, derivative) {
	w, dw := r.span()
	y := r.empty(sgd.Shape{C: l.Width, H: x.Len(), W: 1})
	for i, t := range x.v {
		copy(y.v[i*l.Width:], w[int(t)*l.Width:(int(t)+1)*l.Width])
	}
	return y, func(dy []float64) []float64 {
		for i, t := range x.v {
			for k := range l.Width {
				dw[int(t)*l.Width+k] += dy[i*l.Width+k]
			}
		}
		return nil
	}
}

func (r *reference) unembedding(x images) (images, derivative) {
	s := r.net.layout.Spans[r.net.layout.Find("embedding1.weight")]
	var dw []float64
	if r.grad != nil {
		dw = r.grad[s.Off:s.End()]
	}
	return r.product(r.params[s.Off:s.End()], dw, make([]float64, s.Rows), make([]float64, s.Rows), x)
}

func (r *reference) linear(l Linear, x images) (images, derivative) {
	w, dw := r.span()
	b, db := make([]float64, l.Out), make([]float64, l.Out)
	if !l.NoBias {
		b, db = r.span()
	}
	return r.product(w, dw, b, db, x)
}

// product is y = W·x + b at each position.
func (r *reference) product(w, dw, b, db []float64, x images) (images, derivative) {
	in, out := x.C, len(b)
	y := r.empty(sgd.Shape{C: out, H: x.H, W: x.W})
	for t := range r.rows(x) {
		for o := range out {
			y.v[t*out+o] = b[o]
			for i := range in {
				y.v[t*out+o] += w[o*in+i] * x.v[t*in+i]
			}
		}
	}
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(x.v))
		for t := range r.rows(x) {
			for o := range out {
				db[o] += dy[t*out+o]
				for i := range in {
					dw[o*in+i] += dy[t*out+o] * x.v[t*in+i]
					dx[t*in+i] += dy[t*out+o] * w[o*in+i]
				}
			}
		}
		return dx
	}
}

func (r *reference) positions(x images) (images, derivative) {
	w, dw := r.span()
	y := r.empty(x.Shape)
	for i, v := range x.v {
		y.v[i] = v + w[i%len(w)]
	}
	return y, func(dy []float64) []float64 {
		for i, v := range dy {
			dw[i%len(w)] += v
		}
		return dy
	}
}

func (r *reference) rowNorm(centred, bias bool, epsilon float64, x images) (images, derivative) {
	if epsilon == 0 {
		epsilon = 1e-5
	}
	c := x.C
	g, dg := r.span()
	b, db := make([]float64, c), make([]float64, c)
	if bias {
		b, db = r.span()
	}
	y, hat, inv := r.empty(x.Shape), make([]float64, len(x.v)), make([]float64, r.rows(x))
	for t := range inv {
		row, mean, squares := x.v[t*c:(t+1)*c], 0.0, 0.0
		if centred {
			for _, v := range row {
				mean += v / float64(c)
			}
		}
		for _, v := range row {
			squares += (v - mean) * (v - mean) / float64(c)
		}
		inv[t] = 1 / math.Sqrt(squares+epsilon)
		for i, v := range row {
			hat[t*c+i] = (v - mean) * inv[t]
			y.v[t*c+i] = hat[t*c+i]*g[i] + b[i]
		}
	}
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(dy))
		for t := range inv {
			mean, along := 0.0, 0.0
			for i := range c {
				at := t*c + i
				dg[i] += dy[at] * hat[at]
				db[i] += dy[at]
				mean += dy[at] * g[i] / float64(c)
				along += dy[at] * g[i] * hat[at] / float64(c)
			}
			if !centred {
				mean = 0
			}
			for i := range c {
				at := t*c + i
				dx[at] = (dy[at]*g[i] - mean - hat[at]*along) * inv[t]
			}
		}
		return dx
	}
}

func (r *reference) rotary(l Rotary, x images) (images, derivative) {
	base := l.Base
	if base == 0 {
		base = 10000
	}
	turned := func(v []float64, sign float64) []float64 {
		out := append([]float64(nil), v...)
		half := l.Width / 2
		for row := range r.rows(x) {
			for h := range l.Heads {
				for i := range half {
					sin, cos := math.Sincos(sign * float64(row%(x.H*x.W)) / math.Pow(base, float64(i)/float64(half)))
					a := row*x.C + h*l.Width + i
					out[a], out[a+half] = v[a]*cos-v[a+half]*sin, v[a+half]*cos+v[a]*sin
				}
			}
		}
		return out
	}
	return images{x.Shape, false, turned(x.v, 1)}, func(dy []float64) []float64 { return turned(dy, -1) }
}

// attention makes all scores of a head at once, from the definition.
func (r *reference) attention(l Attention, x images) (images, derivative) {
	kv := l.KVHeads
	if kv == 0 {
		kv = l.Heads
	}
	d, length := x.C/(l.Heads+2*kv), x.H*x.W
	out := l.Heads * d
	y := r.empty(sgd.Shape{C: out, H: x.H, W: x.W})
	p := make([]float64, r.n*l.Heads*length*length)
	// each calls fn for every pair of a query and a key not behind it: the place of its
	// weight, and of the values of query, key, value and output.
	each := func(fn func(w, q, k, v, o int)) {
		for s := range r.n {
			for h := range l.Heads {
				for i := range length {
					for j := range i + 1 {
						row, col := (s*length+i)*x.C, (s*length+j)*x.C
						group := h / (l.Heads / kv)
						fn(((s*l.Heads+h)*length+i)*length+j, row+h*d, col+(l.Heads+group)*d, col+(l.Heads+kv+group)*d, (s*length+i)*out+h*d)
					}
				}
			}
		}
	}
	each(func(w, q, k, _, _ int) {
		for c := range d {
			p[w] += x.v[q+c] * x.v[k+c] / math.Sqrt(float64(d))
		}
	})
	for row := 0; row < len(p); row += length {
		n, sum := row/length%length+1, 0.0
		for j := range n {
			p[row+j] = math.Exp(p[row+j])
			sum += p[row+j]
		}
		for j := range n {
			p[row+j] /= sum
		}
	}
	// What a weight is multiplied by: 0 where it is dropped.
	r.attentions++
	stays := func(int) float64 { return 1 }
	if rate := math.Round(l.Dropout*(1<<16)) / (1 << 16); r.train && rate > 0 {
		stays = func(w int) float64 {
			s, query, key := w/(l.Heads*length*length), w/length%(l.Heads*length), w%length
			draws := rng.New(r.seed, "attention").With(uint64(r.attentions)).With(r.first + uint64(s)).With(uint64(query))
			if float64(draws.Uint64(uint64(key/4))>>(16*(key%4))&0xffff)/(1<<16) < rate {
				return 0
			}
			return 1 / (1 - rate)
		}
	}
	mask := make([]float64, len(p))
	each(func(w, _, _, v, o int) {
		mask[w] = stays(w)
		for c := range d {
			y.v[o+c] += p[w] * mask[w] * x.v[v+c]
		}
	})
	return y, func(dy []float64) []float64 {
		dx, dp, mean := make([]float64, len(x.v)), make([]float64, len(p)), make([]float64, len(p)/length)
		each(func(w, _, _, v, o int) {
			for c := range d {
				dp[w] += mask[w] * dy[o+c] * x.v[v+c]
				dx[v+c] += p[w] * mask[w] * dy[o+c]
			}
			mean[w/length] += p[w] * dp[w]
		})
		each(func(w, q, k, _, _ int) {
			ds := p[w] * (dp[w] - mean[w/length]) / math.Sqrt(float64(d))
			for c := range d {
				dx[q+c] += ds * x.v[k+c]
				dx[k+c] += ds * x.v[q+c]
			}
		})
		return dx
	}
}

func (r *reference) swiglu(x images) (images, derivative) {
	half := x.C / 2
	y := r.empty(sgd.Shape{C: half, H: x.H, W: x.W})
	each := func(fn func(a, b, o int)) {
		for t := range r.rows(x) {
			for i := range half {
				fn(t*x.C+i, t*x.C+half+i, t*half+i)
			}
		}
	}
	each(func(a, b, o int) { y.v[o] = x.v[a] / (1 + math.Exp(-x.v[a])) * x.v[b] })
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(x.v))
		each(func(a, b, o int) {
			s := 1 / (1 + math.Exp(-x.v[a]))
			dx[a] = dy[o] * x.v[b] * s * (1 + x.v[a]*(1-s))
			dx[b] = dy[o] * x.v[a] * s
		})
		return dx
	}
}
