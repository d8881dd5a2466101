package nn

import (
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/sgd"
)

// measures are the metrics of classifiers: what a sample with logits z and label y adds.
var measures = map[sgd.Metric]func(z []float32, y int) float64{
	sgd.Accuracy: func(z []float32, y int) float64 { return one(correct(z, y)) },
	sgd.Loss:     func(z []float32, y int) float64 { return crossEntropy(z, y, 0, 1, nil) },
	sgd.Top5:     func(z []float32, y int) float64 { return one(within(z, y, 5)) },
}

// one is 1 for what is true.
func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Softmax cross-entropy with label smoothing ε over C classes (Szegedy et al.
// 2016). With p = softmax(z) and targets q_k = (1 − ε)·[k = y] + ε/C,
//
//	loss = −Σ q_k log p_k = log Σ exp z − (1 − ε)·z_y − ε/C·Σ z
//	dz   = p − q
//
// crossEntropy returns the loss of one sample, computed in float64, and sets dz
// to scale times the gradient unless dz is nil. Of manyClasses or more, exponentials are
// those of f32, each right to a unit in the last place of float32, as is the gradient in
// either case.
func crossEntropy(z []float32, y int, smoothing, scale float64, dz []float32) float64 {
	if len(z) >= manyClasses {
		return crossEntropyOfMany(z, y, smoothing, scale, dz)
	}
	top := math.Inf(-1)
	for _, v := range z {
		top = max(top, float64(v))
	}
	var norm, mean float64
	for k, v := range z {
		e := portable.Exp(float64(v) - top)
		norm += e
		mean += float64(v) - top
		if dz != nil {
			dz[k] = float32(e)
		}
	}
	even := smoothing / float64(len(z))
	if dz != nil {
		for k, e := range dz {
			dz[k] = float32(scale * (float64(e)/norm - even))
		}
		dz[y] -= float32(scale * (1 - smoothing))
	}
	loss := portable.Log(norm) - float64((1-smoothing)*(float64(z[y])-top))
	if smoothing != 0 {
		loss -= float64(even * mean)
	}
	return loss
}

// manyClasses is from where on a row of logits is long enough for kernels: they take a tenth
// of the time.
const manyClasses = 2048

// crossEntropyOfMany is crossEntropy by kernels.
func crossEntropyOfMany(z []float32, y int, smoothing, scale float64, dz []float32) float64 {
	top := f32.Max(z)
	norm := 0.0
	if dz != nil {
		norm = f32.ExpSum(dz, z, top)
	} else {
		var piece [manyClasses]float32
		for rest := z; len(rest) > 0; {
			n := min(len(rest), len(piece))
			norm += f32.ExpSum(piece[:n], rest[:n], top)
			rest = rest[n:]
		}
	}
	even := smoothing / float64(len(z))
	if dz != nil {
		f32.Scale(dz, float32(scale/norm))
		if smoothing != 0 {
			shift := float32(float64(scale * even))
			for k := range dz {
				dz[k] -= shift
			}
		}
		dz[y] -= float32(scale * (1 - smoothing))
	}
	loss := portable.Log(norm) - float64((1-smoothing)*(float64(z[y])-float64(top)))
	if smoothing != 0 {
		loss -= float64(even * (f32.Sum(z) - float64(float64(len(z))*float64(top))))
	}
	return loss
}

// mixLabel is what moving a share of a sample's target from class y to another adds
// to its loss; dz, the gradient for y alone, is changed to that of the mixture. With
// q the smoothed targets the loss is (1 − share)·L(y) + share·L(other), so
//
//	loss += share·(1 − ε)·(z_y − z_other)
//	dz_y += share·(1 − ε), dz_other −= share·(1 − ε)
func mixLabel(z []float32, y, other int, smoothing, share, scale float64, dz []float32) float64 {
	moved := share * (1 - smoothing)
	dz[y] += float32(scale * moved)
	dz[other] -= float32(scale * moved)
	return float64(moved * (float64(z[y]) - float64(z[other])))
}

// correct says whether class y has the largest logit, the first of equals. A
// NaN is never right.
func correct(z []float32, y int) bool {
	for k, v := range z {
		if v > z[y] || v == z[y] && k < y {
			return false
		}
	}
	return z[y] == z[y]
}

// within says whether class y is among the n with the largest logits, the first
// of equals before the others. A NaN is never right, and within(z, y, 1) is
// correct(z, y).
func within(z []float32, y, n int) bool {
	above := 0
	for k, v := range z {
		if v > z[y] || v == z[y] && k < y {
			above++
		}
	}
	return above < n && z[y] == z[y]
}
