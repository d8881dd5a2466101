package codec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// sketches writes the kernels of count sketches.
func sketches() {
	begin("places", "(a, b []uint32, cols int, start uint64)", "a", 8)
	a, b, n := base("a"), base("b"), length("a")
	cols := op1(VPBROADCASTQ, address("cols"))
	d := drawsBy("start", 8)
	each(n, 8, func(i Register) {
		var low, up [2]VecVirtual
		for u := range low {
			draw := d.next()
			half, sign := opi(VPSRLD, 1, draw), opi(VPSLLD, 31, draw)
			low[u] = op2(VPOR, opi(VPSRLQ, 31, op2(VPMULUDQ, half, cols)), sign)
			up[u] = op2(VPOR, opi(VPSRLQ, 31, op2(VPMULUDQ, opi(VPSRLQ, 32, half), cols)), opi(VPSRLQ, 32, sign))
		}
		for _, to := range []struct {
			p Register
			y [2]VecVirtual
		}{{a, low}, {b, up}} { // the lower halves of eight draws
			y := YMM()
			VSHUFPS(Imm(0x88), to.y[1], to.y[0], y)
			VPERMQ(Imm(0xd8), y, y)
			VMOVDQU(y, at(to.p, i, 4, 0))
		}
	})
	end()

	wide("places", "(a, b []uint32, cols int, start uint64)", "a", 16, func() {
		a, b, n := base("a"), base("b"), length("a")
		cols := op1(VPBROADCASTQ, address("cols"))
		z, g := op1(VPBROADCASTQ, address("start")), uint64(gamma)
		add, m1, m2 := everywhere(8*8*g), everywhere(mix1), everywhere(mix2)
		ramp := GLOBL("eightApart", RODATA|NOPTR)
		for i := range 8 {
			DATA(8*i, U64(8*g*uint64(i)))
		}
		VPADDQ(ramp, z, z)
		each(n, 16, func(i Register) {
			for u := range 2 {
				draw := op2(VPMULLQ, mixed(30, z), m1)
				draw = op2(VPMULLQ, mixed(27, draw), m2)
				draw = mixed(31, draw)
				VPADDQ(add, z, z)
				half, sign := opi(VPSRLD, 1, draw), opi(VPSLLD, 31, draw)
				low := op2(VPORQ, opi(VPSRLQ, 31, op2(VPMULUDQ, half, cols)), sign)
				up := op2(VPORQ, opi(VPSRLQ, 31, op2(VPMULUDQ, opi(VPSRLQ, 32, half), cols)), opi(VPSRLQ, 32, sign))
				VPMOVQD(low, at(a, i, 4, 8*u))
				VPMOVQD(up, at(b, i, 4, 8*u))
			}
		})
	})

	wide("look", "(dst, table []float32, places []uint32)", "dst", 16, func() {
		dst, table, places, n := base("dst"), base("table"), base("places"), length("dst")
		bits, all := vec(), K()
		r := GP32()
		MOVL(U32(magnitude), r)
		VPBROADCASTD(r, bits)
		each(n, 16, func(i Register) {
			c := op1(VMOVDQU32, at(places, i, 4, 0))
			p, v := op2(VPANDD, bits, c), vec()
			KXNORW(all, all, all)
			VPXORD(v, v, v)
			VPGATHERDD(Mem{Base: table, Index: p, Scale: 4}, all, v)
			VPTERNLOGD(Imm(0xb4), bits, c, v) // v ^ (c &^ bits)
			VMOVDQU32(v, at(dst, i, 4, 0))
		})
	})

	// The order of floats is that of their bits as integers, if those of
	// negative ones are turned around.
	begin("median5", "(dst []float32, a, b, c, d, e []float32)", "dst", 8)
	dst, n := base("dst"), length("dst")
	var rows []Register
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		rows = append(rows, base(name))
	}
	order := func(y VecVirtual) VecVirtual { return op2(VPXOR, opi(VPSRLD, 1, opi(VPSRAD, 31, y)), y) }
	each(n, 8, func(i Register) {
		var v []VecVirtual
		for _, row := range rows {
			v = append(v, order(op1(VMOVDQU, at(row, i, 4, 0))))
		}
		sort := func(x, y VecVirtual) (low, high VecVirtual) { return op2(VPMINSD, x, y), op2(VPMAXSD, x, y) }
		a, b := sort(v[0], v[1])
		c, d := sort(v[2], v[3])
		low, high := sort(op2(VPMAXSD, a, c), op2(VPMINSD, b, d))
		y := op2(VPMAXSD, low, op2(VPMINSD, high, v[4]))
		VMOVDQU(order(y), at(dst, i, 4, 0))
	})
	end()
}

// everywhere is a number in all lanes.
func everywhere(v uint64) VecVirtual {
	r := GP64()
	MOVQ(U64(v), r)
	return op1(VPBROADCASTQ, r)
}

// mixed is y ^ y>>n.
func mixed(n uint64, y VecVirtual) VecVirtual { return op2(VPXORQ, opi(VPSRLQ, n, y), y) }
