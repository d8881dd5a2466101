package nemesis

import (
	"slices"
	"time"
)

// Minimise finds a part of a schedule of single faults that still fails, and from which
// nothing can be left out: no fault without which it fails, too, and no half of a fault's
// duration. It is delta debugging (Zeller and Hildebrandt 2002, ddmin); fails says whether a
// schedule does, and has to answer alike each time. What does not depend on faults at all
// comes to the empty schedule.
func Minimise(s Schedule, fails func(Schedule) bool) Schedule {
	if fails(nil) {
		return nil
	}
	s = slices.Clone(s)
	for parts := min(2, len(s)); len(s) > 1; {
		cut := false
		for i := range parts {
			lo, hi := i*len(s)/parts, (i+1)*len(s)/parts
			if rest := slices.Concat(s[:lo], s[hi:]); hi > lo && len(rest) > 0 && fails(rest) {
				s, parts, cut = rest, max(parts-1, 2), true
				break
			}
		}
		if cut {
			continue
		}
		if parts >= len(s) {
			break
		}
		parts = min(2*parts, len(s))
	}
	for i := range s {
		for {
			f, ok := halved(s[i])
			if !ok {
				break
			}
			try := slices.Clone(s)
			if try[i] = f; !fails(try) {
				break
			}
			s = try
		}
	}
	return s
}

// halved is a fault that lasts half as long; false: it does not last, or hardly.
func halved(f Fault) (Fault, bool) {
	half := func(d *time.Duration) bool {
		*d = (*d / 2).Round(time.Millisecond)
		return *d >= time.Millisecond
	}
	switch f := f.(type) {
	case Pause:
		ok := half(&f.For)
		return f, ok
	case Partition:
		ok := half(&f.For)
		return f, ok
	}
	return f, false
}
