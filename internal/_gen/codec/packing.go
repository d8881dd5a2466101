package codec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Codes of so many bits: 32 of them are 4·width bytes.
func packing() {
	// Neighbours are joined by multiplying one of them and adding: codes to
	// pairs, pairs to fours. Two fours in a word of 64 bits are pushed together
	// by shifts. Eight bytes are stored for every eight codes, of which width
	// are theirs: the rest is overwritten by the next.
	begin("pack", "(dst, codes []byte, width int, by *[128]byte)", "codes", 32, "with 8 bytes of dst to spare")
	dst, codes, n, width, by := base("dst"), base("codes"), length("codes"), word("width"), word("by")
	pairs, fours := op1(VMOVDQU, Mem{Base: by}), op1(VMOVDQU, Mem{Base: by, Disp: 32})
	push := op1(VMOVDQU, Mem{Base: by, Disp: 64})
	pull := op1(VMOVDQU, Mem{Base: by, Disp: 96})
	each(n, 32, func(i Register) {
		y := op1(VMOVDQU, at(codes, i, 1, 0))
		VPMADDUBSW(y, pairs, y)
		VPMADDWD(fours, y, y)
		VPSLLVD(push, y, y)
		VPSRLVQ(pull, y, y)
		x, r := y.AsX(), GP64()
		for h := range 2 {
			if h == 1 {
				x = upper(y)
			}
			VMOVQ(x, Mem{Base: dst})
			ADDQ(width, dst)
			VPEXTRQ(Imm(1), x, r)
			MOVQ(r, Mem{Base: dst})
			ADDQ(width, dst)
		}
	})
	end()

	// The two bytes that hold a code go to a lane of 16 bits, a product shifts
	// the code to its top, a shift from there down.
	begin("unpack", "(codes, p []byte, width int, by *[72]byte)", "codes", 32, "with 16 bytes of p to spare")
	codes, n = base("codes"), length("codes")
	unpacked(n, func(i Register, y VecVirtual) {
		VPERMQ(Imm(0xd8), y, y)
		VMOVDQU(y, at(codes, i, 1, 0))
	})
	end()

	begin("maxCode", "(count int, p []byte, width int, by *[72]byte) uint8", "count", 32, "with 16 bytes of p to spare")
	most := zero()
	unpacked(word("count"), func(_ Register, y VecVirtual) { VPMAXUB(y, most, most) })
	Store(largestByte(most), ReturnIndex(0))
	end()

	begin("maxByte", "(b []byte) uint8", "b", 32)
	b, n := base("b"), length("b")
	most = zero()
	each(n, 32, func(i Register) { VPMAXUB(at(b, i, 1, 0), most, most) })
	Store(largestByte(most), ReturnIndex(0))
	end()
}

// unpacked runs body for every 32 of n codes at parameter p, of which the second
// and the third eight are exchanged.
func unpacked(n Register, body func(i Register, y VecVirtual)) {
	p, width, by := base("p"), word("width"), word("by")
	where, shift := op1(VMOVDQU, Mem{Base: by}), op1(VMOVDQU, Mem{Base: by, Disp: 32})
	down := XMM()
	VMOVQ(Mem{Base: by, Disp: 64}, down)
	each(n, 32, func(i Register) {
		var y [2]VecVirtual
		for h := range y {
			y[h] = op1(VBROADCASTI128, Mem{Base: p})
			LEAQ(Mem{Base: p, Index: width, Scale: 2}, p)
			VPSHUFB(where, y[h], y[h])
			VPMULLW(shift, y[h], y[h])
			VPSRLW(down, y[h], y[h])
		}
		VPACKUSWB(y[1], y[0], y[0])
		body(i, y[0])
	})
}

func zero() VecVirtual {
	y := YMM()
	VPXOR(y, y, y)
	return y
}

func largestByte(y VecVirtual) Register {
	m, t, r := XMM(), XMM(), GP32()
	VPMAXUB(upper(y), y.AsX(), m)
	for _, shift := range []uint64{8, 4, 2, 1} {
		VPSRLDQ(Imm(shift), m, t)
		VPMAXUB(t, m, m)
	}
	VMOVD(m, r)
	return r.As8()
}
