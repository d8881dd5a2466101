package compress

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/f32"
)

var _ = Families.Add("intsum", "integers of a scale that all ranks share; sums",
	IntSum{Bits: 8, Round: "stochastic", Bucket: 512})

// IntSum quantises by scales that all ranks share, so that whole numbers are
// summed on the way and no rank decodes another's payload.
//
//	s = max over ranks of max|g| of the bucket;  u = s/L,  L = 2^(bits−1) − 1
//	C(g)ᵢ = u·⌊|gᵢ|/u + r⌋·sign(gᵢ),  r = ½ or uniform in [0, 1)
//
// Sapio et al. 2021 (SwitchML, arXiv 1903.06701, section 3.7) agree on the
// exponent of a chunk before they sum integers in a switch. Mishchenko et al.
// 2022 (IntSGD, arXiv 2102.08374) round at random with one scale for all.
//
// Departures: the scale is the largest magnitude itself, and a sum travels in
// the narrowest of one or two bytes that holds world·L, where SwitchML has four.
// With bits=4 it is one byte up to 18 ranks, with bits=8 two up to 258. Behind a
// server, which has no round for scales, it is uniform(range=symmetric) with
// each worker's own.
//
// Tuning: feedback(intsum(bits=4,round=nearest)), which is a contraction at any
// length; drawn at random, bits=4 is one in buckets of up to 392, as in
// feedback(intsum(bits=4,bucket=256)). Without feedback bits=8. Longer buckets
// save scales, and the maximum over the ranks of a short one is nearly that of a
// long one.
//
// Cost: one or two bytes an element and hop, four a bucket in a round before.
type IntSum struct {
	Bits   int    `spec:",show" doc:"bits of one rank's integers, 2 to 8"`
	Round  string `doc:"stochastic or nearest"`
	Bucket int    `doc:"elements that share a scale; 0: the whole block"`
}

// alone is the codec of a rank that shares no scale.
func (f IntSum) alone() Uniform {
	return Uniform{Bits: f.Bits, Range: "symmetric", Round: word(f.Round, "stochastic"), Bucket: f.Bucket}
}

func (f IntSum) levels() int { return 1<<(f.Bits-1) - 1 }

// Validate checks the options.
func (f IntSum) Validate() error { return f.alone().Validate() }

// Claims are those of uniform, and what the exchange costs.
func (f IntSum) Claims(b Block) Claims {
	_, buckets := bucketsOf(f.Bucket, b.Len())
	return sharedClaims(f.alone().Claims(b), b, buckets, b.Len(), f.levels())
}

// New makes a codec without state.
func (f IntSum) New(b Block) (Codec, error) { return f.alone().New(b) }

// NewExchange makes an exchange of a maximum and a sum of integers.
func (f IntSum) NewExchange(b Block) (Exchange, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return newSharedScale(b, f.Bucket, f.levels(), word(f.Round, "stochastic") == "stochastic", stream("intsum", b, true), f32.MaxAbs)
}

func errTooManyRanks(world, levels int) error {
	return fmt.Errorf("%d ranks with integers up to %d: a sum does not fit two bytes; use fewer bits, or mode gather", world, levels)
}
