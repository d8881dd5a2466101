// Package vec opens the kernels of package f32's vectors: AVX2, and AVX-512 where
// arithmetic is what they wait for.
//
// Nothing is fused but products that are exact.
package vec

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

// Kernels opens all of them.
func Kernels() {
	vectors()
	reductions()
	signs()
	rectifiers()
	columns()
	optimizers()
	halves()
	gelus()
}

// begin opens a kernel. Its twin xxxGo is the specification, for a number of elements
// that is a multiple of group: as many as parameter by has.
func begin(name, signature, by string, group int, doc ...string) {
	if len(doc) == 0 {
		doc = []string{fmt.Sprintf("%sAVX2 is %sGo.", name, name)}
	}
	kernel.First(name+"AVX2", "func"+signature, by, group, doc...)
}

var (
	end    = kernel.End
	base   = kernel.Base
	length = kernel.Length
)

// number broadcasts a float32 parameter.
func number(name string) VecVirtual {
	y := YMM()
	VBROADCASTSS(kernel.Address(name), y)
	return y
}

// constant broadcasts 32 bits.
func constant(bits uint32) VecVirtual {
	r, x, y := GP32(), XMM(), YMM()
	MOVL(U32(bits), r)
	VMOVD(r, x)
	VPBROADCASTD(x, y)
	return y
}

func zero() VecVirtual {
	y := YMM()
	VXORPS(y, y, y)
	return y
}

// Bits of float32.
const (
	magnitude = 1<<31 - 1
	infinity  = 0x7f800000
)

// place is where a group of eight elements lies: u groups behind index i.
type place struct {
	i Register
	u int
}

// of is the place in a vector of elements of the given size.
func (at place) of(p Register, size int) Mem {
	return Mem{Base: p, Index: at.i, Scale: uint8(size), Disp: 8 * size * at.u}
}

// load reads eight float32.
func (at place) load(p Register) VecVirtual {
	y := YMM()
	VMOVUPS(at.of(p, 4), y)
	return y
}

// store writes eight float32.
func (at place) store(y VecVirtual, p Register) { VMOVUPS(y, at.of(p, 4)) }

var loops int

// each runs body for every group of eight of n elements, unroll groups at a
// time while there are that many. n may be 0.
func each(n Register, unroll int, body func(at place)) {
	loops++
	name := func(s string) string { return fmt.Sprintf("%s%d", s, loops) }
	i, most := GP64(), GP64()
	XORQ(i, i)
	MOVQ(n, most)
	ANDQ(I32(int32(-8*unroll)), most)
	JZ(LabelRef(name("rest")))
	Label(name("loop"))
	for u := range unroll {
		body(place{i, u})
	}
	ADDQ(Imm(uint64(8*unroll)), i)
	CMPQ(i, most)
	JLT(LabelRef(name("loop")))
	Label(name("rest"))
	CMPQ(i, n)
	JGE(LabelRef(name("done")))
	Label(name("one"))
	body(place{i, 0})
	ADDQ(Imm(8), i)
	CMPQ(i, n)
	JLT(LabelRef(name("one")))
	Label(name("done"))
}

// Arithmetic on eight lanes, in the order of the formulas.

func op(f func(...Op), a, b Op) VecVirtual {
	y := YMM()
	f(b, a, y)
	return y
}

func add(a VecVirtual, b Op) VecVirtual { return op(VADDPS, a, b) }
func sub(a VecVirtual, b Op) VecVirtual { return op(VSUBPS, a, b) }
func mul(a VecVirtual, b Op) VecVirtual { return op(VMULPS, a, b) }
func div(a VecVirtual, b Op) VecVirtual { return op(VDIVPS, a, b) }

func sqrt(a VecVirtual) VecVirtual {
	y := YMM()
	VSQRTPS(a, y)
	return y
}
