package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The numbers of package jpeg's exact.go.
const (
	half8, half14      = 181, 11585
	cos1, sin1         = 4017, 799
	cos3, sin3         = 3406, 2276
	cos6, sin6         = 1108, 2676
	cos6Fine, sin6Fine = 70936, 171254
)

var numbers = map[int32]Mem{}

// number is a constant in every lane.
func number(v int32) Mem {
	m, ok := numbers[v]
	if !ok {
		m = eight(fmt.Sprintf("factor%d", len(numbers)), v)
		numbers[v] = m
	}
	return m
}

func plus(a, b Op) VecVirtual  { v := YMM(); VPADDD(b, a, v); return v }
func minus(a, b Op) VecVirtual { v := YMM(); VPSUBD(b, a, v); return v }

func product(n int32, a Op) VecVirtual    { v := YMM(); VPMULLD(number(n), a, v); return v }
func left(n uint64, a Op) VecVirtual      { v := YMM(); VPSLLD(Imm(n), a, v); return v }
func right(n uint64, a Op) VecVirtual     { v := YMM(); VPSRAD(Imm(n), a, v); return v }
func butterfly(a, b Op) (u, v VecVirtual) { return plus(a, b), minus(a, b) }

// turn is turn of package jpeg.
func turn(x, y Op, cos, sin int32) (u, v VecVirtual) {
	sum := product(cos, plus(x, y))
	return minus(sum, product(sin+cos, y)), plus(sum, product(sin-cos, x))
}

func exact8() {
	columns, halfway := eight("centre", 128), eight("halfway", 1<<19)
	order := GLOBL("order", RODATA|NOPTR)
	for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(v))
	}

	TEXT("exact8AVX2", NOSPLIT, "func(f *[64]int32, to *uint8, stride int)")
	Doc("exact8AVX2 is exact8Go, which leaves f as it is.")
	Pragma("noescape")
	from, to, stride := Load(Param("f"), GP64()), Load(Param("to"), GP64()), Load(Param("stride"), GP64())

	// odd is what comes of x4 … x7 behind the first steps.
	odd := func(x4, x5, x6, x7 Op, shift uint64) (a, b, c, d VecVirtual) {
		a, c = butterfly(x4, x6)
		d, b = butterfly(x7, x5)
		a, d = turn(right(shift, a), right(shift, d), cos3, sin3)
		b, c = turn(right(shift, b), right(shift, c), cos1, sin1)
		return a, b, c, d
	}
	meet := func(x0, x1, x2, x3, x4, x5, x6, x7 Op) (x [8]VecVirtual) {
		a, d := butterfly(x0, x3)
		b, c := butterfly(x1, x2)
		x[0], x[7] = butterfly(a, x7)
		x[1], x[6] = butterfly(b, x6)
		x[2], x[5] = butterfly(c, x5)
		x[3], x[4] = butterfly(d, x4)
		return x
	}

	var r [8]VecVirtual
	for i := range r {
		r[i] = YMM()
		VMOVDQU(Mem{Base: from, Disp: 32 * i}, r[i])
	}
	r = transposed(r)
	x7, x4 := butterfly(left(7, r[1]), left(7, r[7]))
	a4, a5, a6, a7 := odd(x4, product(half8, r[3]), product(half8, r[5]), x7, 2)
	x0, x1 := butterfly(left(17, r[0]), left(17, r[4]))
	x2, x3 := turn(r[2], r[6], cos6Fine, sin6Fine)
	r = transposed(meet(x0, x1, x2, x3, a4, a5, a6, a7))

	x7, x4 = butterfly(r[1], r[7])
	a4, a5, a6, a7 = odd(x4, product(half14, right(13, r[3])), product(half14, right(13, r[5])), x7, 14)
	mean := plus(r[0], halfway)
	x0, x1 = butterfly(mean, r[4])
	x2, x3 = turn(right(13, r[2]), right(13, r[6]), cos6, sin6)
	x := meet(right(2, x0), right(2, x1), x2, x3, a4, a5, a6, a7) // rows of samples

	for i := range x {
		VPSRAD(Imm(18), x[i], x[i])
		VPADDD(columns, x[i], x[i])
	}
	places := YMM()
	VMOVDQU(order, places)
	for i := 0; i < 8; i += 4 {
		VPACKSSDW(x[i+1], x[i], x[i])
		VPACKSSDW(x[i+3], x[i+2], x[i+2])
		VPACKUSWB(x[i+2], x[i], x[i]) // half of each of four rows in a lane
		VPERMD(x[i], places, x[i])
		rest := XMM()
		VEXTRACTI128(Imm(1), x[i], rest)
		for _, two := range []Register{x[i].AsX(), rest} {
			VMOVQ(two, Mem{Base: to})
			ADDQ(stride, to)
			VPEXTRQ(Imm(1), two, Mem{Base: to})
			ADDQ(stride, to)
		}
	}
	VZEROUPPER()
	RET()
}
