package codec

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/reg"
)

// The numbers of SplitMix64.
const (
	gamma = 0x9e3779b97f4a7c15
	mix1  = 0xbf58476d1ce4e5b9
	mix2  = 0x94d049bb133111eb
)

// draws is rng.Key.Uint64 for four indices at a time, step apart: SplitMix64.
type draws struct {
	z    VecVirtual
	step uint64
}

// newDraws starts at parameter start: the key, plus γ times one more than the
// first index.
func newDraws(start string) draws { return drawsBy(start, 1) }

func drawsBy(start string, step uint64) draws {
	z := op1(VPBROADCASTQ, address(start))
	g := uint64(gamma) * step
	VPADDQ(table([4]uint64{0, g, 2 * g, 3 * g}), z, z)
	return draws{z, step}
}

// next is the next four draws.
func (d draws) next() VecVirtual {
	y := times(xorShift(30, d.z), mix1)
	y = times(xorShift(27, y), mix2)
	g := uint64(gamma) * d.step
	VPADDQ(quads(4*g), d.z, d.z)
	return xorShift(31, y)
}

// xorShift is y ^ y>>n.
func xorShift(n uint64, y VecVirtual) VecVirtual { return op2(VPXOR, opi(VPSRLQ, n, y), y) }

// times is y·c modulo 2⁶⁴, from products of 32 bits.
func times(y VecVirtual, c uint64) VecVirtual {
	low, up := quads(c), quads(c>>32)
	cross := op2(VPADDQ, op2(VPMULUDQ, opi(VPSRLQ, 32, y), low), op2(VPMULUDQ, y, up))
	return op2(VPADDQ, op2(VPMULUDQ, y, low), opi(VPSLLQ, 32, cross))
}

// fractions is what serves sixteen elements: eight halves of draws, cut down to
// so many bits, and the same with the halves' own halves exchanged.
func (d draws) fractions(bits uint64) [2]VecVirtual {
	half := d.next()
	other := YMM()
	VPSHUFB(table([4]uint64{0x0504070601000302, 0x0d0c0f0e09080b0a, 0x0504070601000302, 0x0d0c0f0e09080b0a}), half, other)
	return [2]VecVirtual{opi(VPSRLD, 32-bits, half), opi(VPSRLD, 32-bits, other)}
}

// widen is elements 0, 2, 4, 6 and 1, 3, 5, 7 of eight as float64.
func widen(y VecVirtual) (even, odd VecVirtual) {
	order := op1(VMOVDQU, lanes(0, 2, 4, 6, 1, 3, 5, 7))
	VPERMPS(y, order, order)
	return op1(VCVTPS2PD, order.AsX()), op1(VCVTPS2PD, upper(order))
}
