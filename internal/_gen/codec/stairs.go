package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// stairs writes the kernel that rounds to the entries of a table. Of eight elements the
// even ones and the odd ones are worked on as float64, as the halves of draws lie.
func stairs() {
	begin("climb", "(codes []byte, y []float32, perUnit, top float64, steps *[256]uint32, start uint64)", "32")
	codes, y, n, steps := base("codes"), base("y"), length("y"), word("steps")
	perUnit, top := double("perUnit"), double("top")
	minus, lift := op2(VXORPD, top, quads(1<<63)), op2(VADDPD, top, quads(two52)) // lift shows z + top in the low bits
	d := newDraws("start")
	const (
		down = 1
		less = 0x11 // false for NaN, raises nothing
		odds = 0xaa
	)
	eights(codes, n, func(i Register, u int) VecVirtual {
		var v, z [2]VecVirtual
		v[0], v[1] = widen(op1(VMOVUPS, at(y, i, 4, 8*u)))
		for h, v := range v {
			VMULPD(perUnit, v, v)
			VMINPD(top, v, v)
			VMAXPD(minus, v, v)
			z[h] = op2(VADDPD, opi(VROUNDPD, down, v), lift)
		}
		VPSLLQ(Imm(32), z[1], z[1])
		VPBLENDD(Imm(odds), z[1], z[0], z[0])
		step, all := YMM(), op1(VMOVDQU, longs(1<<32-1))
		VPGATHERDD(all, Mem{Base: steps, Index: z[0], Scale: 4}, step)
		draw := d.next()
		var up [2]VecVirtual
		for h, v := range v {
			from, width := opi(VPSRLD, 16, step), op2(VPAND, opi(VPSRLD, 8, step), longs(255))
			if h == 1 {
				VPSRLQ(Imm(32), from, from)
				VPSRLQ(Imm(32), width, width)
				VPSRLQ(Imm(32), draw, draw)
			}
			VPBLENDD(Imm(odds), quads(two52), from, from)
			VSUBPD(op2(VSUBPD, from, lift), v, v)
			VMULPD(quads(two32), v, v)
			VPMULUDQ(draw, width, width)
			VPOR(quads(two52), width, width)
			VSUBPD(quads(two52), width, width)
			up[h] = YMM()
			VCMPPD(Imm(less), v, width, up[h])
		}
		VPBLENDD(Imm(odds), up[1], up[0], up[0])
		VPAND(longs(255), step, step)
		VPSUBD(up[0], step, step)
		return step
	})
	end()
}
