package codec

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/gradlab/gradlab/internal/_gen/kernel"
)

func centroids() {
	for bits := 1; bits <= 4; bits++ {
		nearest(bits)
	}

	for _, name := range []string{"lookup", "addLookup"} {
		kernel.First(name+"AVX2", "func(dst []float32, codes []byte, values *[16]float32)", "dst", 8,
			name+"AVX2 is "+name+"Go for codes below sixteen.")
		dst, codes, n, values := base("dst"), base("codes"), length("dst"), word("values")
		first, second := op1(VMOVUPS, Mem{Base: values}), op1(VMOVUPS, Mem{Base: values, Disp: 32})
		each(n, 8, func(i Register) {
			c := op1(VPMOVZXBD, at(codes, i, 1, 0))
			a, b := op2(VPERMPS, c, first), op2(VPERMPS, c, second)
			VPSLLD(Imm(28), c, c) // bit 3 to the sign
			VBLENDVPS(c, b, a, a)
			if name == "addLookup" {
				VADDPS(at(dst, i, 4, 0), a, a)
			}
			VMOVUPS(a, at(dst, i, 4, 0))
		})
		end()
	}
}

// nearest writes the kernel for codes of so many bits, the sign among them.
func nearest(bits int) {
	name := fmt.Sprintf("nearest%dAVX2", bits)
	kernel.First(name, "func(codes []byte, y []float32, inv float64, by *[16]float32, sums *[16]float64)", "y", 32,
		fmt.Sprintf("%s is nearestGo at %d bits.", name, bits))
	codes, y, n, by, sums := base("codes"), base("y"), length("y"), word("by"), word("sums")
	inv := double("inv")
	var dot, square [2]VecVirtual
	for h := range 2 {
		dot[h], square[h] = op1(VMOVUPD, Mem{Base: sums, Disp: 32 * h}), op1(VMOVUPD, Mem{Base: sums, Disp: 64 + 32*h})
	}
	eights(codes, n, func(i Register, u int) VecVirtual {
		group := at(y, i, 4, 8*u)
		a := op2(VANDPS, op1(VMOVUPS, group), longs(magnitude))
		z := inDoubles(a, VCVTPS2PD, func(w VecVirtual) { VMULPD(inv, w, w) })
		code := YMM()
		VPXOR(code, code, code)
		for c := range 1<<(bits-1) - 1 {
			const greater = 0x1e // false for NaN, raises nothing
			cut, above := op1(VBROADCASTSS, Mem{Base: by, Disp: 32 + 4*c}), YMM()
			VCMPPS(Imm(greater), cut, z, above)
			VPSUBD(above, code, code)
		}
		q := op2(VPERMPS, code, Mem{Base: by})
		for h := range 2 {
			zx, qx := Op(z.AsX()), Op(q.AsX())
			if h == 1 {
				zx, qx = upper(z), upper(q)
			}
			zd, qd := op1(VCVTPS2PD, zx), op1(VCVTPS2PD, qx)
			VMULPD(qd, zd, zd)
			VADDPD(zd, dot[h], dot[h])
			VMULPD(qd, qd, qd)
			VADDPD(qd, square[h], square[h])
		}
		sign := op2(VPAND, op1(VMOVDQU, group), longs(1<<31)) // read again: registers are few
		VPSRLD(Imm(uint64(32-bits)), sign, sign)
		VPOR(sign, code, code)
		return code
	})
	for h := range 2 {
		VMOVUPD(dot[h], Mem{Base: sums, Disp: 32 * h})
		VMOVUPD(square[h], Mem{Base: sums, Disp: 64 + 32*h})
	}
	end()
}
