package codec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// stairs writes the kernel that rounds to the entries of a table. Of eight elements the
// even ones and the odd ones are worked on as float64, as the halves of draws lie.
func stairs() {
	const (
		down = 1
		less = 0x11 // false for NaN, raises nothing
		odds = 0xaa
	)
	begin("climb", "(codes []byte, y []float32, perUnit, top float64, steps *[256]uint32, start uint64)", "y", 32)
	codes, y, n, steps := base("codes"), base("y"), length("y"), word("steps")
	perUnit, top := double("perUnit"), double("top")
	minus, lift := op2(VXORPD, top, quads(1<<63)), op2(VADDPD, top, quads(two52)) // lift shows z + top in the low bits
	d := newDraws("start")
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

	// Sixteen elements by eight draws, for tables of which two registers hold what there
	// is to say of every whole number. All is times 2³², the unit of half a draw.
	wide("climb", "(codes []byte, y []float32, perUnit, top float64, steps *[256]uint32, start uint64)", "y", 16, func() {
		codes, y, n, steps := base("codes"), base("y"), length("y"), word("steps")
		unit, up := everywhere(two32), everywhere(two84)
		perUnit, top := op2(VMULPD, double("perUnit"), unit), op2(VMULPD, double("top"), unit)
		minus, lift := op2(VSUBPD, op2(VSUBPD, top, top), top), op2(VADDPD, top, up) // lift shows z + top in the low bits
		var from, width, place [2]VecVirtual
		low := everywhere(0xff000000ff)
		for h := range from {
			step := op1(VMOVDQU32, Mem{Base: steps, Disp: 64 * h})
			from[h], place[h] = opi(VPSRLD, 16, step), op2(VPANDD, step, low)
			width[h] = op2(VPANDD, opi(VPSRLD, 8, step), low)
		}
		z, gap := op1(VPBROADCASTQ, address("start")), uint64(gamma)
		add, m1, m2, one := everywhere(8*gap), everywhere(mix1), everywhere(mix2), everywhere(1)
		VPADDQ(row("oneApart", 8, 64, func(i int) uint64 { return gap * uint64(i) }), z, z)
		evens := op1(VMOVDQU32, row("evensFirst", 16, 32, func(i int) uint64 { return uint64(2*i%16 + i/8) }))
		of := func(table [2]VecVirtual, z VecVirtual) VecVirtual { // high halves of z are for entry 0, where all is 0
			t := op1(VMOVDQA32, z)
			VPERMI2D(table[1], table[0], t)
			return t
		}
		each(n, 16, func(i Register) {
			draw := op2(VPMULLQ, mixed(30, z), m1)
			draw = mixed(31, op2(VPMULLQ, mixed(27, draw), m2))
			VPADDQ(add, z, z)
			v := op2(VPERMPS, evens, at(y, i, 4, 0))
			odd := YMM()
			VEXTRACTF32X8(Imm(1), v, odd)
			var code [2]VecVirtual
			for h, x := range []Op{v.AsY(), odd} {
				w := op2(VMULPD, op1(VCVTPS2PD, x), perUnit)
				VMINPD(top, w, w)
				VMAXPD(minus, w, w)
				below := vec()
				VADDPD_RD_SAE(lift, w, below)
				VSUBPD(op2(VSUBPD, op2(VPORQ, of(from, below), up), lift), w, w)
				if h == 1 {
					VPSRLQ(Imm(32), draw, draw)
				}
				more := K()
				VCMPPD(Imm(less), w, op1(VCVTUQQ2PD, op2(VPMULUDQ, draw, of(width, below))), more)
				code[h] = of(place, below)
				VPADDQ(one, code[h], more, code[h])
			}
			VPORQ(opi(VPSLLQ, 8, code[1]), code[0], code[0])
			VPMOVQW(code[0], at(codes, i, 1, 0))
		})
	})
}

// row is a table of so many numbers of so many bits.
func row(name string, n, bits int, of func(i int) uint64) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range n {
		if bits == 32 {
			DATA(4*i, U32(of(i)))
		} else {
			DATA(8*i, U64(of(i)))
		}
	}
	return m
}
