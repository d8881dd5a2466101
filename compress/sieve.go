package compress

import (
	"math"
	"slices"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/codec"
)

// sieve selects what selector does, from a vector that is made strip by strip, while a
// strip is near. What it chooses is a mask of a bit an element. A sample of the vector is
// made before: elements above a magnitude are chosen for sure, those of a band below it
// are put aside, and the cut is looked for among these.
type sieve struct {
	sel        selector
	d, k       int
	sampled    bool     // what reaches tau is chosen, about k elements
	known      bool     // whether a sample has set what follows
	tau, above uint32   // as in selector
	idx        []uint32 // the band
	val        []float32
}

// begin prepares to choose k of d elements, about so many if sampled. at is what an
// element will be.
func (s *sieve) begin(d, k int, sampled bool, at func(i int) float32) {
	s.d, s.k = d, k
	s.idx, s.val = s.idx[:0], s.val[:0]
	n := samplesFor(k, d)
	s.sampled = sampled && n > 0
	switch s.known = true; {
	case s.sampled:
		s.tau = s.sel.bar(s.sel.sampleOf(d, n, at), d, k)
	case d >= shortest:
		s.tau, s.above = s.sel.guess(s.sel.sampleOf(d, samples, at), d, k)
	default:
		s.known = false
	}
}

// strip looks at the elements from lo on.
func (s *sieve) strip(mask []byte, x []float32, lo int) {
	if !s.known {
		return
	}
	codec.AtLeast(mask, x, s.tau)
	if s.sampled {
		return
	}
	above := s.above
	if above == 0 {
		above = math.MaxUint32 >> 1
	}
	n := len(s.idx)
	s.idx, s.val = slices.Grow(s.idx, len(x)), slices.Grow(s.val, len(x))
	n += codec.Band(s.idx[n:n+len(x)], s.val[n:n+len(x)], x, s.tau, above, uint32(lo))
	s.idx, s.val = s.idx[:n], s.val[:n]
}

// end completes the mask of x, whose strips have been seen, and returns how many are chosen.
func (s *sieve) end(mask []byte, x []float32) int {
	hits := bits.Ones(mask)
	want := s.k - (hits - len(s.idx)) // of the band
	switch {
	case s.known && s.sampled && fewEnough(hits, s.k):
		return hits
	case !s.known || s.sampled || want < 0 || want > len(s.idx): // the sample has misled
		clear(mask)
		s.idx, _ = s.sel.indices(s.idx[:0], x, s.k)
		for _, i := range s.idx {
			mask[i>>3] |= 1 << (i & 7)
		}
		return s.k
	}
	tau, ties := uint32(math.MaxUint32), 0
	if want > 0 {
		tau, ties = s.sel.cutOf(s.val, want)
	}
	for j, i := range s.idx { // without a branch: none could be foreseen
		u := math.Float32bits(s.val[j]) & magnitude
		mask[i>>3] &^= byte((uint64(u)-uint64(tau)-1)>>63) << (i & 7)
	}
	for j := 0; ties > 0; j++ {
		if i := s.idx[j]; math.Float32bits(s.val[j])&magnitude == tau {
			mask[i>>3] |= 1 << (i & 7)
			ties--
		}
	}
	return s.k
}
