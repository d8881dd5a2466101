package compress

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

var _ = Families.Add("randomk", "k random entries, the same on all ranks; sums", RandomK{Keep: 0.01})

// RandomK keeps k random elements, the same ones on every rank.
//
//	C(g)ᵢ = c·gᵢ if i ∈ S, else 0;  S a uniform k-subset, k = max(1, ⌈keep·d⌉)
//	c = 1, or d/k with scaled=true
//
// Stich et al. 2018 (arXiv 1809.07599), definition 2.1 and lemma A.1: a
// contraction with δ = k/d; scaled it is unbiased with ω = d/k − 1.
//
// Departures: S is drawn without replacement from (seed, block, step), so no
// indices travel, and distinct blocks and steps have unrelated supports.
//
// Tuning: feedback(randomk(keep=0.01)); scaled without feedback.
//
// Cost: 4k bytes and about k draws; the only sparsifier here that sums, so it
// takes the all-reduce road.
type RandomK struct {
	Keep   float64 `spec:",show" doc:"fraction kept, in (0, 1]"`
	Scaled bool    `doc:"multiply by d/k: unbiased"`
}

// Validate checks the options.
func (f RandomK) Validate() error { return validKeep(f.Keep) }

// Claims: the lemma above.
func (f RandomK) Claims(b Block) Claims {
	d := b.Len()
	k := kept(f.Keep, d)
	c := Claims{Delta: 1, Size: 4 * k, Exact: true, Linear: FloatSum, Homogeneous: true}
	switch {
	case k == d:
		c.Lossless, c.Unbiased = true, true
	case f.Scaled:
		c.Unbiased, c.Omega = true, float64(d)/float64(k)-1
		c.Delta = max(0, 1-c.Omega)
	default:
		c.Delta = float64(k) / float64(d)
	}
	return c
}

// Witness is any vector: the bounds are equalities.
func (RandomK) Witness(b Block) []float32 { return constant(b.Len(), 1) }

// New makes a codec without state.
func (f RandomK) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	c := &randomK{d: b.Len(), set: newSubset(b.Len()), k: kept(f.Keep, b.Len()), scale: 1, key: stream("randomk", b, false)}
	if f.Scaled && c.k > 0 {
		c.scale = float32(float64(c.d) / float64(c.k))
	}
	return c, nil
}

type randomK struct {
	d, k  int
	set   subset
	scale float32 // applied by the receiver
	key   rng.Key
}

// fits reports whether values up to m stay finite when scaled.
func (c *randomK) fits(m float32) bool { return c.scale*m <= math.MaxFloat32 }

// order is that of the draws of a step.
func (c *randomK) order(step int) *order { return c.set.order(c.key.With(uint64(step)), c.k) }

func (c *randomK) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.d)
	if !c.fits(f32.MaxAbs(g)) {
		return dst, ErrNotFinite
	}
	dst = slices.Grow(dst, 4*c.k)
	o := c.order(s.N)
	defer o.release()
	var v [batch]float32
	for first := 0; first < c.k; first += batch {
		at := o.from(first)
		for j, i := range at {
			v[j] = g[i]
		}
		dst = f32.AppendBytes(dst, v[:len(at)])
	}
	return dst, nil
}

func (c *randomK) AddTo(dst []float32, scale float32, p []byte, from From) error {
	checkLen(len(dst), c.d)
	if len(p) != 4*c.k {
		return Corruptf("%d bytes, want %d", len(p), 4*c.k)
	}
	var v [batch]float32
	for first := 0; first < c.k; first += batch {
		part := v[:min(batch, c.k-first)]
		f32.FromBytes(part, p[4*first:][:4*len(part)])
		if m := f32.MaxAbs(part); !c.fits(m) {
			return Corruptf("a value of magnitude %v is too large", m)
		}
	}
	o := c.order(from.Step)
	defer o.release()
	for first := 0; first < c.k; first += batch {
		at := o.from(first)
		f32.FromBytes(v[:len(at)], p[4*first:][:4*len(at)])
		c.add(dst, scale, v[:len(at)], at)
	}
	return nil
}

// add adds scale times values to the elements at some positions.
func (c *randomK) add(dst []float32, scale float32, v []float32, at []int) {
	for j, i := range at {
		dst[i] += float32(scale * float32(c.scale*v[j]))
	}
}

func (c *randomK) WireLen() int { return c.k }

func (c *randomK) Wire() Wire { return F32 }

func (c *randomK) Project(dst, g []float32, s Step) error {
	checkLen(len(g), c.d)
	if !c.fits(f32.MaxAbs(g)) {
		return ErrNotFinite
	}
	o := c.order(s.N)
	defer o.release()
	for first := 0; first < c.k; first += batch {
		for j, i := range o.from(first) {
			dst[first+j] = g[i]
		}
	}
	return nil
}

func (c *randomK) Lift(dst []float32, scale float32, sum []float32, s Step) error {
	checkLen(len(dst), c.d)
	if !c.fits(f32.MaxAbs(sum)) {
		return errSumOverflow("f32")
	}
	o := c.order(s.N)
	defer o.release()
	for first := 0; first < c.k; first += batch {
		at := o.from(first)
		c.add(dst, scale, sum[first:], at)
	}
	return nil
}

func errSumOverflow(format string) error {
	return fmt.Errorf("%w: the sum over the ranks overflows %s", ErrNotFinite, format)
}
