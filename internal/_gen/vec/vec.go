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
	rows()
	optimizers()
	halves()
	both(gelus)
	both(exponentials)
}

// wide says whether kernels are written for AVX-512.
var wide bool

// both writes kernels with AVX2 and with AVX-512.
func both(write func()) {
	write()
	wide = true
	write()
	wide = false
}

// register is one for as many numbers as fit.
func register() VecVirtual {
	if wide {
		return ZMM()
	}
	return YMM()
}

// width is how many float32 fit into a register.
func width() int {
	if wide {
		return 16
	}
	return 8
}

// begin opens a kernel. Its twin xxxGo is the specification, for a number of elements
// that is a multiple of group: as many as parameter by has.
func begin(name, signature, by string, group int, doc ...string) {
	set := "AVX2"
	if wide {
		set, group = "AVX512", max(group, width())
	}
	if len(doc) == 0 {
		doc = []string{fmt.Sprintf("%s%s is %sGo.", name, set, name)}
	}
	kernel.First(name+set, "func"+signature, by, group, doc...)
}

var (
	end    = kernel.End
	base   = kernel.Base
	length = kernel.Length
)

// number broadcasts a float32 parameter.
func number(name string) VecVirtual {
	y := register()
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

// place is where a group of elements lies, as many as fit into a register: u groups
// behind index i.
type place struct {
	i Register
	u int
}

// of is the place in a vector of elements of the given size.
func (at place) of(p Register, size int) Mem {
	return Mem{Base: p, Index: at.i, Scale: uint8(size), Disp: width() * size * at.u}
}

// load reads a group of float32.
func (at place) load(p Register) VecVirtual {
	y := register()
	VMOVUPS(at.of(p, 4), y)
	return y
}

// store writes a group of float32.
func (at place) store(y VecVirtual, p Register) { VMOVUPS(y, at.of(p, 4)) }

var loops int

// each runs body for every group of n elements, unroll groups at a time while there are that many. n may be 0.
func each(n Register, unroll int, body func(at place)) {
	loops++
	name := func(s string) string { return fmt.Sprintf("%s%d", s, loops) }
	i := GP64()
	XORQ(i, i)
	if unroll > 1 {
		most := GP64()
		MOVQ(n, most)
		ANDQ(I32(int32(-width()*unroll)), most)
		JZ(LabelRef(name("rest")))
		Label(name("loop"))
		for u := range unroll {
			body(place{i, u})
		}
		ADDQ(Imm(uint64(width()*unroll)), i)
		CMPQ(i, most)
		JLT(LabelRef(name("loop")))
		Label(name("rest"))
	}
	CMPQ(i, n)
	JGE(LabelRef(name("done")))
	Label(name("one"))
	body(place{i, 0})
	ADDQ(Imm(uint64(width())), i)
	CMPQ(i, n)
	JLT(LabelRef(name("one")))
	Label(name("done"))
}

// Arithmetic on all lanes, in the order of the formulas.

func op(f func(...Op), a, b Op) VecVirtual {
	y := register()
	f(b, a, y)
	return y
}

func add(a VecVirtual, b Op) VecVirtual { return op(VADDPS, a, b) }
func sub(a VecVirtual, b Op) VecVirtual { return op(VSUBPS, a, b) }
func mul(a VecVirtual, b Op) VecVirtual { return op(VMULPS, a, b) }
func div(a VecVirtual, b Op) VecVirtual { return op(VDIVPS, a, b) }

func sqrt(a VecVirtual) VecVirtual {
	y := register()
	VSQRTPS(a, y)
	return y
}
