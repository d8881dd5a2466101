package compresstest

import (
	"maps"
	"math"

	"github.com/gradlab/gradlab/compress"
)

// makeFormula makes the formula of a family on the blocks of some ranks.
type makeFormula = func(f compress.Family, blocks []compress.Block, together bool) (formula, error)

// formulas has every family of package compress. A codec that is missing fails the
// suite.
var formulas = map[string]makeFormula{}

// enrol gives the family of that name its formula. tried are combinations of its
// options that the suite runs beside the defaults; every option must be in one.
func enrol(name string, formula makeFormula, tried ...string) bool {
	formulas[name] = formula
	combinations = append(combinations, tried...)
	return true
}

var _ = enrol("raw", alone(func(_ compress.Raw, _ compress.Block, g []float64, _ compress.Step) want { return exactly(g) }))

func init() { // formulas of wrappers make those of what is inside
	maps.Copy(formulas, map[string]makeFormula{
		"bf16": alone(func(f compress.BFloat16, _ compress.Block, g []float64, _ compress.Step) want {
			return castFormula(g, halves["bf16"], f.Stochastic)
		}),
		"fp16": alone(func(f compress.FP16, _ compress.Block, g []float64, _ compress.Step) want {
			return castFormula(g, halves["fp16"], f.Stochastic)
		}),
		"natural": alone(func(_ compress.Natural, _ compress.Block, g []float64, _ compress.Step) want {
			w := pairs(len(g), func(i int) (lo, hi float64) {
				if g[i] == 0 {
					return 0, 0
				}
				_, e := math.Frexp(g[i])
				lo = math.Copysign(math.Ldexp(1, e-1), g[i])
				return lo, 2 * lo
			})
			w.mean = g
			return w
		}),
		"sign":    alone(signFormula),
		"onebit":  alone(oneBitFormula),
		"threelc": alone(threeLCFormula),
		"float8":  alone(float8Formula),
		"uniform": alone(uniformFormula),
		"qsgd":    alone(qsgdFormula),
		"terngrad": func(f compress.Family, blocks []compress.Block, together bool) (formula, error) {
			t := f.(compress.TernGrad)
			scale := func(x []float64) float64 { return ternScale(x, t.Clip) }
			if together && t.Shared {
				return sharedFormula(blocks[0], t.Bucket, 1, true, scale), nil
			}
			return plain{blocks, func(b compress.Block, g []float64, _ compress.Step) want {
				return levelsFormula(g, t.Bucket, 1, true, scale)
			}}, nil
		},
		"intsum": func(f compress.Family, blocks []compress.Block, together bool) (formula, error) {
			t := f.(compress.IntSum)
			levels, random := float64(int(1)<<(t.Bits-1)-1), t.Round != "nearest"
			if together {
				return sharedFormula(blocks[0], t.Bucket, levels, random, largest), nil
			}
			return plain{blocks, func(b compress.Block, g []float64, _ compress.Step) want {
				return levelsFormula(g, t.Bucket, levels, random, largest)
			}}, nil
		},
		"vote": func(_ compress.Family, blocks []compress.Block, together bool) (formula, error) {
			if !together {
				return formulas["sign"](compress.Sign{Scale: "none"}, blocks, false)
			}
			return joint(voteFormula), nil
		},
		"topk":       alone(topKFormula),
		"sparseloco": alone(sparseLoCoFormula),
		"randomk":    alone(randomKFormula),
		"threshold": alone(func(f compress.Threshold, _ compress.Block, g []float64, _ compress.Step) want {
			return reaching(g, float64(float32(f.Tau)), func(v float64) float64 { return halves[f.Values].nearest(v) })
		}),
		"sidco":    alone(sidcoFormula),
		"cltk":     cltkFormula,
		"sketch":   sketchFormula,
		"strom":    stromFormula,
		"adacomp":  adaCompFormula,
		"dgc":      dgcFormula,
		"powersgd": powerFormula,
		"eden":     alone(edenFormula),
		"thc":      thcFormula,

		"feedback":    feedbackFormula,
		"ef21":        ef21Formula,
		"accumulate":  accumulateFormula,
		"scatter":     scatterFormula,
		"dct":         dctFormula,
		"contraction": contractionFormula,
		"entropy": func(f compress.Family, blocks []compress.Block, _ bool) (formula, error) {
			return newFormula(f.(compress.Entropy).In, blocks, false)
		},
		"bysize": func(f compress.Family, blocks []compress.Block, together bool) (formula, error) {
			s := f.(compress.BySize)
			if blocks[0].Len() >= s.Limit {
				return newFormula(s.Large, blocks, together)
			}
			return newFormula(s.Small, blocks, together)
		},
		"byrole": func(f compress.Family, blocks []compress.Block, together bool) (formula, error) {
			r := f.(compress.ByRole)
			in := map[string]compress.Family{"bias": r.Bias, "norm": r.Norm}[blocks[0].Role]
			if in == nil {
				in = r.Weight
			}
			return newFormula(in, blocks, together)
		},
	})
}

// alone is a formula without state, the same in an exchange.
func alone[F compress.Family](fn func(f F, b compress.Block, g []float64, s compress.Step) want) makeFormula {
	return func(f compress.Family, blocks []compress.Block, _ bool) (formula, error) {
		return plain{blocks, func(b compress.Block, g []float64, s compress.Step) want { return fn(f.(F), b, g, s) }}, nil
	}
}

// tie is how near to halfway between two values rounding in float32 may turn the
// scale, as a share of their distance.
const tie = 1e-4

// between is whole numbers around x: the nearest to it, or both neighbours if it is
// a tie or chance decides.
func between(x float64, random bool) (lo, hi float64) {
	lo, hi = math.Floor(x), math.Ceil(x)
	switch frac := x - lo; {
	case random && frac > tie && frac < 1-tie, math.Abs(frac-0.5) < tie:
		return lo, hi
	default:
		return math.Round(x), math.Round(x)
	}
}

// half is a float of so many fraction bits.
type half struct {
	fraction, least int // bits, and the exponent of the least normal value
	largest         float64
}

var halves = map[string]half{
	"": {23, -126, math.MaxFloat32}, "f32": {23, -126, math.MaxFloat32},
	"bf16": {7, -126, 0x1.fep127}, "fp16": {10, -14, 65504},
}

// unit is the distance of the values around x.
func (h half) unit(x float64) float64 {
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-1, h.least)-h.fraction)
}

// nearest rounds to the nearest value, ties to even, and saturates.
func (h half) nearest(x float64) float64 {
	u := h.unit(x)
	return max(-h.largest, min(h.largest, math.RoundToEven(x/u)*u))
}

func castFormula(g []float64, h half, random bool) want {
	w := pairs(len(g), func(i int) (lo, hi float64) {
		u := h.unit(g[i])
		lo, hi = between(g[i]/u, random)
		return max(-h.largest, lo*u), min(h.largest, hi*u)
	})
	if random {
		w.mean = g
	}
	return w
}

func signed(v, by float64) float64 { return math.Copysign(v, by) }

func signFormula(f compress.Sign, _ compress.Block, g []float64, _ compress.Step) want {
	scale := 1.0
	if f.Scale != "none" {
		scale = 0
		for _, v := range g {
			scale += math.Abs(v) / float64(len(g))
		}
	}
	doubt := 1e-5 * largest(g) // as sums that cancel leave it
	return pairs(len(g), func(i int) (lo, hi float64) {
		if g[i] != 0 && math.Abs(g[i]) < doubt {
			return -scale, scale
		}
		return signed(scale, g[i]), signed(scale, g[i])
	})
}

func voteFormula(g [][]float64, _ compress.Step) []want {
	w := pairs(len(g[0]), func(i int) (lo, hi float64) {
		votes := 0.0
		for _, x := range g {
			votes += signed(1, x[i])
		}
		return signed(1, votes), signed(1, votes)
	})
	return []want{w, w, w}
}

func oneBitFormula(_ compress.OneBit, _ compress.Block, g []float64, _ compress.Step) want {
	var sums, counts [2]float64
	side := func(v float64) int {
		if math.Signbit(v) {
			return 1
		}
		return 0
	}
	for _, v := range g {
		sums[side(v)] += v
		counts[side(v)]++
	}
	return pairs(len(g), func(i int) (lo, hi float64) {
		m := sums[side(g[i])] / counts[side(g[i])]
		return m, m
	})
}

func largest(x []float64) (m float64) {
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}

func threeLCFormula(f compress.ThreeLC, _ compress.Block, g []float64, _ compress.Step) want {
	m := f.S * largest(g)
	return pairs(len(g), func(i int) (lo, hi float64) {
		if m == 0 {
			return 0, 0
		}
		lo, hi = between(g[i]/m, false)
		return lo * m, hi * m
	})
}

// values8 is the magnitudes of an 8-bit format over the largest of them.
func values8(format string) []float64 {
	var v []float64
	float := func(exponent, fraction, bias int, top float64) {
		for e := range 1 << exponent {
			for m := range 1 << fraction {
				x := (1 + float64(m)/float64(int(1)<<fraction)) * math.Pow(2, float64(e-bias))
				if e == 0 {
					x = float64(m) / float64(int(1)<<fraction) * math.Pow(2, float64(1-bias))
				}
				if x <= top {
					v = append(v, x/top)
				}
			}
		}
	}
	switch format {
	case "e5m2":
		float(5, 2, 15, 57344)
	case "dynamic":
		v = append(v, 0)
		for zeros := range 7 {
			n := 1 << (6 - zeros)
			for k := range n {
				v = append(v, math.Pow(10, -float64(zeros))*(0.1+0.9*(float64(k)+0.5)/float64(n))/(0.1+0.9*63.5/64))
			}
		}
	default:
		float(4, 3, 7, 448)
	}
	return v
}

func float8Formula(f compress.Float8, _ compress.Block, g []float64, _ compress.Step) want {
	values := values8(f.Format)
	w := pairs(len(g), func(int) (lo, hi float64) { return 0, 0 })
	inBuckets(len(g), f.Bucket, func(from, to int) {
		m := largest(g[from:to])
		for i := from; i < to && m > 0; i++ {
			x, below, above := math.Abs(g[i])/m, 0.0, 1.0
			for _, v := range values {
				if v <= x {
					below = max(below, v)
				}
				if v >= x*(1-1e-7) {
					above = min(above, v)
				}
			}
			lo, hi := 0.0, 0.0
			if above > below {
				lo, hi = between((x-below)/(above-below), false)
			}
			w.lo[i], w.hi[i] = signed(m*(below+lo*(above-below)), g[i]), signed(m*(below+hi*(above-below)), g[i])
		}
	})
	return w
}

// inBuckets calls fn for each stretch of n elements, all at once for a length of 0.
func inBuckets(n, length int, fn func(from, to int)) {
	if length == 0 {
		length = max(1, n)
	}
	for from := 0; from < n; from += length {
		fn(from, min(n, from+length))
	}
}

// levelsFormula rounds to so many levels of scale on either side of zero.
func levelsFormula(g []float64, bucket int, levels float64, random bool, scale func([]float64) float64) want {
	w := pairs(len(g), func(int) (lo, hi float64) { return 0, 0 })
	mean := make([]float64, len(g))
	inBuckets(len(g), bucket, func(from, to int) {
		s := scale(g[from:to])
		for i := from; i < to && s > 0; i++ {
			w.lo[i], w.hi[i], mean[i] = onLevels(g[i], s, levels, random)
		}
	})
	if random {
		w.mean = mean
	}
	return w
}

// onLevels is x on the levels ±s·q/levels, cut at ±s.
func onLevels(x, s, levels float64, random bool) (lo, hi, mean float64) {
	x = max(-s, min(s, x))
	lo, hi = between(x/s*levels, random)
	return lo * s / levels, hi * s / levels, x
}

// sharedFormula is levelsFormula with the largest scale of any rank.
func sharedFormula(b compress.Block, bucket int, levels float64, random bool, scale func([]float64) float64) joint {
	return func(g [][]float64, _ compress.Step) []want {
		out, mean := make([]want, len(g)), make([][]float64, len(g))
		for r := range g {
			mean[r] = make([]float64, b.Len())
			out[r] = pairs(b.Len(), func(int) (lo, hi float64) { return 0, 0 })
		}
		inBuckets(b.Len(), bucket, func(from, to int) {
			s := 0.0
			for _, x := range g {
				s = max(s, scale(x[from:to]))
			}
			for r, x := range g {
				for i := from; i < to && s > 0; i++ {
					out[r].lo[i], out[r].hi[i], mean[r][i] = onLevels(x[i], s, levels, random)
				}
			}
		})
		for r := range out {
			if random {
				out[r].mean = mean[r]
			}
		}
		return out
	}
}

func qsgdFormula(f compress.QSGD, _ compress.Block, g []float64, _ compress.Step) want {
	norm := largest
	if f.Norm == "l2" {
		norm = func(x []float64) float64 { return math.Sqrt(square(x)) }
	}
	return levelsFormula(g, f.Bucket, float64(int(1)<<(f.Bits-1)-1), true, norm)
}

func square(x []float64) (s float64) {
	for _, v := range x {
		s += v * v
	}
	return s
}

// ternScale is max|x|, or clip·σ where that is less, though not below |mean|.
func ternScale(x []float64, clip float64) float64 {
	if clip == 0 {
		return largest(x)
	}
	mean, variance := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += sq(v-mean) / float64(len(x))
	}
	return min(largest(x), max(clip*math.Sqrt(variance), math.Abs(mean)))
}

func uniformFormula(f compress.Uniform, _ compress.Block, g []float64, _ compress.Step) want {
	random := f.Round == "stochastic"
	if f.Range == "symmetric" {
		return levelsFormula(g, f.Bucket, float64(int(1)<<f.Bits-2)/2, random, largest)
	}
	w := pairs(len(g), func(i int) (lo, hi float64) { return g[i], g[i] })
	inBuckets(len(g), f.Bucket, func(from, to int) {
		low, high := math.Inf(1), math.Inf(-1)
		for _, v := range g[from:to] {
			low, high = min(low, v), max(high, v)
		}
		u := (high - low) / float64(int(1)<<f.Bits-1)
		for i := from; i < to && u > 0; i++ {
			lo, hi := between((g[i]-low)/u, random)
			w.lo[i], w.hi[i] = low+lo*u, low+hi*u
		}
	})
	if random {
		w.mean = g
	}
	return w
}
