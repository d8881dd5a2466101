package compresstest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/compress"
)

// keeps is how many of d elements a fraction is.
func keeps(fraction float64, d int) int {
	return min(d, max(1, int(math.Ceil(fraction*float64(d)-1e-9))))
}

// choice says what becomes of an element: left out, sent, or one of the two, where
// rounding in float32 decides.
type choice uint8

const (
	left choice = iota
	sent
	either     // left out by the order of exact values
	eitherSent // sent by it
)

// near is how far apart magnitudes must be for rounding not to change their order.
const near = 1e-5

// top chooses the k largest magnitudes, of equal ones the first.
func top(g []float64, k int) []choice {
	order := make([]int, len(g))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(math.Abs(g[b]), math.Abs(g[a])) })
	out := make([]choice, len(g))
	for _, i := range order[:k] {
		out[i] = sent
	}
	if k == len(g) {
		return out
	}
	cut, alike := math.Abs(g[order[k-1]]), true
	var doubtful []int
	for i, v := range g {
		if v = math.Abs(v); math.Abs(v-cut) <= near*cut {
			doubtful = append(doubtful, i)
			alike = alike && v == cut
		}
	}
	for _, i := range doubtful {
		if !alike && out[i] == left {
			out[i] = either
		} else if !alike {
			out[i] = eitherSent
		}
	}
	return out
}

// chosen is a want of the values fn gives where elements are sent, else zeros.
func chosen(c []choice, fn func(i int) float64) want {
	return pairs(len(c), func(i int) (lo, hi float64) {
		if c[i] == left {
			return 0, 0
		}
		hi = fn(i)
		if c[i] == sent {
			return hi, hi
		}
		return 0, hi
	})
}

// topOf chooses a fraction of every chunk.
func topOf(g []float64, keep float64, chunk int) []choice {
	var out []choice
	inBuckets(len(g), chunk, func(from, to int) { out = append(out, top(g[from:to], keeps(keep, to-from))...) })
	return out
}

func topKFormula(f compress.TopK, _ compress.Block, g []float64, _ compress.Step) want {
	value := func(i int) float64 { return halves[f.Values].nearest(g[i]) }
	c := topOf(g, f.Keep, f.Chunk)
	if f.Sampled {
		if w, ok := sampledFormula(g, keeps(f.Keep, len(g)), value); ok {
			return w
		}
	}
	return doubtful(chosen(c, value), g, f.Values)
}

// doubtful lets values that lie between two of their format go either way.
func doubtful(w want, g []float64, values string) want {
	h := halves[values]
	for i, v := range g {
		if lo, hi := between(v/h.unit(v), false); values != "" && values != "f32" && lo < hi && w.lo[i] == w.hi[i] && w.lo[i] != 0 {
			w.lo[i], w.hi[i] = lo*h.unit(v), hi*h.unit(v)
		}
	}
	return w
}

// sampledFormula is that of vectors long enough to be sampled: ⌈k/2⌉ to 2k elements
// go, and none that is left out is larger than one that goes.
func sampledFormula(g []float64, k int, value func(i int) float64) (want, bool) {
	if len(g) < 1<<15 {
		return want{}, false
	}
	w := pairs(len(g), func(i int) (lo, hi float64) { return 0, value(i) })
	w.law = func(out []float64) error {
		n, least, most := 0, math.Inf(1), 0.0
		for i, v := range out {
			if v != 0 {
				n++
				least = min(least, math.Abs(g[i]))
			} else {
				most = max(most, math.Abs(g[i]))
			}
		}
		if n < (k+1)/2 || n > 2*k {
			return fmt.Errorf("%d elements of %d sent, want %d or so", n, len(g), k)
		}
		if most > least*(1+near) {
			return fmt.Errorf("an element of %.6g is sent, one of %.6g is not", least, most)
		}
		return nil
	}
	return w, true
}

func sparseLoCoFormula(f compress.SparseLoCo, _ compress.Block, g []float64, _ compress.Step) want {
	c := topOf(g, f.Keep, f.Chunk)
	var n, sum float64
	for i, v := range g {
		if c[i] == sent || c[i] == eitherSent { // those in doubt are alike
			n, sum = n+1, sum+math.Abs(v)
		}
	}
	mean := sum / n
	var sums, counts [2]float64
	group := func(v float64) int {
		if math.Abs(v) > mean {
			return 1
		}
		return 0
	}
	for i, v := range g {
		if c[i] == sent || c[i] == eitherSent {
			sums[group(v)] += math.Abs(v)
			counts[group(v)]++
		}
	}
	values := [2]float64{sums[0] / max(1, counts[0]), sums[1] / max(1, counts[1])}
	w := chosen(c, func(i int) float64 { return signed(values[group(g[i])], g[i]) })
	for i, v := range g { // magnitudes that are all alike are their mean
		if c[i] == sent && math.Abs(math.Abs(v)-mean) <= near*mean {
			w.lo[i], w.hi[i] = signed(values[0], v), signed(values[1], v)
			if counts[0] == 0 || counts[1] == 0 {
				w.lo[i], w.hi[i] = v, v
			}
		}
	}
	return w
}

func randomKFormula(f compress.RandomK, _ compress.Block, g []float64, _ compress.Step) want {
	d := len(g)
	k := keeps(f.Keep, d)
	scale, mean := 1.0, make([]float64, d)
	if f.Scaled {
		scale = float64(d) / float64(k)
	}
	full := true
	for i, v := range g {
		mean[i], full = scale*v*float64(k)/float64(d), full && v != 0
	}
	w := pairs(d, func(i int) (lo, hi float64) { return 0, scale * g[i] })
	if k == d {
		w.lo = w.hi
	}
	w.mean = mean
	w.law = func(out []float64) error {
		n := 0
		for _, v := range out {
			if v != 0 {
				n++
			}
		}
		if n > k || full && n < k {
			return fmt.Errorf("%d elements sent, want %d", n, k)
		}
		return nil
	}
	return w
}

// reaching sends value of the elements from magnitude tau on.
func reaching(g []float64, tau float64, value func(v float64) float64) want {
	c := make([]choice, len(g))
	for i, v := range g {
		switch v = math.Abs(v); {
		case math.Abs(v-tau) <= 1e-6*tau && v != tau:
			c[i] = either
		case v >= tau:
			c[i] = sent
		}
	}
	return chosen(c, func(i int) float64 { return value(g[i]) })
}

func sidcoFormula(f compress.SIDCo, _ compress.Block, g []float64, _ compress.Step) want {
	value := func(v float64) float64 { return halves[f.Values].nearest(v) }
	most, k := largest(g), float64(keeps(f.Keep, len(g)))
	if most == 0 {
		return exactly(make([]float64, len(g)))
	}
	tail := make([]float64, len(g)) // magnitudes not below eta
	for i, v := range g {
		tail[i] = math.Abs(v)
	}
	eta := 0.0
	for range 20 {
		n := float64(len(tail))
		var mean, variance float64
		for _, v := range tail {
			mean += (v - eta) / n
		}
		for _, v := range tail {
			variance += sq(v-eta-mean) / n
		}
		rho := max(f.First, k/n)
		step := mean * math.Log(1/rho)
		if f.Law == "pareto" && variance > 1e-12*sq(mean) && math.Abs(sq(mean)/variance-1) > 1e-9 {
			alpha := (1 - sq(mean)/variance) / 2
			beta := mean * (sq(mean)/variance + 1) / 2
			step = beta / alpha * (math.Exp(-alpha*math.Log(rho)) - 1)
		}
		if eta += step; eta >= most {
			eta = most
			break
		}
		var beyond []float64
		for _, v := range tail {
			if v >= eta {
				beyond = append(beyond, v)
			}
		}
		if tail = beyond; float64(len(tail)) <= k*(1+f.Tolerance) {
			break
		}
	}
	w := reaching(g, eta, value)
	w.law = func(out []float64) error {
		for i, v := range g {
			if math.Abs(v) == most && out[i] == 0 {
				return fmt.Errorf("the largest element is not sent")
			}
		}
		return nil
	}
	return doubtful(w, g, f.Values)
}

// stromFormula is a memory around ±tau.
func stromFormula(f compress.Family, blocks []compress.Block, _ bool) (formula, error) {
	tau := float64(float32(f.(compress.Strom).Tau))
	in := plain{blocks, func(_ compress.Block, g []float64, _ compress.Step) want {
		return reaching(g, tau, func(v float64) float64 { return signed(tau, v) })
	}}
	return newFed(in, blocks, 1, 0), nil
}

// adaComp has a residual for each rank.
type adaComp struct {
	f compress.AdaComp
	r [][]float64
	g [][]float64 // G = r + g
}

func adaCompFormula(f compress.Family, blocks []compress.Block, _ bool) (formula, error) {
	return &adaComp{f: f.(compress.AdaComp), r: zeros(blocks)}, nil
}

func zeros(blocks []compress.Block) [][]float64 {
	var out [][]float64
	for _, b := range blocks {
		out = append(out, make([]float64, b.Len()))
	}
	return out
}

func (a *adaComp) expect(g [][]float64, _ compress.Step) (out []want) {
	a.g = nil
	for rank, x := range g {
		sum := stored(combine(x, 1, a.r[rank]))
		a.g = append(a.g, sum)
		c, scale, bins := make([]choice, len(x)), 0.0, 0.0
		inBuckets(len(x), a.f.Bin, func(from, to int) {
			most := largest(sum[from:to])
			scale, bins = scale+most, bins+1
			for i := from; i < to && most > 0; i++ {
				switch h := math.Abs(sum[i] + x[i]); {
				case math.Abs(h-most) <= near*most && h != most:
					c[i] = either
				case h >= most:
					c[i] = sent
				}
			}
		})
		scale /= bins
		out = append(out, chosen(c, func(i int) float64 { return signed(scale, sum[i]) }))
	}
	return within(out, g, a.r)
}

func (a *adaComp) took(out [][]float64) {
	for rank := range out {
		a.r[rank] = stored(combine(a.g[rank], -1, out[rank]))
	}
}

// combine is x + by·y.
func combine(x []float64, by float64, y []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] + by*y[i]
	}
	return out
}

// dgc has a velocity and an accumulation for each rank.
type dgc struct {
	f      compress.DGC
	world  int
	u, v   [][]float64
	picked [][]choice
}

func dgcFormula(f compress.Family, blocks []compress.Block, _ bool) (formula, error) {
	return &dgc{f: f.(compress.DGC), world: blocks[0].World, u: zeros(blocks), v: zeros(blocks)}, nil
}

func (a *dgc) expect(g [][]float64, s compress.Step) (out []want) {
	at, stages := s.Epoch, math.Ceil(a.f.Warmup)
	if a.f.Unit == "steps" {
		at, stages = float64(s.N), 4
	}
	if a.f.Stages > 0 {
		stages = float64(a.f.Stages)
	}
	keep := a.f.Keep
	if at < a.f.Warmup {
		keep = math.Pow(keep, (math.Floor(at/a.f.Warmup*stages)+1)/(stages+1))
	}
	a.picked = nil
	for rank, x := range g {
		clip := 1.0
		if limit := a.f.Clip / math.Sqrt(float64(max(1, a.world))); limit > 0 {
			clip = min(1, limit/math.Sqrt(square(x)))
		}
		a.u[rank] = stored(combine(combine(make([]float64, len(x)), clip, x), a.f.Momentum, a.u[rank]))
		a.v[rank] = stored(combine(a.v[rank], 1, a.u[rank]))
		v, k := a.v[rank], keeps(keep, len(x))
		value := func(i int) float64 { return halves[a.f.Values].nearest(v[i]) }
		a.picked = append(a.picked, top(v, k))
		if w, ok := sampledFormula(v, k, value); a.f.Sampled && ok {
			out = append(out, w)
			continue
		}
		out = append(out, doubtful(chosen(a.picked[rank], value), v, a.f.Values))
	}
	return within(out, g, a.v)
}

func (a *dgc) took(out [][]float64) {
	for rank, x := range out {
		for i, v := range x {
			if a.v[rank][i] -= v; v != 0 || a.picked[rank][i] == sent {
				a.u[rank][i] = 0
			}
		}
		stored(a.v[rank])
	}
}

// cltk has the number of exchanges so far.
type cltk struct {
	f    compress.CLTK
	turn int
}

func cltkFormula(f compress.Family, blocks []compress.Block, together bool) (formula, error) {
	c := f.(compress.CLTK)
	kept := 0
	inBuckets(blocks[0].Len(), c.Chunk, func(from, to int) { kept += keeps(c.Keep, to-from) })
	if !together || kept == blocks[0].Len() {
		return formulas["topk"](compress.TopK{Keep: c.Keep, Values: c.Values, Chunk: c.Chunk}, blocks, false)
	}
	return &cltk{f: c}, nil
}

func (a *cltk) expect(g [][]float64, _ compress.Step) (out []want) {
	leader := g[a.turn%len(g)]
	c := topOf(leader, a.f.Keep, a.f.Chunk)
	for _, x := range g {
		w := chosen(c, func(i int) float64 { return halves[a.f.Values].nearest(x[i]) })
		out = append(out, doubtful(w, x, a.f.Values))
	}
	return out
}

func (a *cltk) took([][]float64) { a.turn++ }

// sketchFormula: candidates are the largest medians of what the rows of a table tell
// of the sum, and those k of them go whose sum is largest.
func sketchFormula(f compress.Family, blocks []compress.Block, together bool) (formula, error) {
	s, d := f.(compress.Sketch), blocks[0].Len()
	k := keeps(s.Keep, d)
	columns := int(math.Ceil(s.Width * float64(k)))
	if !together || columns*s.Rows+s.Fetch*k >= d {
		return formulas["topk"](compress.TopK{Keep: s.Keep}, blocks, false)
	}
	return joint(func(g [][]float64, step compress.Step) (out []want) {
		sum := make([]float64, d)
		for _, x := range g {
			sum = combine(sum, 1, x)
		}
		// 32 bits of a draw are the column of an element, the last of them its sign.
		draws := compress.Stream("sketch", blocks[0], false).With(uint64(step.N))
		cell := func(i, row int) (column int, sign float64) {
			bits := uint32(draws.Uint64(uint64(8*i+row/2)) >> (32 * (row % 2)))
			return int(uint64(bits>>1) * uint64(columns) >> 31), 1 - 2*float64(bits&1)
		}
		told := make([][]float64, d)
		for row := range s.Rows {
			table := make([]float64, columns)
			for i, v := range sum {
				at, sign := cell(i, row)
				table[at] += sign * v
			}
			for i := range sum {
				at, sign := cell(i, row)
				told[i] = append(told[i], sign*table[at])
			}
		}
		estimates := make([]float64, d)
		for i, t := range told {
			slices.Sort(t)
			estimates[i] = t[s.Rows/2]
		}
		candidates, doubt := make([]float64, d), false
		for i, c := range top(estimates, k*s.Fetch) {
			doubt = doubt || c == either || c == eitherSent
			if c == sent {
				candidates[i] = sum[i]
			}
		}
		best := top(candidates, k)
		for i, c := range best {
			if doubt || c != left && candidates[i] == 0 { // rounding may let another in
				best[i] = either
			}
		}
		for _, x := range g {
			w := chosen(best, func(i int) float64 { return x[i] })
			w.law = func(out []float64) error {
				n := 0
				for _, v := range out {
					if v != 0 {
						n++
					}
				}
				if n > k {
					return fmt.Errorf("%d elements sent, want %d", n, k)
				}
				return nil
			}
			out = append(out, w)
		}
		return out
	}), nil
}
