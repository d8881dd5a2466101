package figure

import (
	"math"
	"strconv"
)

// tick is a mark on an axis; minor ones have no label.
type tick struct {
	at    float64
	label string
}

// ticks gives the most ticks whose labels fit.
func (a Axis) ticks(s scale, fits func([]tick) bool) []tick {
	var found []tick
	if s.log && s.max/s.min >= 5 {
		for _, c := range a.Unit.logTicks(s) {
			if fits(c) {
				found = c
				break
			}
		}
		if len(found) >= 2 {
			return append(found, a.Unit.minorTicks(s)...)
		}
	}
	for _, c := range a.Unit.linearTicks(s) {
		if fits(c) {
			if len(c) > len(found) {
				found = c
			}
			break
		}
	}
	return found
}

// linearTicks are the choices of evenly spaced ticks, the densest first. All
// labels are in one unit: 0 min, 20 min, 40 min.
func (u Unit) linearTicks(s scale) [][]tick {
	most := max(math.Abs(s.min), math.Abs(s.max))
	unit := u.stepAt(most / 2)
	lo, hi := s.min/unit.size, s.max/unit.size
	if hi-lo < 1e-11*most/unit.size {
		return nil
	}
	var choices [][]tick
	e := int(math.Floor(math.Log10(hi-lo))) - 1
	for i := range 9 {
		power := e + i/3
		width := []float64{1, 2, 5}[i%3] * math.Pow10(power)
		var c []tick
		for k := math.Ceil(lo/width - 1e-9); k <= hi/width+1e-9; k++ {
			v := k*width + 0 // no negative zero
			label := minus(strconv.FormatFloat(v, 'f', max(0, -power), 64))
			if power < -4 || power > 5 {
				label = number(v)
			}
			suffix := unit.suffix
			if v == 0 && u == Plain {
				suffix = ""
			}
			if at := v * unit.size; s.contains(at) {
				c = append(c, tick{at, label + suffix})
			}
		}
		choices = append(choices, c)
	}
	return choices
}

// logTicks are the choices of labelled ticks on a logarithmic axis, the densest
// first.
func (u Unit) logTicks(s scale) [][]tick {
	var choices [][]tick
	for _, l := range []struct {
		digits []float64 // of each decade
		every  int       // only every so many decades
		clock  []float64 // for times of a minute and more
	}{
		{[]float64{1, 2, 5}, 1, []float64{60, 120, 300, 600, 1200, 3600, 7200, 5 * 3600, 10 * 3600, day, 2 * day, 5 * day, 10 * day, 20 * day, 50 * day, 100 * day}},
		{[]float64{1, 3}, 1, []float64{120, 300, 900, 3600, 3 * 3600, 10 * 3600, day, 3 * day, 10 * day, 30 * day, 100 * day}},
		{[]float64{1}, 1, []float64{60, 600, 3600, 10 * 3600, 4 * day, 40 * day, 400 * day}},
		{[]float64{1}, 2, []float64{60, 3600, day, 100 * day}},
		{[]float64{1}, 3, []float64{60, 3600, day, 100 * day}},
		{[]float64{1}, 6, []float64{3600}},
		{[]float64{1}, 30, nil},
		{[]float64{1}, 100, nil},
	} {
		var c []tick
		add := func(v float64) {
			if s.contains(v) {
				c = append(c, tick{v, u.label(v)})
			}
		}
		decades(s, func(e int, power float64) {
			for _, d := range l.digits {
				if v := d * power; e%l.every == 0 && (u != Seconds || v < 59) {
					add(v)
				}
			}
		})
		if u == Seconds {
			for _, v := range l.clock {
				add(v)
			}
		}
		choices = append(choices, c)
	}
	return choices
}

const day = 86400

// minorTicks are those between: 2 to 9 of each decade, of each unit of time; only
// the decades where they are many, none where those are too many.
func (u Unit) minorTicks(s scale) []tick {
	var c []tick
	add := func(v float64) {
		if s.contains(v) {
			c = append(c, tick{at: v})
		}
	}
	digits, n := 9, math.Log10(s.max/s.min)
	if n > 40 {
		return nil
	} else if n > 5 {
		digits = 1
	}
	decades(s, func(_ int, power float64) {
		for d := range digits {
			if v := float64(d+1) * power; u != Seconds || v < 59 {
				add(v)
			}
		}
	})
	if u == Seconds {
		for _, base := range []float64{60, 600, 3600, 36000, day, 10 * day, 100 * day} {
			limit := map[float64]int{600: 5, 36000: 2}[base]
			if limit == 0 || digits == 1 {
				limit = digits
			}
			for d := range limit {
				add(float64(d+1) * base)
			}
		}
	}
	return c
}

// decades visits the powers of ten around the scale.
func decades(s scale, visit func(e int, power float64)) {
	for e := int(math.Floor(math.Log10(s.min))); e <= int(math.Ceil(math.Log10(s.max))); e++ {
		if power := math.Pow10(e); power > 0 && !math.IsInf(power, 1) {
			visit(e, power)
		}
	}
}
