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
	above  uint32    // the magnitude from which they should all be among the k; 0: none known
	band   []float32 // those below that, and room to cut
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
	tau, ties := s.cut(k)
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

// cut is codec.Cut of what gather has kept, k or more. It looks for the cut among those
// that are not above it for sure.
func (s *selector) cut(k int) (tau uint32, ties int) {
	if len(s.val) == k {
		return 0, k
	}
	if s.above > 0 {
		s.band = resize(s.band, len(s.val))
		s.band = s.band[:codec.Between(s.band, s.val, 0, s.above)]
		if above := len(s.val) - len(s.band); above < k {
			return codec.Cut(s.band, k-above, s.band)
		}
	}
	return s.cutOf(s.val, k)
}

// cutOf is codec.Cut of x, which stays as it is.
func (s *selector) cutOf(x []float32, k int) (tau uint32, ties int) {
	s.band = resize(s.band, len(x))
	return codec.Cut(x, k, s.band)
}

// gather keeps k elements or more, the k largest among them. It returns false if g
// has a NaN or Inf.
func (s *selector) gather(g []float32, k int) (finite bool) {
	s.above = 0
	if len(g) >= shortest {
		var tau uint32
		tau, s.above = s.guess(s.draw(g, samples), len(g), k)
		s.idx, s.val, finite = codec.AppendReaching(s.idx[:0], s.val[:0], g, tau)
		if !finite || len(s.idx) >= k {
			return finite
		}
	}
	if !f32.AllFinite(g) {
		return false
	}
	tau, _ := s.cutOf(g, k)
	s.idx, s.val, _ = codec.AppendReaching(s.idx[:0], s.val[:0], g, tau)
	return true
}

// guess is a magnitude that at least k of d elements are expected to have, and not many
// more: in a sample it takes four standard deviations more than the share of k. As many
// fewer have at least the magnitude above, unless that is 0.
func (s *selector) guess(sample []float32, d, k int) (tau, above uint32) {
	share := float64(float64(k) / float64(d) * samples)
	margin := float64(4 * math.Sqrt(share))
	if rank := int(share+margin) + 1; rank <= samples {
		tau, _ = s.cutOf(sample, rank)
	}
	if rank := int(share - margin); rank > 0 {
		above, _ = s.cutOf(sample, rank)
		above++
	}
	return tau, above
}

// draw is a sample of n elements of g: one from each stretch of it, the place in it
// by chance, always the same.
func (s *selector) draw(g []float32, n int) []float32 {
	return s.sampleOf(len(g), n, func(i int) float32 { return g[i] })
}

// sampleOf is draw from d elements, of which at tells each.
func (s *selector) sampleOf(d, n int, at func(i int) float32) []float32 {
	s.sample = resize(s.sample, n)
	stretch := d / n
	for i := range s.sample {
		s.sample[i] = at(i*stretch + int(rng.Mix(uint64(i))%uint64(stretch)))
	}
	return s.sample
}

// samplesFor is the size of a sample of d elements in which the k largest have a
// share of 64 or more, an eighth of which is what it is off by; 0 if looking at all
// elements costs no more.
func samplesFor(k, d int) int {
	n := max(samples, 64*(d/max(1, k)))
	if 4*n > d {
		return 0
	}
	return n
}

// about appends the elements of g from a magnitude that a sample puts beside the
// k-th largest: ⌈k/2⌉ to 2k of them, or, where the sample would have it otherwise,
// the k largest, as largest does.
func (s *selector) about(idx []uint32, val, g []float32, k int) ([]uint32, []float32, bool) {
	if n := samplesFor(k, len(g)); n > 0 {
		tau := s.bar(s.draw(g, n), len(g), k)
		first, at := len(idx), len(val)
		var finite bool
		if idx, val, finite = codec.AppendReaching(idx, val, g, tau); !finite {
			return idx, val, false
		}
		if fewEnough(len(idx)-first, k) {
			return idx, val, true
		}
		idx, val = idx[:first], val[:at]
	}
	return s.largest(idx, val, g, k)
}

// bar is the magnitude that as large a share of a sample has as k of d elements are.
func (s *selector) bar(sample []float32, d, k int) uint32 {
	tau, ties := s.cutOf(sample, max(1, int(int64(k)*int64(len(sample))/int64(d))))
	if ties == 0 {
		tau++
	}
	return tau
}

// fewEnough reports whether so many hits are about k.
func fewEnough(hits, k int) bool { return hits >= (k+1)/2 && hits <= 2*k }
