package codec

import (
	"math"

	"github.com/gradlab/gradlab/internal/rng"
)

// Count sketches: where elements go in a table, and medians of what is found there.

// Places hashes elements first, first+1, … into two rows of cols cells, 1 ≤ cols <
// 2³¹. Draw 8i+pair of key serves element i: its lower half h says the cell in a,
// the upper one that in b, with the sign that goes with it in the highest bit:
//
//	⌊(h>>1)·cols/2³¹⌋ | h<<31
//
// It panics unless len(b) == len(a).
func Places(a, b []uint32, cols int, key rng.Key, first, pair uint64) {
	same("Places", len(b), len(a))
	n := placesAVX512(a, b, cols, start(key, 8*first+pair))
	a, b, first = a[n:], b[n:], first+uint64(n)
	n = placesAVX2(a, b, cols, start(key, 8*first+pair))
	placesGo(a[n:], b[n:], cols, key, first+uint64(n), pair)
}

func placesGo(a, b []uint32, cols int, key rng.Key, first, pair uint64) {
	b = b[:len(a)]
	for i := range a {
		draw := key.Uint64(8*(first+uint64(i)) + pair)
		a[i], b[i] = place(uint32(draw), cols), place(uint32(draw>>32), cols)
	}
}

func place(half uint32, cols int) uint32 {
	return uint32(uint64(half>>1)*uint64(cols)>>31) | half<<31
}

// placeBits of a place are its cell; the bit above is its sign.
const placeBits = 1<<31 - 1

// Put adds the elements of x to table, each at its place. It panics unless there are as
// many places, all of them in the table.
func Put(table, x []float32, places []uint32) {
	same("Put", len(places), len(x))
	for i, p := range places[:len(x)] {
		table[p&placeBits] += math.Float32frombits(math.Float32bits(x[i]) ^ p&^placeBits)
	}
}

// Look sets dst to what table has at some places, with their signs. It panics unless
// there are as many places, which must be in the table.
func Look(dst, table []float32, places []uint32) {
	same("Look", len(places), len(dst))
	n := lookAVX512(dst, table, places)
	lookGo(dst[n:], table, places[n:])
}

func lookGo(dst, table []float32, places []uint32) {
	dst = dst[:len(places)]
	for i, p := range places {
		dst[i] = math.Float32frombits(math.Float32bits(table[p&placeBits]) ^ p&^placeBits)
	}
}

// Median5 sets dst to the middle ones of five rows, element by element, −0 before 0.
// It panics unless all have the length of dst.
func Median5(dst []float32, rows *[5][]float32) {
	for _, row := range rows {
		same("Median5", len(row), len(dst))
	}
	n := median5AVX2(dst, rows[0], rows[1], rows[2], rows[3], rows[4])
	median5Go(dst, rows, n)
}

// median5Go starts at element from. The middle one is that of the fifth and of what is
// neither the least nor the greatest of the other four for sure.
func median5Go(dst []float32, rows *[5][]float32, from int) {
	key := func(row, i int) int32 { return inOrder(int32(math.Float32bits(rows[row][i]))) }
	for i := from; i < len(dst); i++ {
		a, b, c, d := key(0, i), key(1, i), key(2, i), key(3, i)
		x, y := max(min(a, b), min(c, d)), min(max(a, b), max(c, d))
		dst[i] = math.Float32frombits(uint32(inOrder(max(min(x, y), min(max(x, y), key(4, i))))))
	}
}
