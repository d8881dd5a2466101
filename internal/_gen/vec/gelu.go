package vec

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pair is a group of float64 in two registers: eight, with AVX-512 sixteen.
type pair [2]VecVirtual

// doubles reads as many float32.
func (at place) doubles(p Register) (d pair) {
	for h := range d {
		m := at.of(p, 4)
		m.Disp += 16 * h
		if wide {
			m.Disp += 16 * h
		}
		d[h] = register()
		VCVTPS2PD(m, d[h])
	}
	return d
}

// singles rounds to as many float32.
func (d pair) singles() VecVirtual {
	if wide {
		lo, hi, z := YMM(), YMM(), ZMM()
		VCVTPD2PS(d[0], lo)
		VCVTPD2PS(d[1], hi)
		VINSERTF64X4(Imm(1), hi, lo.AsZ(), z)
		return z
	}
	lo, hi, y := XMM(), XMM(), YMM()
	VCVTPD2PSY(d[0], lo)
	VCVTPD2PSY(d[1], hi)
	VINSERTF128(Imm(1), hi, lo.AsY(), y)
	return y
}

// operation is an instruction of two operands, and its form that reads one number
// from memory for every place.
type operation struct{ plain, spread func(...Op) }

var (
	plus  = operation{VADDPD, VADDPD_BCST}
	minus = operation{VSUBPD, VSUBPD_BCST}
	times = operation{VMULPD, VMULPD_BCST}
	over  = operation{VDIVPD, VDIVPD_BCST}
	masks = operation{VANDPD, VPANDQ_BCST}
)

// with is d o e.
func (d pair) with(o operation, e pair) (r pair) {
	for h := range r {
		r[h] = register()
		o.plain(e[h], d[h], r[h])
	}
	return r
}

// by is with for a number.
func (d pair) by(o operation, number float64) (r pair) {
	for h := range r {
		r[h] = register()
		if wide {
			o.spread(double(number), d[h], r[h])
		} else {
			o.plain(double(number), d[h], r[h])
		}
	}
	return r
}

// doubled are the numbers that there is a place in memory for.
var doubled = map[uint64]Mem{}

// double is where a number lies four times.
func double(number float64) Mem {
	bits := math.Float64bits(number)
	m, ok := doubled[bits]
	if !ok {
		m = GLOBL(fmt.Sprintf("double%d", len(doubled)), RODATA|NOPTR)
		for i := range 4 {
			DATA(8*i, U64(bits))
		}
		doubled[bits] = m
	}
	return m
}

// all has the number in every place.
func all(number float64) pair {
	y := register()
	VBROADCASTSD(double(number), y)
	return pair{y, y}
}

// horner is c[0] + x·(c[1] + x·(c[2] + …)).
func horner(x pair, c ...float64) pair {
	s := all(c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		s = s.with(times, x).by(plus, c[i])
	}
	return s
}

// expDown is its twin in package f32.
func expDown(x pair) pair {
	shifted := x.by(times, math.Log2E).by(plus, 0.5)
	var k, power pair
	bias := all(math.Float64frombits(1023))
	for h := range k {
		k[h], power[h] = register(), register()
		if wide {
			whole := YMM()
			VCVTTPD2DQ(shifted[h], whole)
			VCVTDQ2PD(whole, k[h])
			VPMOVSXDQ(whole, power[h])
		} else {
			whole := XMM()
			VCVTTPD2DQY(shifted[h], whole)
			VCVTDQ2PD(whole, k[h])
			VPMOVSXDQ(whole, power[h])
		}
		VPSUBQ(power[h], bias[h], power[h])
		VPSLLQ(Imm(52), power[h], power[h])
	}
	r := k.by(times, math.Ln2).with(minus, x)
	return horner(r, 1, 1, 1./2, 1./6, 1./24, 1./120, 1./720, 1./5040).with(times, power)
}

// normal is its twin in package f32: Φ(x), and e^(−x²/2).
func normal(x pair) (below, e pair) {
	square, most := x.with(times, x).by(times, 0.5), all(700)
	for h := range square {
		VMINPD(square[h], most[h], square[h]) // of NaN and a number NaN
	}
	e = expDown(square)
	t := x.by(masks, math.Float64frombits(1<<63-1)).by(times, 0.3275911/math.Sqrt2).by(plus, 1)
	t = all(1).with(over, t)
	below = e.by(times, 0.5).with(times, t).with(times, horner(t, 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429))
	none, one := all(0), all(1)
	for h := range below {
		if wide {
			above := K()
			VCMPPD(Imm(greater), none[h], x[h], above)
			VSUBPD(below[h], one[h], above, below[h])
			continue
		}
		rest, above := op(VSUBPD, one[h], below[h]), YMM()
		VCMPPD(Imm(greater), none[h], x[h], above)
		VBLENDVPD(above, rest, below[h], below[h])
	}
	return below, e
}

// greater is the predicate of VCMPPD that does not hold for NaN and raises nothing.
const greater = 0x1e

func gelus() {
	begin("gelu", "(y, x []float32)", "y", 8)
	y, x, n := base("y"), base("x"), length("y")
	each(n, 1, func(at place) {
		v := at.doubles(x)
		below, _ := normal(v)
		at.store(v.with(times, below).singles(), y)
	})
	end()

	begin("geluGrad", "(dy, x []float32)", "dy", 8)
	dy, x, n := base("dy"), base("x"), length("dy")
	each(n, 1, func(at place) {
		v := at.doubles(x)
		below, e := normal(v)
		slope := below.with(plus, v.with(times, e.by(times, 1/(math.Sqrt2*math.SqrtPi)))).singles()
		VMULPS(at.of(dy, 4), slope, slope)
		at.store(slope, dy)
	})
	end()
}
