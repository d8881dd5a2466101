package compress

import "math"

// selector finds the k-th largest magnitude of a vector without sorting: a
// radix histogram over the magnitude bits, 11 + 10 + 10, each pass looking only
// at what the pass before left in question. Magnitudes of finite floats order
// like their bits.
type selector struct {
	count [2048]uint32
	rest  []uint32 // magnitudes that share the threshold's upper bits
}

// threshold returns the bits of the k-th largest magnitude of g and how many of
// the elements equal to it belong to the k largest. 1 ≤ k ≤ len(g). It returns
// false if g has a NaN or Inf.
func (s *selector) threshold(g []float32, k int) (tau uint32, ties int, ok bool) {
	clear(s.count[:])
	for _, v := range g {
		s.count[math.Float32bits(v)&magnitude>>20]++
	}
	for _, n := range s.count[0x7f800000>>20:] {
		if n > 0 {
			return 0, 0, false
		}
	}
	top, k := s.find(2048, k)
	s.rest = resize(s.rest, int(s.count[top]))
	n := 0
	for _, v := range g {
		if u := math.Float32bits(v) & magnitude; u>>20 == top {
			s.rest[n] = u
			n++
		}
	}
	tau = top
	for _, shift := range []uint{10, 0} {
		clear(s.count[:1024])
		for _, u := range s.rest {
			s.count[u>>shift&1023]++
		}
		var digit uint32
		digit, k = s.find(1024, k)
		tau = tau<<10 | digit
		n = 0
		for _, u := range s.rest {
			if u>>shift == tau {
				s.rest[n] = u
				n++
			}
		}
		s.rest = s.rest[:n]
	}
	return tau, k, true
}

// find returns the bin, from the top, in which the k-th element lies and its
// rank within the bin.
func (s *selector) find(bins, k int) (uint32, int) {
	b := bins - 1
	for ; k > int(s.count[b]); b-- {
		k -= int(s.count[b])
	}
	return uint32(b), k
}

// indices appends to idx the positions of the k largest magnitudes of g in
// ascending order. Among equals the lower index wins.
func (s *selector) indices(idx []uint32, g []float32, k int) ([]uint32, bool) {
	tau, ties, ok := s.threshold(g, k)
	if !ok {
		return idx, false
	}
	for i, v := range g {
		u := math.Float32bits(v) & magnitude
		if u < tau {
			continue
		}
		if u == tau {
			if ties == 0 {
				continue
			}
			ties--
		}
		idx = append(idx, uint32(i))
	}
	return idx, true
}
