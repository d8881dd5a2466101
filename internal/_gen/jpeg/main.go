// Command jpeg writes the AVX2 assembly of package jpeg. From this folder:
//
//	go run . -out ../../jpeg/kernels_amd64.s -stubs ../../jpeg/kernels_stubs_amd64.go -pkg jpeg
//
// Each kernel does what its twin in plain Go does, bit for bit.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The numbers of package jpeg's idct.go.
const (
	fix  = 13
	keep = 2

	c1 = 11363
	c2 = 10703
	c3 = 9633
	c5 = 6437
	c6 = 4433
	c7 = 2260
)

func main() {
	ConstraintExpr("!noasm")
	inverse8()
	exact8()
	Generate()
}

// eight is a constant in every lane.
func eight(name string, v int32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(uint32(v)))
	}
	return m
}

// times is Σ c·f of pairs of constants and vectors.
func times(terms ...any) VecVirtual {
	sum := YMM()
	VPMULLD(terms[0].(Op), terms[1].(VecVirtual), sum)
	for i := 2; i < len(terms); i += 2 {
		t := YMM()
		VPMULLD(terms[i].(Op), terms[i+1].(VecVirtual), t)
		VPADDD(t, sum, sum)
	}
	return sum
}

func inverse8() {
	plus := map[int32]Mem{}
	for _, c := range []int32{c1, c2, c3, c5, c6, c7} {
		plus[c] = eight("c"+string(rune('a'+len(plus))), c)
	}
	minus := map[int32]Mem{}
	for _, c := range []int32{c1, c2, c5, c7} {
		minus[c] = eight("m"+string(rune('a'+len(minus))), -c)
	}
	columns, rows, middle := eight("columns", 1<<(fix-keep-1)), eight("rows", 1<<(fix+keep+2)), eight("middle", 128)

	TEXT("idct8AVX2", NOSPLIT, "func(f *[64]int32, to *uint8, stride int)")
	Doc("idct8AVX2 is idct8Go, which leaves f as it is.")
	Pragma("noescape")
	from, to, stride := Load(Param("f"), GP64()), Load(Param("to"), GP64()), Load(Param("stride"), GP64())

	// transform is the eight points across the vectors f, each sum rounded and shifted.
	transform := func(f [8]VecVirtual, round Mem, shift uint64) (x [8]VecVirtual) {
		a, b := YMM(), YMM()
		VPADDD(f[4], f[0], a)
		VPSUBD(f[4], f[0], b)
		VPSLLD(Imm(fix), a, a)
		VPSLLD(Imm(fix), b, b)
		VPADDD(round, a, a)
		VPADDD(round, b, b)
		p := times(plus[c2], f[2], plus[c6], f[6])
		q := times(plus[c6], f[2], minus[c2], f[6])
		var e [4]VecVirtual
		for i := range e {
			e[i] = YMM()
		}
		VPADDD(p, a, e[0])
		VPADDD(q, b, e[1])
		VPSUBD(q, b, e[2])
		VPSUBD(p, a, e[3])
		for i, o := range [4]func() VecVirtual{
			func() VecVirtual { return times(plus[c1], f[1], plus[c3], f[3], plus[c5], f[5], plus[c7], f[7]) },
			func() VecVirtual { return times(plus[c3], f[1], minus[c7], f[3], minus[c1], f[5], minus[c5], f[7]) },
			func() VecVirtual { return times(plus[c5], f[1], minus[c1], f[3], plus[c7], f[5], plus[c3], f[7]) },
			func() VecVirtual { return times(plus[c7], f[1], minus[c5], f[3], plus[c3], f[5], minus[c1], f[7]) },
		} {
			v := o()
			x[i], x[7-i] = YMM(), v
			VPADDD(v, e[i], x[i])
			VPSUBD(v, e[i], x[7-i])
			VPSRAD(Imm(shift), x[i], x[i])
			VPSRAD(Imm(shift), x[7-i], x[7-i])
		}
		return x
	}

	var f [8]VecVirtual
	for i := range f {
		f[i] = YMM()
		VMOVDQU(Mem{Base: from, Disp: 32 * i}, f[i])
	}
	f = transposed(transform(f, columns, fix-keep))
	x := transform(f, rows, fix+keep+3) // vector i is column i of the samples

	for i := range x {
		VPADDD(middle, x[i], x[i])
	}
	// Pairs of columns, four columns, all eight as bytes: lane h of v is rows 4h … 4h+3,
	// first of the even columns and then of the odd ones.
	words := func(a, b VecVirtual) VecVirtual { VPACKSSDW(b, a, a); return a }
	bytes := func(a, b VecVirtual) VecVirtual { VPACKUSWB(b, a, a); return a }
	v := bytes(words(x[0], x[2]), words(x[4], x[6])) // per lane: 4 rows of column 0, of 2, 4, 6
	w := bytes(words(x[1], x[3]), words(x[5], x[7]))
	lo, hi := YMM(), YMM()
	VPUNPCKLBW(w, v, lo) // columns 0 and 1 of 4 rows, then 2 and 3
	VPUNPCKHBW(w, v, hi) // 4 and 5, then 6 and 7
	for _, half := range []VecVirtual{lo, hi} {
		// words (01) of 4 rows, (23) of 4 rows: to row by row
		VPSHUFB(pairs(), half, half)
	}
	a, b := YMM(), YMM()
	VPUNPCKLDQ(hi, lo, a)
	VPUNPCKHDQ(hi, lo, b)
	rest := XMM()
	store := func(x Register) {
		VMOVQ(x, Mem{Base: to})
		ADDQ(stride, to)
		VPEXTRQ(Imm(1), x, Mem{Base: to})
		ADDQ(stride, to)
	}
	store(a.AsX())
	store(b.AsX())
	VEXTRACTI128(Imm(1), a, rest)
	store(rest)
	VEXTRACTI128(Imm(1), b, rest)
	store(rest)
	VZEROUPPER()
	RET()
}

var shuffle Mem

// pairs orders words of a lane: 0 4 1 5 2 6 3 7.
func pairs() Mem {
	if shuffle.Symbol.Name == "" {
		shuffle = GLOBL("pairs", RODATA|NOPTR)
		for lane := range 2 {
			for i := range 8 {
				word := uint16(i/2 + 4*(i%2))
				DATA(16*lane+2*i, U16(2*word|(2*word+1)<<8))
			}
		}
	}
	return shuffle
}

// transposed is eight vectors of eight, rows for columns.
func transposed(r [8]VecVirtual) (out [8]VecVirtual) {
	var t, u [8]VecVirtual
	for i := 0; i < 8; i += 2 {
		t[i], t[i+1] = YMM(), YMM()
		VPUNPCKLDQ(r[i+1], r[i], t[i])
		VPUNPCKHDQ(r[i+1], r[i], t[i+1])
	}
	for i := 0; i < 8; i += 4 {
		for k := range 2 {
			u[i+2*k], u[i+2*k+1] = YMM(), YMM()
			VPUNPCKLQDQ(t[i+2+k], t[i+k], u[i+2*k])
			VPUNPCKHQDQ(t[i+2+k], t[i+k], u[i+2*k+1])
		}
	}
	for i := range 4 {
		out[i], out[i+4] = YMM(), YMM()
		VPERM2I128(Imm(0x20), u[i+4], u[i], out[i])
		VPERM2I128(Imm(0x31), u[i+4], u[i], out[i+4])
	}
	return out
}
