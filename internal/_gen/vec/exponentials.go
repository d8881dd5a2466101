package vec

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// singled are the numbers of float32 that there is a place in memory for.
var singled = map[uint32]Mem{}

// single is where a number lies eight times, by its bits.
func single(bits uint32) Mem {
	m, ok := singled[bits]
	if !ok {
		m = GLOBL(fmt.Sprintf("single%d", len(singled)), RODATA|NOPTR)
		for i := range 8 {
			DATA(4*i, U32(bits))
		}
		singled[bits] = m
	}
	return m
}

// by is an operation with one number for all lanes.
func by(o operation, a VecVirtual, bits uint32) VecVirtual {
	if wide {
		return op(o.spread, a, single(bits))
	}
	return op(o.plain, a, single(bits))
}

// Operations on float32.
var (
	plusS  = operation{VADDPS, VADDPS_BCST}
	timesS = operation{VMULPS, VMULPS_BCST}
	orS    = operation{func(x ...Op) { VORPS(x[0], x[1], x[2]) }, VPORD_BCST}
	plusD  = operation{func(x ...Op) { VPADDD(x...) }, VPADDD_BCST}
)

func plusNumber(a VecVirtual, c float32) VecVirtual  { return by(plusS, a, math.Float32bits(c)) }
func timesNumber(a VecVirtual, c float32) VecVirtual { return by(timesS, a, math.Float32bits(c)) }

// spread is a register with the number in every lane.
func spread(c float32) VecVirtual {
	y := register()
	VBROADCASTSS(single(math.Float32bits(c)), y)
	return y
}

// least is the number below which package f32 computes the exponential of.
const least = -87.3

// exponential is Exp of package f32 for x above its least, or NaN.
func exponential(x VecVirtual) VecVirtual {
	const toInteger = 3 << 22
	t := plusNumber(timesNumber(x, math.Log2E), toInteger)
	k := plusNumber(t, -toInteger)
	r := sub(sub(x, timesNumber(k, 0x1.62e4p-1)), timesNumber(k, 0x1.7f7d1cp-20))
	square := mul(r, r)
	low := plusNumber(timesNumber(r, 0x1.555492p-3), 0x1.fffffcp-2)
	high := plusNumber(timesNumber(r, 0x1.123a2p-7), 0x1.5558f2p-5)
	q := add(mul(add(timesNumber(square, 0x1.6a23dp-10), high), square), low)
	y := plusNumber(add(mul(square, q), r), 1)
	power := register()
	VPSLLD(Imm(23), t, power)
	return mul(add(y, y), by(plusD, power, 126<<23))
}

// sigmoids is its twin in package f32.
func sigmoids(x, lo VecVirtual) (up, down VecVirtual) {
	e := exponential(op(VMAXPS, lo, by(orS, x, 1<<31)))
	up = div(spread(1), plusNumber(e, 1))
	return up, mul(e, up)
}

// bySign is a where the sign bit of x is set, else b.
func bySign(x, a, b VecVirtual) VecVirtual {
	y := register()
	if wide {
		below := K()
		VPTESTMD_BCST(single(1<<31), x, below)
		VBLENDMPS(a, b, below, y)
	} else {
		VBLENDVPS(x, a, b, y)
	}
	return y
}

func exponentials() {
	begin("expSum", "(s *[16]float64, dst, x []float32, c float32)", "dst", 16)
	dst, x, c := base("dst"), base("x"), number("c")
	lo, hi := spread(least), spread(88.8)
	sixteens(length("dst"), func(i Register, acc []VecVirtual) {
		for u := range 16 / width() {
			at := place{i, u}
			// Of a NaN and a number, both give the operand named first here.
			v := op(VMINPS, hi, op(VMAXPS, lo, sub(at.load(x), c)))
			y := exponential(v)
			at.store(y, dst)
			for h := range 2 {
				d := register()
				m := at.of(dst, 4)
				m.Disp += 2 * width() * h
				VCVTPS2PD(m, d)
				VADDPD(d, acc[2*u+h], acc[2*u+h])
			}
		}
	})
	end()

	begin("swiGLU", "(y, a, b []float32)", "y", 8)
	y, a, b, n := base("y"), base("a"), base("b"), length("y")
	lo = spread(least)
	each(n, 1, func(at place) {
		v := at.load(a)
		up, down := sigmoids(v, lo)
		at.store(mul(mul(v, bySign(v, down, up)), at.of(b, 4)), y)
	})
	end()

	begin("swiGLUGrad", "(da, db, dy, a, b []float32)", "dy", 8)
	da, db, dy, a, b, n := base("da"), base("db"), base("dy"), base("a"), base("b"), length("dy")
	lo = spread(least)
	each(n, 1, func(at place) {
		v := at.load(a)
		up, down := sigmoids(v, lo)
		s, rest := bySign(v, down, up), bySign(v, up, down)
		d, silu := at.load(dy), mul(v, s)
		slope := mul(mul(d, at.of(b, 4)), add(s, mul(silu, rest)))
		at.store(mul(d, silu), db)
		at.store(slope, da)
	})
	end()
}
