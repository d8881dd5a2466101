package compress

import (
	"math"
	"math/bits"
	"sync"

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

// batch is how many positions are drawn before memory is asked for any of them:
// it then answers many questions at a time.
const batch = 256

// order tells the first positions of an enumeration one batch after the other. What a
// round adds depends on one half alone, of which there are about √d: where more positions
// are asked for, it is drawn once for each and looked up.
type order struct {
	subset
	k      int         // how many positions
	rounds [4][]uint16 // what each adds, by half; looked up if not empty
	room   [batch]int
}

var lentOrders = sync.Pool{New: func() any { return new(order) }}

// order begins the enumeration of the first k positions drawn by key. The caller
// releases it.
func (s subset) order(key rng.Key, k int) *order {
	o := lentOrders.Get().(*order)
	o.subset, o.k = s.under(key), k
	tabled := uint64(k) > 4*(s.a+s.b) && max(s.a, s.b) <= 1<<16
	for round := range o.rounds {
		halves, below := s.b, s.a
		if round&1 == 1 {
			halves, below = s.a, s.b
		}
		if !tabled {
			halves = 0
		}
		o.rounds[round] = resize(o.rounds[round], int(halves))
		for half := range o.rounds[round] {
			o.rounds[round][half] = uint16(o.draw(uint64(round), uint64(half), below))
		}
	}
	return o
}

// release gives the memory back.
func (o *order) release() { lentOrders.Put(o) }

// from returns positions first, first+1, … of the k, a batch or as many as there are.
func (o *order) from(first int) []int {
	at := o.room[:min(batch, o.k-first)]
	if len(o.rounds[0]) == 0 {
		for j := range at {
			at[j] = o.at(first + j)
		}
		return at
	}
	t0, t1, t2, t3 := o.rounds[0], o.rounds[1], o.rounds[2], o.rounds[3]
	a, b, d, by := o.a, o.b, o.d, o.by
	left, right := split(uint64(first), b)
	for j := range at {
		l, r := left, right
		for {
			l = wrap(l+uint64(t0[r]), a)
			r = wrap(r+uint64(t1[l]), b)
			l = wrap(l+uint64(t2[r]), a)
			r = wrap(r+uint64(t3[l]), b)
			if x := l*b + r; x < d {
				at[j] = int(wrap(x+by, d))
				break
			}
		}
		if right++; right == b {
			left, right = left+1, 0
		}
	}
	return at
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

// wrap reduces x < 2n modulo n, without a branch: none could be foreseen.
func wrap(x, n uint64) uint64 {
	less := x - n
	return less + n&uint64(int64(less)>>63)
}
