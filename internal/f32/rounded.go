package f32

import (
	"encoding/binary"
	"math"

	"github.com/gradlab/gradlab/internal/portable"
)

// Products of operands rounded to bfloat16, with sums in float32.
//
// A processor with AVX512_BF16 reads two such values from 32 bits and adds both
// products to a float32 (VDPBF16PS), twice as many in the same time. Each product is
// exact, each of the two sums is rounded to nearest, and denormals are taken for 0,
// in operands and in results. That is a fused multiply-add under the control word
// "denormals are zeros, flush to zero", on values that happen to have 8 bits. So where
// there is no such instruction the kernels of Gemm compute the same bits from operands
// of the same values. The upper half is first; operands are packed for that.

// GemmRounded computes C = op(A)·op(B), or adds it to C, where op(A) is m×k and op(B)
// k×n as in Gemm, but rounded to bfloat16 by RoundAlong or RoundAcross: a vector along k
// takes RoundedLen(k) words, and strides count words. An odd k has a last term of 0·0.
// Products are exact, and
//
//	for each block of k in order: c += Σp a[i,p]·b[p,j]
//
// in float32, from the first term to the last, each sum rounded once; the first block
// is c unless add. Denormals count
// as 0, before and after a sum: what rounds to 2^-126 does not. Bits depend on nothing else,
// and are the same on all machines: blocks are those of Gemm, and without denormals so are
// the bits, for operands of these values.
//
// It panics where Gemm does, uses at most so many threads, and is safe for concurrent
// use.
func GemmRounded(threads int, ta, tb bool, m, n, k int, a []float32, lda int, b []float32, ldb int, add bool, c []float32, ldc int) {
	p := product{plain, ta, tb, m, n, RoundedLen(k), 1, a, lda, b, ldb, 0, c, ldc, false, paired, true}
	if add {
		p.beta = 1
	}
	if p.check() {
		p.choose()
		p.do(threads)
	}
}

// RoundedLen is how many words k elements take as a vector along k of GemmRounded. An odd
// one is followed by a 0.
func RoundedLen(k int) int {
	pairs := (k + 1) / 2
	if paired {
		return pairs
	}
	return 2 * pairs
}

// RoundAlong rounds a vector along k to bfloat16, to nearest, ties to even. Denormals
// become 0. It panics unless len(dst) == RoundedLen(len(x)).
func RoundAlong(dst, x []float32) {
	same("RoundAlong", len(dst), RoundedLen(len(x)))
	if paired {
		pairsAlong(dst, x)
		return
	}
	flushBF16(dst[:len(x)], x)
	clear(dst[len(x):])
}

// RoundAcross rounds k vectors of n elements, which lie across k, lds apart, to
// RoundedLen(k) vectors of n words, ldd apart.
func RoundAcross(dst []float32, ldd int, x []float32, lds, n, k int) {
	for p := 0; p < k; p++ {
		first, second := x[p*lds:][:n], x[:0]
		if p++; p < k {
			second = x[p*lds:][:n]
		}
		switch row := dst[RoundedLen(p-1)*ldd:]; {
		case paired && p < k:
			pairsAcross(row[:n], first, second)
		case paired:
			for i, v := range first {
				row[i] = pair(v, 0)
			}
		default:
			flushBF16(row[:n], first)
			clear(row[ldd:][:n])
			flushBF16(row[ldd:][:len(second)], second)
		}
	}
}

// Values are numbers in float32, or in bfloat16 as EncodeBF16 writes them: if Half is there
// it counts, and nothing is left to round but denormals.
type Values struct {
	Full []float32
	Half []byte
}

// Len is how many there are.
func (v Values) Len() int {
	if v.Half != nil {
		return len(v.Half) / 2
	}
	return len(v.Full)
}

// From is what follows the first i.
func (v Values) From(i int) Values {
	if v.Half != nil {
		return Values{Half: v.Half[2*i:]}
	}
	return Values{Full: v.Full[i:]}
}

// Along is RoundAlong of the first n.
func (v Values) Along(dst []float32, n int) {
	if v.Half != nil {
		halvesAlongK(dst, v.Half[:2*n])
	} else {
		RoundAlong(dst, v.Full[:n])
	}
}

// Across is RoundAcross.
func (v Values) Across(dst []float32, ldd, ld, n, k int) {
	if v.Half != nil {
		halvesAcrossK(dst, ldd, v.Half, ld, n, k)
	} else {
		RoundAcross(dst, ldd, v.Full, ld, n, k)
	}
}

func halvesAlongK(dst []float32, b []byte) {
	n := len(b) / 2
	same("Values.Along", len(dst), RoundedLen(n))
	if paired {
		halvesAlong(dst, b)
		return
	}
	DecodeBF16(dst[:n], b[:2*n])
	flushBF16(dst[:n], dst[:n])
	clear(dst[n:])
}

func halvesAcrossK(dst []float32, ldd int, b []byte, lds, n, k int) {
	for p := 0; p < k; p++ {
		first, second := b[2*p*lds:][:2*n], b[:0]
		if p++; p < k {
			second = b[2*p*lds:][:2*n]
		}
		switch row := dst[RoundedLen(p-1)*ldd:]; {
		case paired && p < k:
			halvesAcross(row[:n], first, second)
		case paired:
			for i := range n {
				row[i] = FromBF16(binary.LittleEndian.Uint16(first[2*i:]))
			}
		default:
			clear(row[ldd:][:n])
			for i, h := range [2][]byte{first, second} {
				d := row[i*ldd:][:len(h)/2]
				DecodeBF16(d, h)
				flushBF16(d, d)
			}
		}
	}
}

// flushBF16 rounds x to values of bfloat16, denormals to 0.
func flushBF16(dst, x []float32) {
	n := flushBF16AVX2(dst, x)
	flushBF16Go(dst[n:], x[n:])
}

func flushBF16Go(dst, x []float32) {
	for i, v := range x {
		dst[i] = FromBF16(ToBF16(flushed(v)))
	}
}

// pairsAlongGo puts element 2i of x, rounded, into the upper half of dst[i], and
// element 2i+1, or 0, into the lower one.
func pairsAlongGo(dst, x []float32) {
	for i := range dst {
		var second float32
		if 2*i+1 < len(x) {
			second = x[2*i+1]
		}
		dst[i] = pair(x[2*i], second)
	}
}

// pairsAcrossGo makes dst[i] of first[i] and second[i].
func pairsAcrossGo(dst, first, second []float32) {
	for i := range dst {
		dst[i] = pair(first[i], second[i])
	}
}

// halvesAlongGo is pairsAlongGo of bfloat16.
func halvesAlongGo(dst []float32, b []byte) {
	for i := range dst {
		var second uint16
		if 4*i+3 < len(b) {
			second = binary.LittleEndian.Uint16(b[4*i+2:])
		}
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[4*i:]))<<16 | uint32(second))
	}
}

// halvesAcrossGo is pairsAcrossGo of bfloat16.
func halvesAcrossGo(dst []float32, first, second []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(first[2*i:]))<<16 | uint32(binary.LittleEndian.Uint16(second[2*i:])))
	}
}

// pair is two values, rounded, in 32 bits.
func pair(first, second float32) float32 {
	return math.Float32frombits(uint32(ToBF16(flushed(first)))<<16 | uint32(ToBF16(flushed(second))))
}

// halvesOfPair are the values in 32 bits, in the order in which they are added up.
func halvesOfPair(x float32) (first, second float32) {
	b := math.Float32bits(x)
	return math.Float32frombits(b &^ 0xffff), math.Float32frombits(b << 16)
}

// flushed is x, or a zero of its sign if it is denormal.
func flushed(x float32) float32 {
	if b := math.Float32bits(x); b&0x7f800000 == 0 {
		return math.Float32frombits(b & (1 << 31))
	}
	return x
}

// maddFlushed is s + x·y, rounded once, for x and y of at most 12 bits, with denormals
// taken for 0 before and after.
func maddFlushed(s, x, y float32) float32 {
	s, x, y = flushed(s), flushed(x), flushed(y)
	p := float32(x * y)
	if size := max(p, -p); x == 0 || y == 0 || p != p || size >= 0x1p-126 && size <= math.MaxFloat32 {
		return flushed(s + p) // p is exact
	}
	// Exact, or rounded to odd, so that it can be rounded again.
	t := portable.OddSum(float64(x)*float64(y), float64(s))
	if size := math.Abs(t); size < 0x1p-126 {
		// To the least normal number, or to 0.
		if size < 0x1p-126-0x1p-151 {
			size = 0
		} else {
			size = 0x1p-126
		}
		t = math.Copysign(size, t)
	}
	return float32(t)
}

// pairsGo is the kernel of pairs in plain Go, the specification of the assembly:
//
//	for i < rows, j < width:
//	    s = 0; for p < k: s += a₁·b₁; s += a₂·b₂
//	    c[(t·rows+i)·cRow + j] = s, plus what was there if add
//
// with a₁, a₂ the upper and the lower half of a[t·aTile + i·aRow + p·aStep], and b₁, b₂
// those of b[p·bStep + j]. Each line is one maddFlushed.
func pairsGo(cols, rows int, x *call) {
	x.pack(cols, func(b []float32, bStep int) {
		x.each(rows, func(a, c []float32, j int) {
			var s float32
			for p := range x.k {
				a1, a2 := halvesOfPair(a[p*x.aStep])
				b1, b2 := halvesOfPair(b[p*bStep+j])
				s = maddFlushed(maddFlushed(s, a1, b1), a2, b2)
			}
			x.store(c, j, s)
		})
	})
}

// microFlushedGo is microGo where denormals count as 0: the plain kernel of rounded
// operands.
func microFlushedGo(cols, rows int, x *call) {
	x.pack(cols, func(b []float32, bStep int) {
		x.each(rows, func(a, c []float32, j int) {
			var s float32
			for p := range x.k {
				s = maddFlushed(s, a[p*x.aStep], b[p*bStep+j])
			}
			x.store(c, j, s)
		})
	})
}

// pack copies B to where it is to be packed, and calls f with where it is then.
func (x *call) pack(cols int, f func(b []float32, bStep int)) {
	if len(x.packed) == 0 {
		f(x.b, x.bStep)
		return
	}
	for p := range x.k {
		copy(x.packed[p*cols:][:cols], x.b[p*x.bStep:])
	}
	f(x.packed, cols)
}

// each calls f for all elements, with their rows of A and C.
func (x *call) each(rows int, f func(a, c []float32, j int)) {
	for t := range x.tiles {
		for i := range rows {
			a, c := x.a[t*x.aTile+i*x.aRow:], x.c[(t*rows+i)*x.cRow:][:x.width]
			for j := range c {
				f(a, c, j)
			}
		}
	}
}

// store puts a sum into a row of C.
func (x *call) store(c []float32, j int, s float32) {
	if x.add {
		s = flushed(flushed(c[j]) + s)
	}
	c[j] = s
}
