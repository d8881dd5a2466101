package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func selection() {
	begin("atLeast", "(mask []byte, x []float32, tau uint32) (most uint32)", "32")
	mask, x, n := base("mask"), base("x"), length("x")
	tau := single("tau")
	VPSUBD(longs(1), tau, tau)
	acc := [2]VecVirtual{YMM(), YMM()}
	for _, y := range acc {
		VPXOR(y, y, y)
	}
	each(n, 32, func(i Register) {
		var hit [4]VecVirtual
		for u := range hit {
			v := op2(VPAND, op1(VMOVDQU, at(x, i, 4, 8*u)), longs(magnitude))
			VPMAXUD(v, acc[u&1], acc[u&1])
			hit[u] = op2(VPCMPGTD, v, tau)
			if u&1 == 1 {
				VPACKSSDW(hit[u], hit[u-1], hit[u-1])
			}
		}
		VPACKSSWB(hit[2], hit[0], hit[0])
		VPERMD(hit[0], inOrder(), hit[0])
		r := GP32()
		VPMOVMSKB(hit[0], r)
		MOVL(r, Mem{Base: mask})
		ADDQ(Imm(4), mask)
	})
	VPMAXUD(acc[1], acc[0], acc[0])
	Store(reduce(acc[0], VPMAXUD), ReturnIndex(0))
	end()

	begin("count", "(x []float32, tau uint32) int", "32")
	x, n = base("x"), length("x")
	tau = single("tau")
	VPSUBD(longs(1), tau, tau)
	acc = [2]VecVirtual{YMM(), YMM()}
	for _, y := range acc {
		VPXOR(y, y, y)
	}
	each(n, 32, func(i Register) {
		for u := range 4 {
			v := op2(VPAND, op1(VMOVDQU, at(x, i, 4, 8*u)), longs(magnitude))
			VPSUBD(op2(VPCMPGTD, v, tau), acc[u&1], acc[u&1])
		}
	})
	VPADDD(acc[1], acc[0], acc[0])
	total := GP64()
	MOVL(reduce(acc[0], VPADDD), total.As32())
	Store(total, ReturnIndex(0))
	end()
}
