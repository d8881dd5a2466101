package store

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Frame is a table of typed columns, to be read by other programs.
type Frame struct {
	Columns []Column
	Rows    int
}

// Column is one column: numbers (float64), whole ones and bytes (uint64), instants
// (time.Time), bools or text, nil where a row knows nothing.
type Column struct {
	Name   string
	Kind   Kind
	Values []any
}

// Export makes a frame of runs. rows says what a row is: "runs", with every
// field; "evals" or "progress", a point of a curve, with the run's id, recipe, seed
// and the keys in which the runs differ. Metrics stand behind an evaluation.
func Export(runs []*Run, rows string) (*Frame, error) {
	t := &Frame{}
	switch rows {
	case "runs":
		for _, f := range FieldsOf(runs) {
			c := Column{Name: f.Name, Kind: f.Kind}
			for _, r := range runs {
				c.Values = append(c.Values, f.Value(r))
			}
			t.Columns = append(t.Columns, c)
		}
		t.Rows = len(runs)
		return t, nil
	case "evals", "progress":
	default:
		return nil, fmt.Errorf("rows %q: want runs, evals or progress", rows)
	}
	var about []Field
	for _, n := range append([]string{"id", "recipe", "run", "seed"}, Varying(runs)...) {
		f, err := FieldNamed(n)
		if err != nil {
			return nil, err
		}
		about = append(about, f)
	}
	for _, f := range about {
		t.Columns = append(t.Columns, Column{Name: f.Name, Kind: f.Kind})
	}
	names, kinds := progressColumns, progressKinds
	var metrics []sgd.Metric
	if rows == "evals" {
		names, kinds, metrics = evalColumns, evalKinds, MetricsOf(runs)
	}
	texts := slices.ContainsFunc(runs, func(r *Run) bool { return r.Tokens(1) > 0 })
	if texts {
		names, kinds = append(slices.Clone(names), "tokens"), append(slices.Clone(kinds), Whole)
	}
	for i, n := range names {
		t.Columns = append(t.Columns, Column{Name: n, Kind: kinds[i]})
	}
	for _, m := range metrics {
		t.Columns = append(t.Columns, Column{Name: m.Column(), Kind: Number})
	}
	for _, r := range runs {
		c, err := r.Curve()
		if err != nil {
			return nil, err
		}
		var own []any
		for _, f := range about {
			own = append(own, f.Value(r))
		}
		if rows == "evals" {
			for _, e := range c.Evals {
				row := []any{uint64(e.Step), uint64(e.Samples), e.Epoch, e.Seconds, r.Crossed(e.BytesUp, e.BytesDown), e.BytesUp, e.BytesDown}
				if texts {
					row = append(row, r.Tokens(e.Samples))
				}
				for _, m := range metrics {
					var value any
					if x, known := e.Values.Of(m); known {
						value = x
					}
					row = append(row, value)
				}
				t.append(own, row...)
			}
			continue
		}
		for _, p := range c.Progress {
			row := []any{uint64(p.Step), uint64(p.Samples), p.Epoch, p.Seconds, p.Loss, p.LR, p.StalenessMean, uint64(p.StalenessMax), p.BytesUp, p.BytesDown}
			if texts {
				row = append(row, r.Tokens(p.Samples))
			}
			t.append(own, row...)
		}
	}
	return t, nil
}

// The columns of a point of a curve.
var (
	evalColumns     = []string{"step", "samples", "epoch", "at_seconds", "bytes", "bytes_up", "bytes_down"}
	evalKinds       = []Kind{Whole, Whole, Number, Number, Whole, Whole, Whole}
	progressColumns = []string{"step", "samples", "epoch", "at_seconds", "loss", "lr", "staleness_mean", "staleness_max", "bytes_up", "bytes_down"}
	progressKinds   = []Kind{Whole, Whole, Number, Number, Number, Number, Number, Whole, Whole, Whole}
)

func (t *Frame) append(own []any, numbers ...any) {
	for i, v := range append(slices.Clone(own), numbers...) {
		if x, ok := v.(float64); ok && record.Diverged(x) {
			v = nil
		}
		t.Columns[i].Values = append(t.Columns[i].Values, v)
	}
	t.Rows++
}

// WriteCSV writes a header and the rows. Numbers are written so that they read
// back to the last bit, instants by RFC 3339. Text that a spreadsheet would take for a
// formula has an apostrophe before it.
func (t *Frame) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	line := make([]string, len(t.Columns))
	for i := range t.Columns {
		line[i] = t.Columns[i].Name
	}
	_ = c.Write(line)
	for r := range t.Rows {
		for i := range t.Columns {
			line[i] = ""
			if v := t.Columns[i].Values[r]; v != nil {
				line[i] = exact(v)
				if t.Columns[i].Kind == Text {
					line[i] = figure.Uncomputed(line[i])
				}
			}
		}
		_ = c.Write(line)
	}
	c.Flush()
	return c.Error()
}
