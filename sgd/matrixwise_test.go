package sgd_test

import (
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// moved names the tensors of a layout that an update moves. Gradients are 0 with idle.
func moved(t *testing.T, text string, l sgd.Layout, idle bool) string {
	t.Helper()
	tr, err := sgd.Optimizers.MustParse(text).New(l)
	if err != nil {
		t.Fatal(err)
	}
	u, params := make([]float32, l.Size()), make([]float32, l.Size())
	for n := range 2 { // some rules take no step at first
		for i := range u {
			if params[i] = float32(1 + i%3); !idle {
				u[i] = float32(1 + i%5)
			}
		}
		tr.Apply(u, params, sgd.Step{N: n, LR: 1})
	}
	var names []string
	for i, s := range l.Spans {
		for _, v := range l.View(u, i) {
			if v != 0 {
				names = append(names, s.Name)
				break
			}
		}
	}
	return strings.Join(names, " ")
}

// A table has two dimensions, and is none of the matrices that rules for them take; decay
// takes it as a weight.
func TestTablesAreNoMatrices(t *testing.T) {
	var l sgd.Layout
	for _, s := range []sgd.Span{
		{Name: "table", Role: sgd.Embedding, Rows: 4, Cols: 3}, {Name: "matrix", Role: sgd.Weight, Rows: 3, Cols: 3},
		{Name: "row", Role: sgd.Weight, Rows: 1, Cols: 3}, {Name: "column", Role: sgd.Weight, Rows: 3, Cols: 1}, {Name: "bias", Role: sgd.Bias, Rows: 1, Cols: 3},
	} {
		l.Add(s.Name, s.Role, s.Rows, s.Cols)
	}
	for text, want := range map[string]string{
		"muon":                                   "matrix",
		"groups(muon,on(sgd,roles=[embedding]))": "table matrix",
		"groups(muon,adamw)":                     "table matrix row column bias",
		"on(sgd,roles=[weight])":                 "matrix row column",
	} {
		if got := moved(t, text, l, false); got != want {
			t.Errorf("%s moves %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"chain(decay,sgd)":    "table matrix row column",
		"adamw":               "table matrix row column",
		"soap":                "table matrix row column",
		"dion(decay=0.1)":     "matrix",
		"muon(decay=0.1)":     "matrix",
		"lamb(decay=0.1)":     "table matrix row column",
		"decoupled(all=true)": "table matrix row column bias",
	} {
		if got := moved(t, text, l, true); got != want {
			t.Errorf("%s decays %q, want %q", text, got, want)
		}
	}
}
