package compress

import (
	"math"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

// selector finds the k largest magnitudes of a vector without sorting, exactly k.
// A short vector is bisected. Of a long one a sample says below which magnitude
// nothing can be expected to be among them; one pass gathers what is not below,
// and the cut is looked for there. Should the sample mislead, and fewer than k
// remain, the whole vector is bisected.
type selector struct {
	sample []float32
	idx    []uint32  // what is not below
	val    []float32 // the elements there
}

const (
	shortest = 1 << 14 // elements from which it pays to sample
	samples  = 1 << 13
)

// indices appends to idx the positions of the k largest magnitudes of g in
// ascending order, 1 ≤ k ≤ len(g). Among equals the lower index wins. It returns
// false if g has a NaN or Inf.
func (s *selector) indices(idx []uint32, g []float32, k int) ([]uint32, bool) {
	idx, _, ok := s.largest(idx, nil, g, k)
	return idx, ok
}

// largest is indices that also appends the elements to val, unless it is nil.
func (s *selector) largest(idx []uint32, val, g []float32, k int) ([]uint32, []float32, bool) {
	if s.val == nil {
		s.idx, s.val = make([]uint32, 0, k+k/2+64), make([]float32, 0, k+k/2+64)
	}
	if !s.gather(g, k) {
		return idx, val, false
	}
	tau, ties := uint32(0), k
	if len(s.val) > k {
		tau, ties = codec.Cut(s.val, k)
	}
	for j, v := range s.val {
		if u := math.Float32bits(v) & magnitude; u <= tau {
			if u < tau || ties == 0 {
				continue
			}
			ties--
		}
		idx = append(idx, s.idx[j])
		if val != nil {
			val = append(val, v)
		}
	}
	return idx, val, true
}

// gather keeps k elements or more, the k largest among them. It returns false if g
// has a NaN or Inf.
func (s *selector) gather(g []float32, k int) (finite bool) {
	if len(g) >= shortest {
		s.idx, s.val, finite = codec.AppendReaching(s.idx[:0], s.val[:0], g, s.guess(g, k))
		if !finite || len(s.idx) >= k {
			return finite
		}
	}
	if !f32.AllFinite(g) {
		return false
	}
	tau, _ := codec.Cut(g, k)
	s.idx, s.val, _ = codec.AppendReaching(s.idx[:0], s.val[:0], g, tau)
	return true
}

// guess is a magnitude that at least k elements of g are expected to have, and not
// many more: of a sample, one element from each stretch of g, the place in it by
// chance, it takes four standard deviations more than the share of k.
func (s *selector) guess(g []float32, k int) uint32 {
	s.sample = resize(s.sample, samples)
	stretch := len(g) / samples
	for i := range s.sample {
		s.sample[i] = g[i*stretch+int(rng.Mix(uint64(i))%uint64(stretch))]
	}
	share := float64(k) / float64(len(g)) * samples
	rank := int(share+4*math.Sqrt(share)) + 1
	if rank > samples {
		return 0
	}
	tau, _ := codec.Cut(s.sample, rank)
	return tau
}
