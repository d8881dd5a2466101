package conv

// One kernel does all products: tiles of 6 (or 4) rows by 16 columns of C, each
// row anywhere. It reads A where it lies, so nothing is unfolded and little is
// packed. This file is its plain-Go form, the specification of the assembly,
// and what runs where there is none.
//
// Plain Go rounds each product before adding it, the assembly fuses the two, in
// the same order. So with k terms two results differ by at most about
//
//	k · 2^-23 · Σ |a|·|b|
//
// and plain Go gives the same bits on every machine.

const (
	tileRows = 6 // the usual height of a tile; 4 is the other
	tileCols = 16
)

// segment is a run of terms: A from row + a and B from b on, n steps. Rows
// whose bit is not in mask read zeros instead.
type segment struct{ a, b, n, mask int32 }

// allRows is the mask of a segment that no row is excused from.
const allRows = 1<<tileRows - 1

// job is a number of tiles that differ in the rows they read and write.
type job struct {
	rows   int       // 6 or 4
	at, ct []int32   // for each tile and row, where it is in A and in C
	segs   []segment // what is summed up, in order
	a, b   []float32
	sa, sb int // floats in A and B from one step to the next
	// All segments are done reps times, arep and brep further on each time.
	reps, arep, brep int
	c                []float32
	add              bool      // add to C instead of overwriting it
	bias             []float32 // 16 values to add, or nil
	relu             bool      // at last: what is ≤ 0 becomes 0, and NaN stays
}

// tilesGo computes
//
//	for each tile, i < rows, j < 16:
//	    s = 0
//	    for r < reps, each segment, l < n:
//	        s += a[at[i] + seg.a + r·arep + l·sa] · b[seg.b + r·brep + l·sb + j]
//	    c[ct[i] + j] = relu(c[ct[i] + j] + s + bias[j])
//
// where rows of a tile may be the same, and then are done once.
func tilesGo(t *job) {
	var acc [tileRows][tileCols]float32
	for k := 0; k < len(t.at); k += t.rows {
		for i := range t.rows {
			acc[i] = t.row(k, i)
		}
		for i := range t.rows {
			copy(t.c[t.ct[k+i]:], acc[i][:])
		}
	}
}

// row is row i of the tile whose first row is k.
func (t *job) row(k, i int) (s [tileCols]float32) {
	at, ct := int(t.at[k+i]), int(t.ct[k+i])
	for r := range t.reps {
		for _, seg := range t.segs {
			if seg.mask>>i&1 == 0 {
				continue
			}
			a, b := t.a[at+int(seg.a)+r*t.arep:], t.b[int(seg.b)+r*t.brep:]
			for l := range int(seg.n) {
				v, w := a[l*t.sa], (*[tileCols]float32)(b[l*t.sb:])
				for j := range s {
					s[j] += float32(v * w[j])
				}
			}
		}
	}
	for j := range s {
		if t.add {
			s[j] = t.c[ct+j] + s[j]
		}
		if t.bias != nil {
			s[j] += t.bias[j]
		}
		if t.relu && s[j] <= 0 {
			s[j] = 0
		}
	}
	return s
}
