// Package rng draws random numbers by address: a draw is a pure function of
// (seed, purpose, keys…, index), never of the order in which anything ran.
// Real and virtual runs, one core or many, see the same numbers.
//
// A Key is the address so far; With extends it. Draws come from SplitMix64's
// finaliser over key + index·γ (Steele, Lea, Flood 2014): about 2 ns each, no
// state to save. Not for cryptography.
package rng

import (
	"math"
	"math/bits"

	"github.com/gradlab/gradlab/internal/portable"
)

const gamma = 0x9e3779b97f4a7c15

// Key is an address in the space of draws.
type Key uint64

// New returns the key of a purpose ("init", "dropout", "qsgd", …) under seed.
func New(seed uint64, purpose string) Key {
	h := uint64(14695981039346656037) // FNV-1a over the purpose
	for i := 0; i < len(purpose); i++ {
		h = (h ^ uint64(purpose[i])) * 1099511628211
	}
	return Key(Mix(seed+gamma) ^ Mix(h))
}

// With extends the address by v: a rank, a step, a block, ….
func (k Key) With(v uint64) Key { return Key(Mix(uint64(k)+gamma) ^ Mix(v+0x632be59bd9b4e019)*gamma) }

// Mix is the SplitMix64 finaliser, a bijection on 64 bits.
func Mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Uint64 returns draw i.
func (k Key) Uint64(i uint64) uint64 { return Mix(uint64(k) + (i+1)*gamma) }

// Float64 returns draw i, uniform in [0, 1).
func (k Key) Float64(i uint64) float64 { return float64(float64(k.Uint64(i)>>11) * 0x1p-53) }

// Float32 returns draw i, uniform in [0, 1).
func (k Key) Float32(i uint64) float32 { return float32(float32(k.Uint64(i)>>40) * 0x1p-24) }

// Norm returns draw i of the standard normal law (Box–Muller on two draws).
func (k Key) Norm(i uint64) float64 {
	u := 1 - k.Float64(2*i) // (0, 1]
	return math.Sqrt(-2*portable.Log(u)) * portable.CosPi(2*k.Float64(2*i+1))
}

// Exp returns draw i of the exponential law with mean 1.
func (k Key) Exp(i uint64) float64 { return -portable.Log(1 - k.Float64(i)) }

// IntN returns draw i, uniform in [0, n). It panics if n ≤ 0. The bias is
// below n·2⁻⁶⁴.
func (k Key) IntN(i uint64, n int) int {
	if n <= 0 {
		panic("rng: IntN needs n > 0")
	}
	hi, _ := bits.Mul64(k.Uint64(i), uint64(n))
	return int(hi)
}

// Permute returns the image of i under a permutation of [0, n) chosen by the
// key: a shuffle that needs no memory and can be entered anywhere. It is a
// Feistel network on the next even number of bits, walked until it lands inside
// (Black and Rogaway 2002). Four rounds do from some 60 elements on; with fewer,
// places would differ in likelihood by up to a third, so there it takes ten. It
// panics unless 0 ≤ i < n.
func (k Key) Permute(i, n int) int {
	if i < 0 || i >= n {
		panic("rng: Permute index out of range")
	}
	if n == 1 {
		return 0
	}
	half := uint(1)
	for half < 32 && 1<<(2*half) < n {
		half++
	}
	rounds := uint64(4)
	if half <= 3 {
		rounds = 10
	}
	mask := uint64(1)<<half - 1
	x := uint64(i)
	for {
		l, r := x>>half, x&mask
		for round := uint64(0); round < rounds; round++ {
			l, r = r, l^(Mix(uint64(k)+round*gamma+r*0xd1342543de82ef95)&mask)
		}
		if x = l<<half | r; x < uint64(n) {
			return int(x)
		}
	}
}
