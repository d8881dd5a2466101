// Package coin is a gradient codec that lives outside gradlab. Importing it is
// all it takes: its Families.Add line puts it into spec text, recipes, listings
// and benchmarks, as main.go beside it shows.
package coin

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress"
)

// coin tosses one for every element and sends those that come up.
//
//	C(g)ᵢ = gᵢ/p with probability p, else 0
//
// Unbiased with ω = 1/p − 1, an equality on every vector. Sender and receiver
// toss the same coins, so no positions travel: p·32 bits an element.
// Tuning: without feedback, and a rate scaled by p.

var _ = compress.Families.Add("coin", "each entry with a fixed probability", Coin{P: 0.5})

// Coin sends each entry with probability P.
type Coin struct {
	P float64 `spec:",show" doc:"probability of an entry, in (0, 1]"`
}

// Validate checks the options; the error is what a user of spec text sees.
func (f Coin) Validate() error {
	if !(f.P > 0 && f.P <= 1) {
		return fmt.Errorf(`option "p": want a probability in (0, 1], not %v`, f.P)
	}
	return nil
}

// Claims is what the conformance suite proves.
func (f Coin) Claims(b compress.Block) compress.Claims {
	omega := 1/f.P - 1
	return compress.Claims{Unbiased: true, Omega: omega, Delta: max(0, 1-omega), Size: 4 * b.Len(), Homogeneous: true}
}

// Witness is any vector: the bound is an equality.
func (f Coin) Witness(b compress.Block) []float32 {
	x := make([]float32, b.Len())
	for i := range x {
		x[i] = 1
	}
	return x
}

// New makes a codec without state. Draws are addressed by the run's seed, the
// block, the sender and the step, never by the order in which things run.
func (f Coin) New(b compress.Block) (compress.Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return &codec{d: b.Len(), p: f.P, inverse: float32(1 / f.P), rank: b.Rank, draws: compress.Stream("coin", b, false)}, nil
}

type codec struct {
	d, rank int
	p       float64
	inverse float32
	draws   compress.Draws
}

// coins are the tosses of a sender in a step.
func (c *codec) coins(rank, step int) compress.Draws {
	return c.draws.With(uint64(rank)).With(uint64(step))
}

// Append sends values that have come up. It leaves dst as it was when it refuses.
func (c *codec) Append(dst []byte, g []float32, s compress.Step) ([]byte, error) {
	for _, v := range g {
		if v = v * c.inverse; v-v != 0 { // NaN, Inf, or too large to scale
			return dst, compress.ErrNotFinite
		}
	}
	coins := c.coins(c.rank, s.N)
	for i, v := range g {
		if coins.Float64(uint64(i)) < c.p {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
		}
	}
	return dst, nil
}

// AddTo checks everything before it writes anything: any bytes may come in.
func (c *codec) AddTo(dst []float32, scale float32, p []byte, from compress.From) error {
	coins, n := c.coins(from.Rank, from.Step), 0
	for i := range c.d {
		if coins.Float64(uint64(i)) < c.p {
			n++
		}
	}
	if len(p) != 4*n {
		return compress.Corruptf("%d bytes, want %d", len(p), 4*n)
	}
	for q := p; len(q) > 0; q = q[4:] {
		if v := value(q) * c.inverse; v-v != 0 {
			return compress.Corruptf("value %v", v)
		}
	}
	for i := range c.d {
		if coins.Float64(uint64(i)) < c.p {
			dst[i] += scale * (value(p) * c.inverse)
			p = p[4:]
		}
	}
	return nil
}

func value(p []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(p)) }
