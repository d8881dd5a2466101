package conv

import "slices"

// place is one row of C: where its terms begin in A, where it lies in C, and
// which taps it has.
type place struct {
	at, ct int32
	taps   string // one byte a tap, 1 if it is there
}

// tiling is a set of places cut into tiles. Places of a tile need not be
// neighbours: they are chosen to have the same taps, so that taps beyond the
// edge of the image cost nothing.
type tiling struct {
	at, ct []int32
	groups []group
}

// group is tiles with the same taps.
type group struct {
	rows   int // of a tile, 6 or 4
	lo, hi int // in at and ct
	taps   []tap
}

// tap is one that some row of a tile has, and the rows that have it.
type tap struct{ index, mask int32 }

// newTiling cuts places, grouped by taps in the order in which they come. What
// is left of each group is put together with what resembles it most.
func newTiling(places []place) *tiling {
	t := new(tiling)
	classes := map[string][]place{}
	var order []string
	for _, p := range places {
		if classes[p.taps] == nil {
			order = append(order, p.taps)
		}
		classes[p.taps] = append(classes[p.taps], p)
	}
	var left []place
	for _, k := range order {
		c := classes[k]
		whole := len(c) / tileRows * tileRows
		t.add(tileRows, c[:whole])
		left = append(left, c[whole:]...)
	}
	for len(left) > 0 {
		tile := left[:1:1]
		left = left[1:]
		union := tile[0].taps
		for len(tile) < tileRows && len(left) > 0 {
			best, least := 0, len(union)+1
			for i, p := range left {
				if more := count(p.taps) - count(both(p.taps, union)) + count(union) - count(both(p.taps, union)); more < least {
					best, least = i, more
				}
			}
			if disjoint(union, left[best].taps) {
				break
			}
			union = either(union, left[best].taps)
			tile = append(tile, left[best])
			left = slices.Delete(slices.Clone(left), best, best+1)
		}
		t.add(tileRows, tile)
	}
	return t
}

// add appends tiles; the last place fills up what is missing.
func (t *tiling) add(rows int, places []place) {
	if len(places) == 0 {
		return
	}
	if len(places) <= 4 {
		rows = 4
	}
	g := group{rows: rows, lo: len(t.at)}
	for i := range (len(places) + rows - 1) / rows * rows {
		p := places[min(i, len(places)-1)]
		t.at, t.ct = append(t.at, p.at), append(t.ct, p.ct)
	}
	g.hi = len(t.at)
	for k := range places[0].taps {
		mask := int32(0)
		for i := range min(rows, len(places)) {
			mask |= int32(places[i].taps[k]) << i
		}
		for i := len(places); i < rows; i++ {
			mask |= int32(places[len(places)-1].taps[k]) << i
		}
		if mask != 0 {
			g.taps = append(g.taps, tap{int32(k), mask})
		}
	}
	t.groups = append(t.groups, g)
}

func count(s string) (n int) {
	for i := range len(s) {
		n += int(s[i])
	}
	return n
}

func zip(a, b string, f func(x, y byte) byte) string {
	s := []byte(a)
	for i := range s {
		s[i] = f(a[i], b[i])
	}
	return string(s)
}

func both(a, b string) string   { return zip(a, b, func(x, y byte) byte { return x & y }) }
func either(a, b string) string { return zip(a, b, func(x, y byte) byte { return x | y }) }
func disjoint(a, b string) bool { return count(both(a, b)) == 0 && count(a) > 0 && count(b) > 0 }
