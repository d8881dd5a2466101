// Package codec opens the AVX2 and AVX-512 kernels of package codec.
package codec

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// Kernels opens all of them.
func Kernels() {
	packing()
	levels()
	steps()
	powers()
	selection()
	rotation()
	centroids()
	factors()
	eightBit()
	wholeNumbers()
	cosines()
	sketches()
	masks()
	stairs()
}

// begin opens a kernel. Its twin xxxGo is the specification, for a number of elements
// that is a multiple of group: as many as parameter by has.
func begin(name, signature, by string, group int, with ...string) {
	beginIn("AVX2", name, signature, by, group, with...)
}

func beginIn(set, name, signature, by string, group int, with ...string) {
	doc := fmt.Sprintf("%s%s is %sGo", name, set, name)
	for _, w := range with {
		doc += ", " + w
	}
	kernel.First(name+set, "func"+signature, by, group, doc+".")
}

var (
	end      = kernel.End
	base     = kernel.Base
	length   = kernel.Length
	word     = kernel.Word
	address  = kernel.Address
	labelled = kernel.Labelled
)

// single and double broadcast a float parameter, or one of 32 or 64 bits.
func single(name string) VecVirtual { return op1(VBROADCASTSS, address(name)) }
func double(name string) VecVirtual { return op1(VBROADCASTSD, address(name)) }

var tables = map[[4]uint64]Mem{}

// table is 32 bytes of constants.
func table(q [4]uint64) Mem {
	m, ok := tables[q]
	if !ok {
		m = GLOBL(fmt.Sprintf("table%d", len(tables)), RODATA|NOPTR)
		for i, v := range q {
			DATA(8*i, U64(v))
		}
		tables[q] = m
	}
	return m
}

// quads and longs are tables of one value.
func quads(v uint64) Mem { return table([4]uint64{v, v, v, v}) }
func longs(v uint32) Mem { return quads(uint64(v)<<32 | uint64(v)) }

// lanes is a table of eight numbers.
func lanes(v ...uint32) Mem {
	var q [4]uint64
	for i, x := range v {
		q[i/2] |= uint64(x) << (32 * (i % 2))
	}
	return table(q)
}

const magnitude = 1<<31 - 1 // the bits of a float32 without its sign

// vec is a new register of the set that is being written: YMM, or ZMM inside wide.
var vec = func() VecVirtual { return YMM() }

// wide writes a kernel of AVX-512, xxxAVX512.
func wide(name, signature, by string, group int, body func()) {
	vec = func() VecVirtual { return ZMM() }
	beginIn("AVX512", name, signature, by, group)
	body()
	end()
	vec = func() VecVirtual { return YMM() }
}

// op1, op2 and opi apply an instruction, operands in the order of the formula.

func op1[F func(...Op) | func(a, to Op)](f F, a Op) VecVirtual {
	y := vec()
	apply(f, a, y)
	return y
}

func op2[F func(...Op) | func(b, a, to Op)](f F, a, b Op) VecVirtual {
	y := vec()
	apply(f, b, a, y)
	return y
}

func opi[F func(...Op) | func(imm, a, to Op)](f F, imm uint64, a Op) VecVirtual {
	y := vec()
	apply(f, Imm(imm), a, y)
	return y
}

func apply(f any, x ...Op) {
	switch f := f.(type) {
	case func(...Op):
		f(x...)
	case func(a, b Op):
		f(x[0], x[1])
	case func(a, b, c Op):
		f(x[0], x[1], x[2])
	}
}

// upper is the upper half of a register.
func upper(y VecVirtual) VecVirtual {
	x := XMM()
	VEXTRACTI128(Imm(1), y, x)
	return x
}

// each runs body for every so many of n elements, a multiple of that and maybe
// none, with their first index.
func each(n Register, many int, body func(i Register)) {
	next, done := labelled("loop"), labelled("done")
	i := GP64()
	XORQ(i, i)
	CMPQ(i, n)
	JGE(LabelRef(done))
	Label(next)
	body(i)
	ADDQ(Imm(uint64(many)), i)
	CMPQ(i, n)
	JLT(LabelRef(next))
	Label(done)
}

// at is the place of element i+plus of a vector.
func at(p, i Register, size, plus int) Mem {
	return Mem{Base: p, Index: i, Scale: uint8(size), Disp: size * plus}
}

// eights runs body for the four groups of eight in every 32 of n elements and
// stores the numbers below 256 that it leaves in eight lanes as bytes.
func eights(dst, n Register, body func(i Register, u int) VecVirtual) {
	each(n, 32, func(i Register) {
		var g [4]VecVirtual
		for u := range g {
			g[u] = body(i, u)
			if u&1 == 1 {
				VPACKUSDW(g[u], g[u-1], g[u-1])
			}
		}
		VPACKUSWB(g[2], g[0], g[0])
		VPERMD(g[0], inOrder(), g[0])
		VMOVDQU(g[0], at(dst, i, 1, 0))
	})
}

// inOrder loads the order of lanes that undoes what packing two levels of 128-bit
// halves does.
func inOrder() VecVirtual { return op1(VMOVDQU, lanes(0, 4, 1, 5, 2, 6, 3, 7)) }

// inDoubles converts eight lanes to float64, lets body work on four at a time, and
// rounds to float32.
func inDoubles(y VecVirtual, convert any, body func(w VecVirtual)) VecVirtual {
	z, x := YMM(), XMM()
	w := [2]VecVirtual{YMM(), YMM()}
	apply(convert, y.AsX(), w[0])
	apply(convert, upper(y), w[1])
	for _, v := range w {
		body(v)
	}
	VCVTPD2PSY(w[0], z.AsX())
	VCVTPD2PSY(w[1], x)
	VINSERTF128(Imm(1), x, z, z)
	return z
}

// reduce folds eight lanes of 32 bits into one.
func reduce[F func(...Op) | func(b, a, to Op)](y VecVirtual, f F) Register {
	m, t, r := XMM(), XMM(), GP32()
	apply(f, upper(y), y.AsX(), m)
	for _, order := range []uint64{0x4e, 0xb1} {
		VPSHUFD(Imm(order), m, t)
		apply(f, t, m, m)
	}
	VMOVD(m, r)
	return r
}
