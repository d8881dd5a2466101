package store

import (
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/figure"
)

// alike are fields in which any two runs differ, or that follow from others.
var alike = []string{"id", "folder", "run", "started", "updated", "schema", "params_sha256", "step"}

// Diff is a table of the fields in which two runs differ: keys of the
// configuration first, then machine and outcome.
func Diff(a, b *Run) figure.Table {
	t := figure.Table{Header: []string{"field", name(a), name(b)}}
	row := func(f Field) {
		if x, y := f.Show(a), f.Show(b); exactOr(f.Value(a)) != exactOr(f.Value(b)) {
			if x == y { // the difference is in digits that are not shown
				x, y = exactOr(f.Value(a)), exactOr(f.Value(b))
			}
			t.Rows = append(t.Rows, []string{f.Name, x, y})
		}
	}
	all := Fields()
	for _, f := range all[len(facts):] {
		row(f)
	}
	for _, f := range all[:len(facts)] {
		if !slices.Contains(alike, f.Name) {
			row(f)
		}
	}
	return t
}

func name(r *Run) string {
	return strings.TrimSpace(r.ID[:min(shortID, len(r.ID))] + " " + r.Recipe)
}

func exactOr(v any) string {
	if v == nil {
		return "-"
	}
	return exact(v)
}
