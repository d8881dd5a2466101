// Command vec writes the assembly of package f32's vector kernels: AVX2, and AVX-512 where
// arithmetic is what they wait for. From this
// folder:
//
//	go run . -out ../../f32/vec_amd64.s -stubs ../../f32/vec_stubs_amd64.go -pkg f32
//
// Each kernel does what its twin in plain Go does, with the same roundings in
// the same order: nothing is fused but products that are exact.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!noasm")
	vectors()
	reductions()
	signs()
	rectifiers()
	columns()
	optimizers()
	halves()
	gelus()
	Generate()
}

// begin opens a kernel. Its twin xxxGo is the specification.
func begin(name, signature string, doc ...string) {
	TEXT(name+"AVX2", NOSPLIT, "func"+signature)
	if len(doc) == 0 {
		doc = []string{fmt.Sprintf("%sAVX2 is %sGo for a length that is a multiple of eight.", name, name)}
	}
	Doc(doc...)
	Pragma("noescape")
}

func end() {
	VZEROUPPER()
	RET()
}

// base and length load what a slice parameter consists of.
func base(name string) Register   { return Load(Param(name).Base(), GP64()) }
func length(name string) Register { return Load(Param(name).Len(), GP64()) }

// number broadcasts a float32 parameter.
func number(name string) VecVirtual {
	ref, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	y := YMM()
	VBROADCASTSS(ref.Addr, y)
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
