package nn

import (
	"math"

	"github.com/gradlab/gradlab/sgd"
)

// The reference of layers that later models brought, and of batch norms.

// batchNorm normalises group by group, each on its own samples.
func (r *reference) batchNorm(l BatchNorm, x images) (images, derivative) {
	l = l.withDefaults()
	c := x.C
	if x.C == 1 && x.H == 1 {
		c = x.W
	}
	scale, dscale := make([]float64, c), make([]float64, c)
	for i := range scale {
		scale[i] = 1
	}
	if !l.NoScale {
		scale, dscale = r.span()
	}
	shift, dshift := r.span()
	mean, dmean := r.span()
	variance, dvariance := r.span()
	groups := 1
	if r.train && l.Ghost > 0 {
		groups = max(1, r.n/l.Ghost)
	}
	hat, y := make([]float64, len(x.v)), r.empty(x.Shape)
	means, variances := make([]float64, c), make([]float64, c)
	var backs []func(dy, dx []float64)
	for g := range groups {
		lo, hi := g*r.n/groups*x.Len(), (g+1)*r.n/groups*x.Len()
		m := float64((hi - lo) / c)
		mu, sigma2 := mean, variance
		if r.train {
			mu, sigma2 = make([]float64, c), make([]float64, c)
			for i, v := range x.v[lo:hi] {
				mu[i%c] += v / m
			}
			for i, v := range x.v[lo:hi] {
				sigma2[i%c] += (v - mu[i%c]) * (v - mu[i%c]) / m
			}
			for i := range c {
				share := float64(hi-lo) / float64(len(x.v))
				means[i] += share * mu[i]
				variances[i] += share * sigma2[i] * m / max(m-1, 1)
			}
		}
		for i, v := range sigma2 {
			r.spread = min(r.spread, v/(1+mu[i]*mu[i]))
		}
		for i := lo; i < hi; i++ {
			hat[i] = (x.v[i] - mu[i%c]) / math.Sqrt(sigma2[i%c]+l.Epsilon)
			y.v[i] = scale[i%c]*hat[i] + shift[i%c]
		}
		backs = append(backs, func(dy, dx []float64) {
			dg, db := make([]float64, c), make([]float64, c)
			for i := lo; i < hi; i++ {
				db[i%c] += dy[i]
				dg[i%c] += dy[i] * hat[i]
			}
			for i := lo; i < hi; i++ {
				dx[i] = scale[i%c] / math.Sqrt(sigma2[i%c]+l.Epsilon) * (dy[i] - db[i%c]/m - hat[i]*dg[i%c]/m)
			}
			for i := range c {
				dscale[i] += dg[i]
				dshift[i] += db[i]
			}
		})
	}
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(dy))
		for _, back := range backs {
			back(dy, dx)
		}
		for i := range c {
			dmean[i] = (mean[i] - means[i]) * l.Momentum
			dvariance[i] = (variance[i] - variances[i]) * l.Momentum
		}
		return dx
	}
}

func (r *reference) concat(l Concat, x images) (images, derivative) {
	var parts []images
	var backs []derivative
	channels := 0
	for _, branch := range l {
		y, back := r.layer(branch, x)
		parts, backs, channels = append(parts, y), append(backs, back), channels+y.C
	}
	y := r.empty(sgd.Shape{C: channels, H: parts[0].H, W: parts[0].W})
	each := func(fn func(part, from, to int)) {
		first := 0
		for k, p := range parts {
			for i := range p.v {
				fn(k, i, i/p.C*channels+first+i%p.C)
			}
			first += p.C
		}
	}
	each(func(k, from, to int) { y.v[to] = parts[k].v[from] })
	return y, func(dy []float64) []float64 {
		var dys [][]float64
		for _, p := range parts {
			dys = append(dys, make([]float64, len(p.v)))
		}
		each(func(k, from, to int) { dys[k][from] = dy[to] })
		dx := make([]float64, len(x.v))
		for k, back := range backs {
			for i, d := range back(dys[k]) {
				dx[i] += d
			}
		}
		return dx
	}
}

func (r *reference) gelu(x images) (images, derivative) {
	y := images{x.Shape, x.planar, make([]float64, len(x.v))}
	slope := make([]float64, len(x.v))
	for i, v := range x.v {
		below := (1 + math.Erf(v/math.Sqrt2)) / 2
		y.v[i] = v * below
		slope[i] = below + v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi)
	}
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(dy))
		for i, d := range dy {
			dx[i] = d * slope[i]
		}
		return dx
	}
}

func (r *reference) scale(l Scale, x images) (images, derivative) {
	times := func(v []float64) []float64 {
		out := make([]float64, len(v))
		for i, u := range v {
			out[i] = l.By * u
		}
		return out
	}
	return images{x.Shape, x.planar, times(x.v)}, times
}

func (r *reference) adaptiveAvgPool(l AdaptiveAvgPool, x images) (images, derivative) {
	y := r.empty(sgd.Shape{C: x.C, H: l.Side, W: l.Side})
	side := func(i, n int) (lo, hi int) {
		return int(math.Floor(float64(i*n) / float64(l.Side))), int(math.Ceil(float64((i+1)*n) / float64(l.Side)))
	}
	each := func(fn func(from, to int, share float64)) {
		for s := range r.n {
			for i := range l.Side {
				for j := range l.Side {
					h0, h1 := side(i, x.H)
					w0, w1 := side(j, x.W)
					for h := h0; h < h1; h++ {
						for w := w0; w < w1; w++ {
							for c := range x.C {
								fn(x.at(s, h, w, c), y.at(s, i, j, c), 1/float64((h1-h0)*(w1-w0)))
							}
						}
					}
				}
			}
		}
	}
	each(func(from, to int, share float64) { y.v[to] += share * x.v[from] })
	return y, func(dy []float64) []float64 {
		dx := make([]float64, len(x.v))
		each(func(from, to int, share float64) { dx[from] += share * dy[to] })
		return dx
	}
}

func (r *reference) lrnAcross(l LRNAcross, x images) (images, derivative) {
	near := func(v []float64, i int) (sum float64) {
		pixel, c := i/x.C*x.C, i%x.C
		for j := max(0, c-l.Size/2); j <= min(x.C-1, c+l.Size/2); j++ {
			sum += v[pixel+j]
		}
		return sum
	}
	square, s := make([]float64, len(x.v)), make([]float64, len(x.v))
	for i, v := range x.v {
		square[i] = v * v
	}
	y := r.empty(x.Shape)
	for i, v := range x.v {
		s[i] = l.K + l.Alpha*near(square, i)
		y.v[i] = v / math.Pow(s[i], l.Beta)
	}
	return y, func(dy []float64) []float64 {
		q, dx := make([]float64, len(dy)), make([]float64, len(dy))
		for i, d := range dy {
			q[i] = d * x.v[i] / math.Pow(s[i], l.Beta+1)
		}
		for i, d := range dy {
			dx[i] = d/math.Pow(s[i], l.Beta) - 2*l.Alpha*l.Beta*x.v[i]*near(q, i)
		}
		return dx
	}
}
