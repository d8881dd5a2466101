package store

import (
	"slices"

	"github.com/gradlab/gradlab/experiments/figure"
)

// List is a table of runs, a column a field. Columns in which no run knows
// anything are left out.
func List(runs []*Run, fields []Field) figure.Table {
	var t figure.Table
	rows := make([][]string, len(runs))
	for _, f := range fields {
		known := false
		for i, r := range runs {
			s := f.Show(r)
			if f.Name == "id" && len(s) > shortID {
				s = s[:shortID]
			}
			known = known || s != ""
			if s == "" && f.Kind.Numeric() {
				s = "–"
			}
			rows[i] = append(rows[i], s)
		}
		if !known {
			for i := range rows {
				rows[i] = rows[i][:len(rows[i])-1]
			}
			continue
		}
		if spare := slices.Index(spares, f.Name); spare >= 0 {
			t.Spare = append(t.Spare, len(t.Header))
		}
		t.Header, t.Right = append(t.Header, f.Name), append(t.Right, f.Kind.Numeric())
	}
	slices.SortStableFunc(t.Spare, func(a, b int) int {
		return slices.Index(spares, t.Header[a]) - slices.Index(spares, t.Header[b])
	})
	t.Rows = rows
	return t
}

// shortID is how many digits of an id are shown; any prefix finds a run.
const shortID = 6

// spares are fields that make room first.
var spares = []string{"loss", "started", "recipe"}

// Records are the runs' fields as they are exported, an ordered record a run.
func Records(runs []*Run, fields []Field) []map[string]any {
	var out []map[string]any
	for _, r := range runs {
		m := map[string]any{}
		for _, f := range fields {
			m[f.Name] = f.Value(r)
		}
		out = append(out, m)
	}
	return out
}
