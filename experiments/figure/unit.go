package figure

import (
	"math"
	"strconv"
	"strings"
)

// Unit says what an axis counts, and so how its ticks read.
type Unit int

// The units of axes.
const (
	Plain   Unit = iota // 0.5, 20k, 3M
	Seconds             // 30 s, 5 min, 2 h
	Bytes               // 10 kB, 10 MB, decimal
	Percent             // of a fraction: 0.9 is 90 %
)

// step is one name of a unit, used for values of at least from.
type step struct {
	from, size float64
	suffix     string
}

// steps of a unit, the smallest first.
var steps = [...][]step{
	Plain:   {{0, 1, ""}, {1e4, 1e3, "k"}, {1e6, 1e6, "M"}, {1e9, 1e9, "G"}},
	Seconds: {{0, 1e-6, " µs"}, {1e-3, 1e-3, " ms"}, {1, 1, " s"}, {60, 60, " min"}, {3600, 3600, " h"}, {86400, 86400, " d"}},
	Bytes:   {{0, 1, " B"}, {1e3, 1e3, " kB"}, {1e6, 1e6, " MB"}, {1e9, 1e9, " GB"}, {1e12, 1e12, " TB"}, {1e15, 1e15, " PB"}},
	Percent: {{0, 0.01, " %"}},
}

// stepAt is the name for values of size v.
func (u Unit) stepAt(v float64) step {
	if u < 0 || int(u) >= len(steps) {
		u = Plain
	}
	s := steps[u][0]
	for _, t := range steps[u] {
		if math.Abs(v) >= t.from*(1-1e-9) {
			s = t
		}
	}
	return s
}

// label writes one value for itself: 30 s, 5 min.
func (u Unit) label(v float64) string {
	s := u.stepAt(v)
	if v == 0 && u == Seconds {
		s = u.stepAt(1)
	}
	return number(v/s.size) + s.suffix
}

// number writes up to four digits, and powers of ten when there are many.
func number(v float64) string {
	a := math.Abs(v)
	if a != 0 && (a < 0.9995e-3 || a >= 0.99995e5) {
		m, e, _ := strings.Cut(strconv.FormatFloat(v, 'e', 3, 64), "e")
		m = strings.TrimSuffix(strings.TrimRight(m, "0"), ".")
		n, _ := strconv.Atoi(e)
		if n < 0 { // fonts have raised digits, but not all have a raised minus
			return minus(m) + "e" + minus(strconv.Itoa(n))
		}
		if m == "1" {
			return "10" + raised(n)
		}
		return minus(m) + "×10" + raised(n)
	}
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	return minus(strconv.FormatFloat(r, 'f', -1, 64))
}

// minus puts the sign of the typographers for that of the programmers.
func minus(s string) string { return strings.Replace(s, "-", "−", 1) }

// raised writes an exponent, not negative.
func raised(n int) string {
	return strings.NewReplacer("0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴",
		"5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹").Replace(strconv.Itoa(n))
}
