package compress

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/portable"
)

var _ = Families.Add("sidco", "entries beyond a threshold fitted to their law",
	SIDCo{Keep: 0.001, Law: "exponential", First: 0.25, Tolerance: 0.2, Index: "rice", Values: "f32"})

// SIDCo keeps about k elements: those beyond a threshold that is computed from a
// law fitted to the magnitudes, instead of being searched for.
//
//	law=exponential: η = μ·ln(1/ρ)
//	law=pareto:      η = β/α·(ρ^−α − 1),  α = ½(1 − μ²/σ²),  β = ½μ(μ²/σ² + 1)
//	stages: what lies beyond η₁ is fitted again, less η₁, and so on; every stage
//	keeps ρ = max(first, k/n) of the n elements before it
//
// Abdelmoniem et al. 2021 (SIDCo, arXiv 2101.10761), algorithm 1: μ and σ² are
// mean and variance of the magnitudes, or of their excess over the last stage's
// threshold. Excesses over high thresholds tend to the generalised Pareto law
// whatever the magnitudes follow.
//
// Departures: they keep a number of stages and change it every few steps until
// what is kept is within tolerance of k. Here each encoding goes on from the
// number that a stage did keep and stops within tolerance, so there is no state.
// The largest magnitude is always sent, so ‖C(g)−g‖² ≤ (1 − 1/d)‖g‖².
//
// Tuning: feedback(sidco(keep=0.001)); first=0.25 and tolerance=0.2 are theirs.
// pareto for heavy tails. A vector whose magnitudes are all alike sends all.
//
// Cost: two passes, then one over each stage's tail; no sort and no histogram.
//
// Payload: see hits.go.
type SIDCo struct {
	Keep      float64 `spec:",show" doc:"fraction aimed at, in (0, 1]"`
	Law       string  `doc:"exponential or pareto"`
	First     float64 `doc:"least fraction that a stage keeps, in (0, 1)"`
	Tolerance float64 `doc:"relative excess over the fraction aimed at that needs no further stage, above 0"`
	Index     string  `doc:"index coding: rice, varint, bitmap or raw32"`
	Values    string  `doc:"value format: f32, bf16 or fp16"`
}

// Validate checks the options.
func (f SIDCo) Validate() error {
	if err := oneOf("law", f.Law, "exponential", "pareto"); err != nil {
		return err
	}
	if !(f.First > 0 && f.First < 1) {
		return fmt.Errorf(`option "first": want a fraction in (0, 1), not %v`, f.First)
	}
	if !(f.Tolerance > 0) || math.IsInf(f.Tolerance, 0) {
		return fmt.Errorf(`option "tolerance": want a number above 0, not %v`, f.Tolerance)
	}
	return CLTK{Keep: f.Keep, Index: f.Index, Values: f.Values}.Validate()
}

// Claims: the bound above, less the rounding of values.
func (f SIDCo) Claims(b Block) Claims {
	d, v := b.Len(), formatOf(f.Values)
	return Claims{
		Delta: (1 - float64(v.unit*v.unit)) / float64(max(1, d)), Size: hitsMaxLen(word(f.Index, "rice"), d, d, 8*v.size),
		Homogeneous: v != &formatFP16,
	}
}

// New makes a codec without state.
func (f SIDCo) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return &sidco{
		hits:   hits{d: b.Len(), most: b.Len(), index: word(f.Index, "rice"), values: formatOf(f.Values)},
		family: f, pareto: word(f.Law, "exponential") == "pareto", val: []float32{},
	}, nil
}

type sidco struct {
	hits
	family SIDCo
	pareto bool
	tail   []float32 // magnitudes beyond the last threshold
	idx    []uint32
	val    []float32 // the elements there
}

// stagesMax ends the search on laws that no stage brings nearer to k.
const stagesMax = 20

func (c *sidco) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	checkLen(len(g), c.d)
	var all excess
	if all.add(g, 0, c.pareto); !(all.sum <= math.MaxFloat64) { // finite elements cannot overflow it
		return dst, ErrNotFinite
	}
	c.idx, c.val = c.idx[:0], c.val[:0]
	if all.sum > 0 {
		tau := math.Float32bits(c.threshold(g, all))
		c.idx, c.val, _ = codec.AppendReaching(c.idx, c.val, g, tau)
	}
	return c.appendValues(dst, c.val, c.idx), nil
}

// threshold is the magnitude from which elements are sent, above 0 and at most that of
// the largest. e has the sums over g.
func (c *sidco) threshold(g []float32, e excess) float32 {
	k, tail, eta := float64(kept(c.family.Keep, c.d)), g, 0.0
	for range stagesMax {
		eta += e.quantile(max(c.family.First, k/e.n), c.pareto)
		if tail, e = c.beyond(tail, eta); e.n == 0 {
			return f32.MaxAbs(g)
		}
		if e.n <= k*(1+c.family.Tolerance) {
			break
		}
	}
	return max(float32(eta), math.SmallestNonzeroFloat32)
}

// beyond keeps the magnitudes of x that are at least eta, in c.tail, where x may lie, and
// sums up by how much they exceed it.
func (c *sidco) beyond(x []float32, eta float64) (tail []float32, e excess) {
	if !(eta <= math.MaxFloat32) {
		return nil, e
	}
	tau := float32(max(0, eta))
	if float64(tau) < eta {
		tau = math.Nextafter32(tau, math.MaxFloat32)
	}
	tail = c.tail[:0]
	const strip = 256 // so that sums, which wait for one another, overlap with what comes next
	for lo := 0; lo < len(x); lo += strip {
		part, n := x[lo:min(lo+strip, len(x))], len(tail)
		tail = slices.Grow(tail, len(part))[:n+len(part)]
		tail = tail[:n+codec.Between(tail[n:], part, math.Float32bits(tau), 1<<31)]
		e.add(tail[n:], eta, c.pareto)
	}
	c.tail = tail
	return tail, e
}

// excess is sums over magnitudes: of how far they are beyond some number.
type excess struct{ n, sum, square float64 }

// add adds the magnitudes of x, in order; their squares if they are wanted.
func (e *excess) add(x []float32, from float64, squares bool) {
	e.n += float64(len(x))
	if !squares {
		e.sum = codec.SumOver(x, from, e.sum)
		return
	}
	for _, v := range x {
		by := math.Abs(float64(v)) - from
		e.sum += by
		e.square += float64(by * by)
	}
}

// quantile is what the law fitted to the excess has the fraction rho beyond.
func (e *excess) quantile(rho float64, pareto bool) float64 {
	mean := e.sum / e.n
	variance := e.square/e.n - float64(mean*mean)
	if ratio := float64(mean*mean) / variance; pareto && variance > 0 && ratio != 1 {
		shape, scale := (1-ratio)/2, float64(mean*(ratio+1))/2
		return scale / shape * (portable.Pow(rho, -shape) - 1)
	}
	return mean * portable.Log(1/rho)
}
