package codec

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

func rotation() {
	// Six levels: three among the lanes of each of eight registers, three among
	// the registers.
	kernel.First("hadamard64AVX2", "func(x []float32)", "x", 64,
		"hadamard64AVX2 is the six levels of hadamardGo at the distances from 1 to 32.")
	x, n := base("x"), length("x")
	each(n, 64, func(i Register) {
		var v []VecVirtual
		for u := range 8 {
			y := op1(VMOVUPS, at(x, i, 4, 8*u))
			for _, l := range []struct {
				swap  func(y VecVirtual) VecVirtual
				minus Mem
			}{
				{func(y VecVirtual) VecVirtual { return opi(VPERMILPS, 0xb1, y) }, signs(1, 3, 5, 7)},
				{func(y VecVirtual) VecVirtual { return opi(VPERMILPS, 0x4e, y) }, signs(2, 3, 6, 7)},
				{func(y VecVirtual) VecVirtual { return opi(VPERMPD, 0x4e, y) }, signs(4, 5, 6, 7)},
			} {
				other := l.swap(y)
				VXORPS(l.minus, y, y)
				VADDPS(other, y, y)
			}
			v = append(v, y)
		}
		butterflies(v)
		for u, y := range v {
			VMOVUPS(y, at(x, i, 4, 8*u))
		}
	})
	end()

	for _, many := range []int{8, 4, 2} {
		name := fmt.Sprintf("butterflies%dAVX2", many)
		kernel.All(name, "func(x []float32, h int)",
			fmt.Sprintf("%s is the levels of hadamardGo at the distances from h to %d·h, h a multiple", name, many/2),
			fmt.Sprintf("of eight, for a length that is a multiple of %d·h.", many))
		x, n, h := base("x"), length("x"), word("h")
		end64 := GP64()
		LEAQ(Mem{Base: x, Index: n, Scale: 4}, end64)
		step := GP64() // bytes between partners
		MOVQ(h, step)
		SHLQ(Imm(2), step)
		Label("block" + name)
		CMPQ(x, end64)
		JGE(LabelRef("done" + name))
		each(h, 8, func(i Register) {
			p := GP64()
			LEAQ(Mem{Base: x, Index: i, Scale: 4}, p)
			var v []VecVirtual
			for u := range many {
				v = append(v, op1(VMOVUPS, Mem{Base: p}))
				if u+1 < many {
					ADDQ(step, p)
				}
			}
			butterflies(v)
			for u := range many {
				VMOVUPS(v[many-1-u], Mem{Base: p})
				if u+1 < many {
					SUBQ(step, p)
				}
			}
		})
		for range many {
			ADDQ(step, x)
		}
		JMP(LabelRef("block" + name))
		Label("done" + name)
		end()
	}

	scaling()

	begin("flip", "(x []float32, bits []byte)", "x", 8)
	x, n = base("x"), length("x")
	bits := base("bits")
	up := op1(VMOVDQU, lanes(31, 30, 29, 28, 27, 26, 25, 24))
	each(n, 8, func(i Register) {
		s := op1(VPBROADCASTB, Mem{Base: bits})
		INCQ(bits)
		VPSLLVD(up, s, s)
		VPAND(longs(1<<31), s, s)
		VPXOR(at(x, i, 4, 0), s, s)
		VMOVDQU(s, at(x, i, 4, 0))
	})
	end()
}

func scaling() {
	begin("scaleTo", "(y, x []float32, a float64)", "x", 8)
	y, x, n, a := base("y"), base("x"), length("x"), double("a")
	each(n, 8, func(i Register) {
		v := inDoubles(op1(VMOVUPS, at(x, i, 4, 0)), VCVTPS2PD, func(w VecVirtual) { VMULPD(a, w, w) })
		VMOVUPS(v, at(y, i, 4, 0))
	})
	end()
}

// signs is a table of sign bits, set in some lanes.
func signs(set ...int) Mem {
	v := make([]uint32, 8)
	for _, i := range set {
		v[i] = 1 << 31
	}
	return lanes(v...)
}

// butterflies replaces the registers by sums and differences: neighbours first,
// then every second, then every fourth.
func butterflies(v []VecVirtual) {
	for h := 1; h < len(v); h *= 2 {
		for i := range v {
			if i&h == 0 {
				a, b := v[i], v[i+h]
				v[i], v[i+h] = op2(VADDPS, a, b), op2(VSUBPS, a, b)
			}
		}
	}
}
