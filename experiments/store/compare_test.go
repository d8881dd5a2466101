package store

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	runs := find(t)
	var fields []Field
	for _, n := range []string{"id", "recipe", "run", "state", "accuracy", "loss", "bytes", "seconds", "started"} {
		f, err := FieldNamed(n)
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, f)
	}
	for _, width := range []int{80, 100, 160} {
		var b strings.Builder
		if err := List(runs, fields).Write(&b, "box", width); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(b.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("a line of %d characters on a terminal of %d:\n%s", n, width, line)
			}
		}
		if !strings.Contains(b.String(), "state") || !strings.Contains(b.String(), "accuracy") {
			t.Errorf("on a terminal of %d:\n%s", width, b.String())
		}
	}
}

func compared(t *testing.T) *Comparison {
	t.Helper()
	acc, err := FieldNamed("accuracy")
	if err != nil {
		t.Fatal(err)
	}
	gs := Groups(filtered(t, find(t), "mode=reduce", "state=done"))
	c, err := Compare(gs, 0, acc, record.Goal{Value: 0.8})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCompare(t *testing.T) {
	t.Parallel()
	c := compared(t)
	g := c.Groups[1]
	if len(c.Groups) != 2 || g.N != 2 || g.Paired != 2 || !known(g.P) || g.P <= 0 || g.P > 1 {
		t.Fatalf("%+v", g)
	}
	if d := float64(g.Mean - c.Groups[0].Mean); d-float64(g.Diff) > 1e-12 || d-float64(g.Diff) < -1e-12 {
		t.Errorf("the difference %v is not that of the means, %v", g.Diff, d)
	}
	if c.Groups[0].To.Seconds.N != 2 || known(c.Groups[0].Diff) {
		t.Errorf("%+v", c.Groups[0])
	}
	b, err := json.Marshal(c)
	if err != nil || !strings.Contains(string(b), `"diff":null`) {
		t.Errorf("%s %v", b, err)
	}
	for _, width := range []int{0, 80, 160} {
		var out strings.Builder
		if err := c.Write(&out, "box", width); err != nil || !strings.Contains(out.String(), "difference") {
			t.Errorf("%v\n%s", err, out.String())
		}
	}
}

// A configuration does not look better for its runs that failed: they are told,
// and count as never having reached the target.
func TestCompareTellsFailures(t *testing.T) {
	t.Parallel()
	acc, err := FieldNamed("accuracy")
	if err != nil {
		t.Fatal(err)
	}
	runs := filtered(t, find(t), "mode=reduce", "state=done")
	fail := func(r *Run, seed uint64) *Run {
		f := *r
		f.Config.Seed, f.State, f.Result, f.Step, f.Error, f.Folder = seed, Failed, nil, 7, "worker 1: fc1.weight has NaN\nand more", t.TempDir()
		f.ID, f.Name = f.Config.Hash(), "codec=raw,seed=9"
		return &f
	}
	raw := filtered(t, runs, "codec=raw")[0]
	lost := fail(raw, 1)
	lost.Config.Codec, lost.State = "sign", Lost
	worse := fail(raw, 1)
	worse.Config.Codec = "onebit"
	worse.ID = worse.Config.Hash()
	runs = Comparable(append(runs, fail(raw, 8), fail(raw, 9), lost, worse))
	if len(runs) != 7 {
		t.Fatalf("%d runs can be compared", len(runs))
	}
	c, err := Compare(Groups(runs), 0, acc, record.Goal{Value: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := c.Write(&out, "markdown", 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| raw | 2 of 4 |", "for 2 of 4 |", "| onebit | 0 of 1 | - |", "| never |", "codec=raw,seed=9 failed at step 7 and is in no mean: worker 1: fc1.weight has NaN\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// A target that is asked for is that of the fields that tell the way to it.
func TestCompareByTheTargetAskedFor(t *testing.T) {
	t.Parallel()
	f, err := FieldNamed("target_seconds")
	if err != nil {
		t.Fatal(err)
	}
	gs := Groups(filtered(t, find(t), "mode=reduce", "state=done"))
	for _, target := range []float64{0.3, 0.6} {
		c, err := Compare(gs, 0, f, record.Goal{Value: target})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range c.Groups {
			var sum float64
			for _, r := range g.Runs {
				d, err := r.ToTarget(record.Goal{Metric: sgd.Accuracy, Value: target})
				if err != nil {
					t.Fatal(err)
				}
				sum += d.Seconds
			}
			if want := sum / float64(len(g.Runs)); g.N != len(g.Runs) || float64(g.Mean) != want {
				t.Errorf("%s to %v: mean %v of %d, want %v", g.Label, target, g.Mean, g.N, want)
			}
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	runs := filtered(t, find(t), "mode=reduce", "seed=1", "state=done")
	d := Diff(runs[0], runs[1])
	if d.Rows[0][0] != "codec" || d.Rows[0][1] != "raw" || d.Rows[0][2] != "feedback(topk(keep=0.01))" {
		t.Errorf("%v", d.Rows)
	}
	if same := Diff(runs[0], runs[0]); len(same.Rows) != 0 {
		t.Errorf("a run differs from itself: %v", same.Rows)
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	base := "testdata/runs"
	for _, c := range []struct {
		args string
		want int
		err  string
	}{
		{"", 6, ""},
		{"codec=raw", 2, ""},
		{"testdata/runs", 6, ""},
		{"testdata/runs/quickstart/torn testdata/runs state=done", 5, ""},
		{"85952d 1a53", 2, ""},
		{"85952d codec~topk", 0, ""},
		{"abcdef", 0, "no run"},
		{"nowhere/else", 0, "is no folder"},
		{"acuracy>1", 0, `did you mean "accuracy"`},
	} {
		runs, err := Select(base, strings.Fields(c.args), time.Now())
		if len(runs) != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %d runs, %v", c.args, len(runs), err)
		}
	}
	if _, err := Select("testdata/none", nil, time.Now()); err == nil || !strings.Contains(err.Error(), "gradlab run quickstart") {
		t.Error(err)
	}
}

// What is exported reads back as it was, by another reader of the format.
func TestExport(t *testing.T) {
	t.Parallel()
	runs := find(t)
	for _, rows := range []string{"runs", "evals", "progress"} {
		f, err := Export(runs, rows)
		if err != nil {
			t.Fatal(err)
		}
		var text, binary bytes.Buffer
		if err := errors.Join(f.WriteCSV(&text), f.WriteParquet(&binary)); err != nil {
			t.Fatal(err)
		}
		lines, err := csv.NewReader(&text).ReadAll()
		if err != nil || len(lines) != f.Rows+1 {
			t.Fatalf("%s: %d lines of %d rows, %v", rows, len(lines), f.Rows, err)
		}
		r := parquet.NewReader(bytes.NewReader(binary.Bytes()))
		index := map[string]int{}
		for i, c := range lines[0] {
			index[c] = i
		}
		for i := 0; ; i++ {
			row := map[string]any{}
			if err := r.Read(&row); err == io.EOF {
				if i != f.Rows {
					t.Errorf("%s: %d rows, want %d", rows, i, f.Rows)
				}
				break
			} else if err != nil {
				t.Fatal(err)
			}
			for _, c := range f.Columns {
				want, got := lines[i+1][index[c.Name]], row[c.Name]
				switch {
				case got == nil && want == "":
				case c.Kind == Instant && got != nil:
				case got == nil || exact(unbyte(got)) != want:
					t.Fatalf("%s row %d, %s: %v in Parquet, %q in CSV", rows, i, c.Name, got, want)
				}
			}
		}
	}
	if _, err := Export(runs, "columns"); err == nil {
		t.Error("rows of columns")
	}
}

// A table of several row groups, with gaps, text of any kind, no rows: the library
// reads what was written, types and all.
func TestParquet(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 1, 2, 3, 4000, time.UTC)
	for _, n := range []int{0, 1, 7, parquetRows, 2*parquetRows + 3} {
		f := &Frame{Rows: n, Columns: []Column{{Name: "x", Kind: Number}, {Name: "a", Kind: Text}, {Name: "t", Kind: Instant}, {Name: "none", Kind: Seconds}, {Name: "yes", Kind: Bool}}}
		for i := range n {
			vs := []any{float64(i) / 3, fmt.Sprintf("ü%d,\nx", i%3), at.Add(time.Duration(i) * time.Second), nil, i%3 == 0}
			if i%5 == 3 || i > parquetRows && i < parquetRows+100 {
				vs = make([]any, 5)
			}
			for c := range f.Columns {
				f.Columns[c].Values = append(f.Columns[c].Values, vs[c])
			}
		}
		var b bytes.Buffer
		if err := f.WriteParquet(&b); err != nil {
			t.Fatal(err)
		}
		file, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatalf("%d rows: %v", n, err)
		}
		want := "message runs {\n\toptional double x;\n\toptional binary a (STRING);\n\toptional int64 t (TIMESTAMP(isAdjustedToUTC=true,unit=MICROS));\n\toptional double none;\n\toptional boolean yes;\n}"
		if got := file.Schema().String(); got != want || file.NumRows() != int64(n) {
			t.Errorf("%d rows of\n%s\nwant\n%s", file.NumRows(), got, want)
		}
		r := parquet.NewReader(file)
		rows := make([]parquet.Row, 1)
		for i := range n {
			if k, err := r.ReadRows(rows); k != 1 {
				t.Fatalf("row %d of %d: %v", i, n, err)
			}
			for c, name := range []string{"x", "a", "t", "none", "yes"} {
				v := rows[0][c]
				j := slices.IndexFunc(f.Columns, func(c Column) bool { return c.Name == name })
				switch x := f.Columns[j].Values[i].(type) {
				case nil:
					if !v.IsNull() {
						t.Fatalf("row %d, %s: %v, want none", i, name, v)
					}
				case bool:
					if v.Boolean() != x {
						t.Fatalf("row %d, %s: %v, want %v", i, name, v, x)
					}
				case float64:
					if v.Double() != x {
						t.Fatalf("row %d, %s: %v, want %v", i, name, v, x)
					}
				case time.Time:
					if v.Int64() != x.UnixMicro() {
						t.Fatalf("row %d, %s: %v, want %v", i, name, v, x)
					}
				case string:
					if string(v.ByteArray()) != x {
						t.Fatalf("row %d, %s: %v, want %q", i, name, v, x)
					}
				}
			}
		}
	}
	mixed := &Frame{Rows: 1, Columns: []Column{{Name: "a", Kind: Text, Values: []any{1.5}}}}
	if err := mixed.WriteParquet(io.Discard); err == nil {
		t.Error("a number among texts is taken")
	}
}

func unbyte(v any) any {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return v
}

// Rows stand in the order of their runs, and one worker alone behind them, whichever run of a
// sweep began first.
func TestOneWorkerAloneComesLast(t *testing.T) {
	t.Parallel()
	group := func(label string, workers int, codec string, at time.Duration) *Group {
		c := config.Default()
		c.Workers, c.Codec = workers, codec
		return &Group{Label: label, Runs: []*Run{{Config: c, Started: time.Unix(0, 0).Add(at)}}}
	}
	for _, alone := range []time.Duration{0, 2 * time.Second, 4 * time.Second} {
		groups := []*Group{group(Alone, 1, "raw", alone), group("bf16", 4, "bf16", 3*time.Second), group("raw", 4, "raw", time.Second)}
		Arrange(groups)
		var labels []string
		for _, g := range groups {
			labels = append(labels, g.Label)
		}
		if want := []string{"raw", "bf16", Alone}; !slices.Equal(labels, want) {
			t.Errorf("one worker alone began after %v: %v", alone, labels)
		}
	}
}
