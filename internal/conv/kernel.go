package conv

import "github.com/gradlab/gradlab/internal/portable"

// One kernel does all products: tiles of 6 (or 4) rows by 16 columns of C, each
// row anywhere. It reads A where it lies, so nothing is unfolded and little is
// packed. This file is its plain-Go form, the specification of the assembly,
// and what runs where there is none.

const (
	tileRows = 6 // the usual height of a tile; 4 is the other
	tileCols = 16
)

// segment is a run of terms: A from row + a and B from b on, n steps. Rows
// whose bit is not in mask read zeros instead.
type segment struct{ a, b, n, mask int32 }

// allRows is the mask of a segment that no row is excused from.
const allRows = 1<<tileRows - 1

// maxPanels is how many panels of 16 columns a job can have.
const maxPanels = 4

// job is a number of tiles that differ in the rows they read and write. Assembly
// knows where its fields are.
type job struct {
	tiles  int       // len(at) / rows, once it is begun
	at, ct []int32   // for each tile and row, where it is in A and in C
	segs   []segment // what is summed up, in order
	a, b   []float32
	c      []float32
	sa, sb int // floats in A and B from one step to the next
	pb, pc int // floats in B and C from one panel to the next
	// All segments are done reps times, arep and brep further on each time.
	reps, arep, brep int
	bias             []float32 // 16 values a panel to add, or nil
	add              bool      // add to C instead of overwriting it
	relu             bool      // at last: what is ≤ 0 becomes 0, and NaN stays
	rows             int       // 6 or 4
	panels           int       // 1 to maxPanels
}

// panelGo computes, in panel p of a job,
//
//	for each tile, i < rows, j < 16:
//	    s = 0
//	    for r < reps, each segment, l < n:
//	        s += a[at[i] + seg.a + r·arep + l·sa] · b[seg.b + p·pb + r·brep + l·sb + j], rounded once
//	    c[ct[i] + p·pc + j] = relu(c[ct[i] + p·pc + j] + s + bias[16p + j])
//
// where a row that a segment excuses reads zeros, and rows of a tile may be the same, and
// then are done once.
func panelGo(t *job, p int) {
	var acc [tileRows][tileCols]float32
	for k := 0; k < len(t.at); k += t.rows {
		for i := range t.rows {
			acc[i] = t.row(k, i, p)
		}
		for i := range t.rows {
			copy(t.c[int(t.ct[k+i])+p*t.pc:], acc[i][:])
		}
	}
}

// row is row i of the tile whose first row is k, in panel p.
func (t *job) row(k, i, p int) (s [tileCols]float32) {
	at, ct := int(t.at[k+i]), int(t.ct[k+i])+p*t.pc
	for r := range t.reps {
		for _, seg := range t.segs {
			b := t.b[int(seg.b)+p*t.pb+r*t.brep:]
			a, step := zeros[:1], 0
			if seg.mask>>i&1 == 1 {
				a, step = t.a[at+int(seg.a)+r*t.arep:], t.sa
			}
			for l := range int(seg.n) {
				portable.AddScaled(&s, a[l*step], (*[tileCols]float32)(b[l*t.sb:]))
			}
		}
	}
	for j := range s {
		if t.add {
			s[j] = t.c[ct+j] + s[j]
		}
		if t.bias != nil {
			s[j] += t.bias[p*tileCols+j]
		}
		if t.relu && s[j] <= 0 {
			s[j] = 0
		}
	}
	return s
}
