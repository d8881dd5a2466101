package figure

import "math"

// scale maps the values of an axis to 0…1.
type scale struct {
	log      bool
	min, max float64
}

// has says whether a value has a place on an axis: it is a number, and positive
// if the axis is logarithmic. Numbers beyond 1e300 count as infinite.
func (a Axis) has(v float64) bool {
	return math.Abs(v) < 1e300 && (!a.Log || v > 1e-300)
}

// scale gives the range of an axis: what it asks for, else that of the values
// with a little room.
func (a Axis) scale(values []float64) scale {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if a.has(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	s := scale{log: a.Log}
	if a.Min != a.Max && max(math.Abs(a.Min), math.Abs(a.Max)) < 1e300 {
		s.min, s.max = min(a.Min, a.Max), max(a.Min, a.Max)
		switch {
		case a.has(s.min):
			return s
		case a.has(s.max): // logarithmic, from 0
			if s.min = s.max / 1000; lo < s.max {
				s.min = lo
			}
			return s
		}
	}
	switch {
	case lo > hi && a.Log:
		s.min, s.max = 1, 10
	case lo > hi:
		s.min, s.max = 0, 1
	case a.Log:
		room := max(math.Pow(hi/lo, 0.03), 1)
		if math.IsInf(room, 1) {
			room = 1
		}
		if hi/lo < 1.01 {
			room = 1.5
		}
		s.min, s.max = lo/room, hi*room
	default:
		room := 0.04 * (hi - lo)
		if most := max(math.Abs(lo), math.Abs(hi)); room <= 1e-9*most {
			room = max(0.1*most, 1e-9)
		}
		s.min, s.max = lo-room, hi+room
		if lo >= 0 {
			s.min = max(s.min, 0)
		}
		if a.Unit == Percent && hi <= 1 {
			s.max = min(s.max, 1)
		}
		if s.min >= s.max {
			s.min = s.max - 2*room
		}
	}
	return s
}

// norm is the place of a value, 0 at the axis's begin and 1 at its end, kept to
// what a canvas can take.
func (s scale) norm(v float64) float64 {
	lo, hi := s.min, s.max
	if s.log {
		v, lo, hi = math.Log(v), math.Log(lo), math.Log(hi)
	}
	return max(-1000, min(1000, (v-lo)/(hi-lo)))
}

// contains is true for values on the axis, with a grain of tolerance.
func (s scale) contains(v float64) bool {
	n := s.norm(v)
	return n > -1e-9 && n < 1+1e-9
}
