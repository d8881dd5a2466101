package compress

import (
	"math"
	"math/bits"

	"github.com/gradlab/gradlab/internal/rng"
)

// subset enumerates distinct positions below d, in an order drawn by a key,
// without memory: a four-round Feistel network on Z_a × Z_b with a·b just above
// d, walked until it lands inside (Black and Rogaway 2002, generalised Feistel
// cipher), then a rotation of [0, d). The rotation alone makes every position
// exactly equally likely to be the i-th; the network makes sets of them look
// independent.
type subset struct {
	key         rng.Key
	d, a, b, by uint64
}

// newSubset prepares for positions below d; under gives it a key.
func newSubset(d int) subset {
	a := uint64(math.Ceil(math.Sqrt(float64(d))))
	return subset{d: uint64(d), a: a, b: (uint64(d) + a - 1) / max(1, a)}
}

// under returns the enumeration drawn by key.
func (s subset) under(key rng.Key) subset {
	s.key = key
	s.by = s.draw(4, 0, s.d)
	return s
}

// at returns position i of the enumeration, 0 ≤ i < d.
func (s *subset) at(i int) int {
	for x := uint64(i); ; {
		l, r := split(x, s.b)
		for round := uint64(0); round < 4; round += 2 {
			l = wrap(l+s.draw(round, r, s.a), s.a)
			r = wrap(r+s.draw(round+1, l, s.b), s.b)
		}
		if x = l*s.b + r; x < s.d {
			return int(wrap(x+s.by, s.d))
		}
	}
}

// split is x/n and x%n; 32-bit division is several times faster.
func split(x, n uint64) (quo, rem uint64) {
	if (x|n)>>32 == 0 {
		q := uint32(x) / uint32(n)
		return uint64(q), uint64(uint32(x) - q*uint32(n))
	}
	return x / n, x % n
}

// draw is uniform below n.
func (s *subset) draw(round, half, n uint64) uint64 {
	hi, _ := bits.Mul64(s.key.Uint64(round<<56|half), n)
	return hi
}

// wrap reduces x < 2n modulo n.
func wrap(x, n uint64) uint64 {
	if x >= n {
		x -= n
	}
	return x
}
