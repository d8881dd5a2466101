package f32

import (
	"math"
	"slices"
	"testing"
)

// norms are both norms in float64: of a row, with the gradients for dy.
type norms struct{ y, dx, dgamma, dbeta []float64 }

func normByDefinition(x, gamma, beta, dy []float32, eps float64, centred bool) (o norms) {
	n := len(x)
	var mean, variance, sum, along float64
	for _, v := range x {
		if centred {
			mean += float64(v) / float64(n)
		}
	}
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean) / float64(n)
	}
	rstd := 1 / math.Sqrt(variance+eps)
	h := func(i int) float64 { return (float64(x[i]) - mean) * rstd }
	for i := range x {
		g := float64(dy[i]) * float64(gamma[i])
		if centred {
			sum += g / float64(n)
		}
		along += g * h(i) / float64(n)
		o.y = append(o.y, h(i)*float64(gamma[i])+float64(beta[i]))
		o.dgamma, o.dbeta = append(o.dgamma, float64(dy[i])*h(i)), append(o.dbeta, float64(dy[i]))
	}
	for i := range x {
		o.dx = append(o.dx, (float64(dy[i])*float64(gamma[i])-sum-h(i)*along)*rstd)
	}
	return o
}

// Norms and their gradients are those of float64, for rows around zero and far from it.
func TestNormsOfRowsAreAccurate(t *testing.T) {
	r := newRand(8)
	for _, n := range []int{1, 2, 3, 17, 64, 100, 768, 1023, 8192} {
		for _, level := range []float64{0, 3, -1000} {
			x, gamma, beta, dy := make([]float32, n), randVec(r, n), randVec(r, n), randVec(r, n)
			for i := range x {
				x[i] = float32(level + 2*r.NormFloat64())
			}
			near := func(name string, got []float32, want []float64, scale float64) {
				t.Helper()
				most := 0.0
				for _, v := range want {
					most = max(most, math.Abs(v))
				}
				for i, v := range got {
					if off := math.Abs(float64(v) - want[i]); off > 1e-6*scale*(1+most) {
						t.Fatalf("%d values around %v: %s[%d] is %v, want %v", n, level, name, i, v, want[i])
					}
				}
			}
			const eps = 1e-5
			y, dx, dgamma, dbeta := make([]float32, n), slices.Clone(dy), make([]float32, n), make([]float32, n)
			// The mean is rounded to float32, which moves all of a row.
			scale := 1 + math.Abs(level)*0x1p-3
			want := normByDefinition(x, gamma, beta, dy, eps, true)
			if n < 3 { // a variance next to nothing magnifies it
				scale *= 1 / math.Sqrt(eps)
			}
			mean, rstd := LayerNorm(y, x, gamma, beta, eps)
			near("y", y, want.y, scale)
			LayerNormGrad(dx, dgamma, dbeta, dx, x, gamma, mean, rstd)
			near("dx", dx, want.dx, scale)
			near("dgamma", dgamma, want.dgamma, scale)
			near("dbeta", dbeta, want.dbeta, scale)

			want = normByDefinition(x, gamma, make([]float32, n), dy, eps, false)
			clear(dgamma)
			rstd = RMSNorm(y, x, gamma, eps)
			near("y of RMSNorm", y, want.y, 1)
			RMSNormGrad(dx, dgamma, dy, x, gamma, rstd)
			near("dx of RMSNorm", dx, want.dx, 1)
			near("dgamma of RMSNorm", dgamma, want.dgamma, 1)

			// Gradients of parameters add up; a row may be replaced by what it is normalised to.
			again := slices.Clone(dgamma)
			RMSNormGrad(dx, again, dy, x, gamma, rstd)
			Scale(dgamma, 2)
			near("dgamma twice", again, doubled(want.dgamma), 1)
			z := slices.Clone(x)
			if RMSNorm(z, z, gamma, eps) != rstd || !sameBits(z, y) {
				t.Fatalf("%d values: in place RMSNorm has other bits", n)
			}
			LayerNorm(y, x, gamma, beta, eps)
			copy(z, x)
			if LayerNorm(z, z, gamma, beta, eps); !sameBits(z, y) {
				t.Fatalf("%d values: in place LayerNorm has other bits", n)
			}
		}
	}
}

func doubled(x []float64) []float64 {
	y := slices.Clone(x)
	for i := range y {
		y[i] *= 2
	}
	return y
}

// Rows of one value have no variance, rows of zeros no size: eps keeps them finite.
func TestNormsOfConstantRows(t *testing.T) {
	for _, v := range []float32{0, 1, -1e4, 0.1} {
		x, one, y, d := make([]float32, 65), make([]float32, 65), make([]float32, 65), make([]float32, 65)
		Fill(x, v)
		Fill(one, 1)
		mean, rstd := LayerNorm(y, x, one, make([]float32, 65), 1e-5)
		LayerNormGrad(d, make([]float32, 65), make([]float32, 65), one, x, one, mean, rstd)
		if mean != v || !AllFinite(y) || !AllFinite(d) || MaxAbs(y) != 0 {
			t.Errorf("of %v: mean %v, factor %v, %v, gradient %v", v, mean, rstd, y[:3], d[:3])
		}
		rstd = RMSNorm(y, x, one, 1e-5)
		RMSNormGrad(d, make([]float32, 65), one, x, one, rstd)
		if !AllFinite(y) || !AllFinite(d) || v == 0 && MaxAbs(y) != 0 {
			t.Errorf("of %v: factor %v, %v, gradient %v", v, rstd, y[:3], d[:3])
		}
	}
}
