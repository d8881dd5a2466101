package f32

import "math"

// Products of operands rounded to bfloat16, with sums in float32.
//
// A processor with AVX512_BF16 reads two such values from 32 bits and adds both
// products to a float32 (VDPBF16PS), twice as many in the same time. Each product is
// exact, each of the two sums is rounded to nearest, and denormals are taken for 0,
// in operands and in results. That is a fused multiply-add under the control word
// "denormals are zeros, flush to zero", on values that happen to have 8 bits. So where
// there is no such instruction the kernels of Gemm compute the same bits from operands
// of the same values. The upper half is first; operands are packed for that.

// plainPairs is the kernel of pairs of machines without one of their own.
var plainPairs = &kernel{
	name: "plain-pairs", rows: 4, cols: 16, heights: []int{4, 3, 2, 1},
	run: func(rows int, x *call) { pairsGo(16, rows, x) },
}

var (
	// availablePairs are the kernels of pairs that this machine can run.
	availablePairs = []*kernel{plainPairs}
	// usablePairs are those that products choose from.
	usablePairs = availablePairs
	// paired says whether products read pairs: decided once, by the machine.
	paired bool
)

// GemmRounded computes C = op(A)·op(B), or adds it to C, where op(A) is m×k and op(B)
// k×n as in Gemm, but rounded to bfloat16 by RoundAlong or RoundAcross: a vector along k
// takes RoundedLen(k) words, and strides count words. Products are exact, and
//
//	for each block of k in order: c += Σp a[i,p]·b[p,j]
//
// in float32, from the first term to the last, each sum rounded once; the first block
// is c unless add. Denormals count
// as 0, before and after a sum. Bits depend on nothing else, and are the same on all
// machines: blocks are those of Gemm, and without denormals so are the bits, for
// operands of these values. One thing differs: on arm64 what is less than 2^-126 before
// it is rounded is 0, elsewhere after.
//
// It panics where Gemm does, uses at most so many threads, and is safe for concurrent
// use.
func GemmRounded(threads int, ta, tb bool, m, n, k int, a []float32, lda int, b []float32, ldb int, add bool, c []float32, ldc int) {
	p := product{usable[0], ta, tb, m, n, RoundedLen(k), 1, a, lda, b, ldb, 0, c, ldc, false, paired, true}
	if add {
		p.beta = 1
	}
	if p.check() {
		p.choose()
		p.do(threads)
	}
}

// RoundedLen is how many words k elements take as a vector along k of GemmRounded.
func RoundedLen(k int) int {
	if paired {
		return (k + 1) / 2
	}
	return k
}

// RoundAlong rounds a vector along k to bfloat16, to nearest, ties to even. Denormals
// become 0. It panics unless len(dst) == RoundedLen(len(x)).
func RoundAlong(dst, x []float32) {
	same("RoundAlong", len(dst), RoundedLen(len(x)))
	if !paired {
		flushBF16(dst, x)
		return
	}
	pairsAlong(dst, x)
}

// RoundAcross rounds k vectors of n elements, which lie across k, lds apart, to
// RoundedLen(k) vectors of n words, ldd apart.
func RoundAcross(dst []float32, ldd int, x []float32, lds, n, k int) {
	if !paired {
		for p := range k {
			flushBF16(dst[p*ldd:][:n], x[p*lds:][:n])
		}
		return
	}
	p := 0
	for ; p+1 < k; p += 2 {
		pairsAcross(dst[p/2*ldd:][:n], x[p*lds:][:n], x[(p+1)*lds:][:n])
	}
	if p == k {
		return
	}
	// The last one has no other.
	row, last := dst[p/2*ldd:][:n], x[p*lds:][:n]
	for len(row) > 0 {
		n := min(len(row), len(zeros))
		pairsAcross(row[:n], last[:n], zeros[:n])
		row, last = row[n:], last[n:]
	}
}

var zeros [1024]float32

// flushBF16 rounds x to values of bfloat16, denormals to 0.
func flushBF16(dst, x []float32) {
	n := whole(len(x))
	flushBF16AVX2(dst[:n], x[:n])
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
	t := oddSum(float64(x)*float64(y), float64(s))
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

// oddSum is x + y, and where that is not exact the neighbour whose last bit is set.
func oddSum(x, y float64) float64 {
	s := x + y
	t := s - x
	lost := (x - (s - t)) + (y - t)
	if bits := math.Float64bits(s); lost != 0 && lost == lost && bits&1 == 0 {
		if (lost > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		return math.Float64frombits(bits)
	}
	return s
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
