package compress

import (
	"fmt"
	"math"

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
		residual: residual{d: b.Len(), decay: 1}, bin: min(f.Bin, max(1, b.Len())),
		hits: hits{d: b.Len(), most: b.Len(), index: word(f.Index, "rice")},
	}, nil
}

type adaComp struct {
	residual
	hits  hits
	bin   int
	marks marks
	most  []float32 // of each bin of some
	tau   []float32 // the same for every element of a strip
}

func (c *adaComp) Append(dst []byte, g []float32, _ Step) ([]byte, error) {
	c.start(g)
	d := c.residual.d
	c.marks.begin(d)
	var sum float64
	bins := 0
	// Whole bins that stay near, and whole bytes of a mask.
	many := 8 * max(1, strip/8/c.bin)
	for lo := 0; lo < d; lo += many * c.bin {
		hi := min(lo+many*c.bin, d)
		c.mix(g, lo, hi) // p = G
		c.most = c.most[:0]
		for at := lo; at < hi; at += c.bin {
			most := f32.MaxAbs(c.p[at:min(at+c.bin, hi)])
			if !(most <= math.MaxFloat32) {
				return dst, ErrNotFinite
			}
			sum += float64(most)
			bins++
			c.most = append(c.most, most)
		}
		c.choose(g, lo, hi)
	}
	s := float32(sum / float64(max(1, bins)))
	dst = formatF32.put(dst, s)
	dst = c.hits.appendSigns(dst, &c.marks)
	codec.AddSigned(c.p, c.marks.mask, c.marks.signs, -s)
	c.settle()
	return dst, nil
}

// choose marks the elements from lo, where a bin begins, to hi where |G + g| is at least
// what c.most says. Of a bin of zeros it marks none.
func (c *adaComp) choose(g []float32, lo, hi int) {
	c.tau = resize(c.tau, strip)
	for first := lo; lo < hi; lo += strip {
		end := min(lo+strip, hi)
		for at := lo; at < end; {
			bin := (at - first) / c.bin
			to, most := min(end, first+(bin+1)*c.bin), c.most[bin]
			if most == 0 {
				most = float32(math.Inf(1))
			}
			f32.Fill(c.tau[at-lo:to-lo], most)
			at = to
		}
		p, mask := c.p[lo:end], c.marks.of(lo, end)
		codec.SumsReach(mask, p, g[lo:end], c.tau[:end-lo])
		c.marks.sign(p, mask)
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
