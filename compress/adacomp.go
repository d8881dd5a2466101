package compress

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
)

var _ = Families.Add("adacomp", "what is about to become a bin's largest", AdaComp{Bin: 500, Index: "rice"})

// AdaComp sends, in every bin, the elements that are about to become the
// largest.
//
//	G = r + g;  H = G + g;  send i if |Hᵢ| ≥ max|G| of its bin;  value ±s,
//	s = the mean over bins of max|G|;  r = G − sent
//
// Chen et al. 2018 (arXiv 1712.02679), algorithm 2: how many travel follows from
// the activity of the layer, with no ratio to set.
//
// Departures: gaps between positions are Rice coded, where the paper has 8 or 16
// bits each.
//
// Tuning: bin=50 for convolutions, 500 for dense layers, as in the paper; a
// larger bin sends less. It is its own feedback, and its scale is not a bound on
// what is left: watch ResidualNorm.
//
// Cost: two passes.
//
// Payload: s as float32, then see hits.go, with signs.
type AdaComp struct {
	Bin   int    `spec:",show" doc:"elements a bin"`
	Index string `doc:"index coding: rice, varint, bitmap or raw32"`
}

// Validate checks the options.
func (f AdaComp) Validate() error {
	if f.Bin < 1 {
		return fmt.Errorf(`option "bin": want at least 1 element, not %d`, f.Bin)
	}
	return oneOf("index", f.Index, indexCodings...)
}

// Claims: state, and a bound on the size.
func (f AdaComp) Claims(b Block) Claims {
	return Claims{Size: 4 + hitsMaxLen(word(f.Index, "rice"), b.Len(), b.Len(), 1), Stateful: true, Remembers: true}
}

// New makes a codec whose state is the residual.
func (f AdaComp) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return &adaComp{
		residual: residual{d: b.Len(), decay: 1}, bin: f.Bin,
		hits: hits{d: b.Len(), most: b.Len(), index: word(f.Index, "rice")},
	}, nil
}

type adaComp struct {
	residual
	hits hits
	bin  int
	idx  []uint32
	val  []float32 // G there
	h    []float32 // G + g of a strip
}

func (c *adaComp) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	c.start(g)
	d := c.residual.d
	c.idx, c.val = c.idx[:0], c.val[:0]
	var sum float64
	bins := 0
	for lo := 0; lo < d; lo += c.bin {
		hi := min(lo+c.bin, d)
		most := f32.MaxAbs(c.mix(g, lo, hi)) // p = G
		if !(most <= math.MaxFloat32) {
			return dst, ErrNotFinite
		}
		sum += float64(most)
		bins++
		if most > 0 {
			c.choose(g, lo, hi, most)
		}
	}
	s := float32(sum / float64(max(1, bins)))
	dst = formatF32.put(dst, s)
	dst = c.hits.appendSigns(dst, c.val, c.idx)
	takeOff(c.p, c.idx, c.val, s)
	c.settle()
	return dst, nil
}

// choose appends the positions from lo to hi where |G + g| is at least most, and G there.
// A sum may be infinite.
func (c *adaComp) choose(g []float32, lo, hi int, most float32) {
	for ; lo < hi; lo += strip {
		n := min(strip, hi-lo)
		c.h = resize(c.h, n)
		first := len(c.idx)
		f32.AxpyTo(c.h, c.p[lo:lo+n], 1, g[lo:lo+n])
		c.idx, c.val = slices.Grow(c.idx, n)[:first+n], slices.Grow(c.val, n)[:first+n]
		hits := codec.Reaching(c.idx[first:], c.val[first:], c.h, math.Float32bits(most), uint32(lo))
		c.idx, c.val = c.idx[:first+hits], c.val[:first+hits]
		for j, i := range c.idx[first:] {
			c.val[first+j] = c.p[i]
		}
	}
}

func (c *adaComp) AddTo(dst []float32, scale float32, p []byte, from From) error {
	checkLen(len(dst), c.residual.d)
	if len(p) < 4 {
		return Corruptf("%d bytes, want a scale", len(p))
	}
	if err := checkNorms(p[:4]); err != nil {
		return err
	}
	h := c.hits
	h.unit = formatF32.get(p, 0)
	return h.AddTo(dst, scale, p[4:], from)
}

// AppendBinary appends the residual.
func (c *adaComp) AppendBinary(b []byte) ([]byte, error) { return c.appendTo(b), nil }

// UnmarshalBinary restores it.
func (c *adaComp) UnmarshalBinary(b []byte) error { return c.restore(b, nil) }
