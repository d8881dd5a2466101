package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pair is eight float64: the lower four elements of a group, and the upper four.
type pair [2]VecVirtual

// doubles reads eight float32 as float64.
func (at place) doubles(p Register) (d pair) {
	for h := range d {
		d[h] = YMM()
		m := at.of(p, 4)
		m.Disp += 16 * h
		VCVTPS2PD(m, d[h])
	}
	return d
}

// singles rounds to eight float32.
func (d pair) singles() VecVirtual {
	lo, hi, y := XMM(), XMM(), YMM()
	VCVTPD2PSY(d[0], lo)
	VCVTPD2PSY(d[1], hi)
	VINSERTF128(Imm(1), hi, lo.AsY(), y)
	return y
}

// with applies an operation of two operands to both halves: f(d, o).
func (d pair) with(f func(...Op), o pair) (r pair) {
	for h := range r {
		r[h] = op(f, d[h], o[h])
	}
	return r
}

// by is with for a number.
func (d pair) by(f func(...Op), number float64) (r pair) {
	for h := range r {
		r[h] = op(f, d[h], double(number))
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
	y := YMM()
	VMOVUPD(double(number), y)
	return pair{y, y}
}

// horner is c[0] + x·(c[1] + x·(c[2] + …)).
func horner(x pair, c ...float64) pair {
	s := all(c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		s = s.with(VMULPD, x).by(VADDPD, c[i])
	}
	return s
}

// expDown is its twin in package f32.
func expDown(x pair) pair {
	shifted := x.by(VMULPD, math.Log2E).by(VADDPD, 0.5)
	var k, power pair
	bias := GP64()
	MOVQ(I32(1023), bias)
	t, most := XMM(), YMM()
	VMOVQ(bias, t)
	VPBROADCASTQ(t, most)
	for h := range k {
		whole := XMM()
		VCVTTPD2DQY(shifted[h], whole)
		k[h], power[h] = YMM(), YMM()
		VCVTDQ2PD(whole, k[h])
		VPMOVSXDQ(whole, power[h])
		VPSUBQ(power[h], most, power[h])
		VPSLLQ(Imm(52), power[h], power[h])
	}
	r := k.by(VMULPD, math.Ln2).with(VSUBPD, x)
	return horner(r, 1, 1, 1./2, 1./6, 1./24, 1./120, 1./720, 1./5040).with(VMULPD, power)
}

// normal is its twin in package f32: Φ(x), and e^(−x²/2).
func normal(x pair) (below, e pair) {
	most := all(700)
	square := x.with(VMULPD, x).by(VMULPD, 0.5)
	for h := range square {
		VMINPD(square[h], most[h], square[h]) // of NaN and a number NaN
	}
	e = expDown(square)
	t := x.by(VANDPD, math.Float64frombits(1<<63-1)).by(VMULPD, 0.3275911/math.Sqrt2).by(VADDPD, 1)
	one := all(1)
	t = one.with(VDIVPD, t)
	below = e.by(VMULPD, 0.5).with(VMULPD, t).with(VMULPD, horner(t, 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429))
	none := zero()
	for h := range below {
		rest, above := op(VSUBPD, one[h], below[h]), YMM()
		VCMPPD(Imm(greater), none, x[h], above)
		VBLENDVPD(above, rest, below[h], below[h])
	}
	return below, e
}

// greater is the predicate of VCMPPD that does not hold for NaN and raises nothing.
const greater = 0x1e

func gelus() {
	begin("gelu", "(y, x []float32)")
	y, x, n := base("y"), base("x"), length("y")
	each(n, 1, func(at place) {
		v := at.doubles(x)
		below, _ := normal(v)
		at.store(v.with(VMULPD, below).singles(), y)
	})
	end()

	begin("geluGrad", "(dy, x []float32)")
	dy, x, n := base("dy"), base("x"), length("dy")
	each(n, 1, func(at place) {
		v := at.doubles(x)
		below, e := normal(v)
		slope := below.with(VADDPD, v.with(VMULPD, e.by(VMULPD, 1/(math.Sqrt2*math.SqrtPi)))).singles()
		at.store(mul(slope, at.of(dy, 4)), dy)
	})
	end()
}
