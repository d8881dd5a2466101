package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
)

// seeded are runs of these seeds.
func seeded(seeds ...uint64) (runs []*Run) {
	for _, s := range seeds {
		c := config.Default()
		c.Seed = s
		runs = append(runs, &Run{Config: c, State: Done, Result: &experiments.Result{BytesUp: 1<<53 + 1, Samples: 12345678}})
	}
	return runs
}

// Whole numbers keep all their digits: shown, found, compared and exported.
func TestWholeNumbers(t *testing.T) {
	t.Parallel()
	const a, b, c, d = 16045690984503098046, 16045690984503098047, 1<<53 + 1, 1 << 53
	runs := seeded(a, b, c, d)
	seed, err := FieldNamed("seed")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"16045690984503098046", "16045690984503098047", "9007199254740993", "9007199254740992"} {
		if got := seed.Show(runs[i]); got != want {
			t.Errorf("shown as %s; want %s", got, want)
		}
	}
	if got := List(runs[:1], []Field{seed, fieldNamed(t, "samples"), fieldNamed(t, "bytes_up")}).Rows[0]; !slices.Equal(got, []string{"16045690984503098046", "12345678", "9.0 PB"}) {
		t.Errorf("listed as %q", got)
	}
	for filter, want := range map[string][]uint64{
		"seed=16045690984503098046": {a}, "seed=9007199254740993": {c}, "seed!=9007199254740993": {a, b, d}, "seed=9.007199254740992e15": {d},
		"seed>9007199254740992": {a, b, c}, "seed<=9007199254740992": {d}, "seed>=16045690984503098047": {b}, "seed<1e17": {c, d}, "seed>9007199254740992.5": {a, b, c},
		"seed~8047": {b}, "bytes_up=9007199254740993": {a, b, c, d}, "bytes_up<9007199254740993": nil, "samples=12.345678e6": {a, b, c, d}, "seed>-1": {a, b, c, d}, "seed<Inf": {a, b, c, d},
	} {
		cond, err := ParseCondition(filter, time.Now())
		if err != nil {
			t.Error(err)
			continue
		}
		var got []uint64
		for _, r := range Filter(runs, cond) {
			got = append(got, r.Config.Seed)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s finds %v; want %v", filter, got, want)
		}
	}
	slices.SortFunc(runs, seed.Compare)
	if got := []uint64{runs[0].Config.Seed, runs[1].Config.Seed, runs[2].Config.Seed, runs[3].Config.Seed}; !slices.IsSorted(got) {
		t.Errorf("sorted: %v", got)
	}
	text, err := json.Marshal(Records(runs, []Field{seed}))
	if want := `[{"seed":9007199254740992},{"seed":9007199254740993},{"seed":16045690984503098046},{"seed":16045690984503098047}]`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	if rows := Diff(runs[2], runs[3]).Rows; fmt.Sprint(rows) != "[[seed 16045690984503098046 16045690984503098047]]" {
		t.Errorf("difference %v", rows)
	}

	f, err := Export(runs, "runs")
	if err != nil {
		t.Fatal(err)
	}
	var csv, binary bytes.Buffer
	if err := f.WriteCSV(&csv); err != nil || !strings.Contains(csv.String(), "16045690984503098047") {
		t.Errorf("%v: %s", err, &csv)
	}
	if err := f.WriteParquet(&binary); err != nil {
		t.Fatal(err)
	}
	type row struct {
		Seed    uint64 `parquet:"seed"`
		BytesUp uint64 `parquet:"bytes_up"`
	}
	back, err := parquet.Read[row](bytes.NewReader(binary.Bytes()), int64(binary.Len()))
	if want := []row{{d, c}, {c, c}, {a, c}, {b, c}}; err != nil || !slices.Equal(back, want) {
		t.Errorf("%v, %v; want %v", back, err, want)
	}
}

func fieldNamed(t *testing.T, name string) Field {
	t.Helper()
	f, err := FieldNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Small readers of Parquet know Snappy, and not Zstandard.
func TestParquetIsSnappy(t *testing.T) {
	t.Parallel()
	f, err := Export(seeded(1, 2), "runs")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.WriteParquet(&b); err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Metadata().RowGroups {
		for _, c := range g.Columns {
			if got := c.MetaData.Codec.String(); got != "SNAPPY" {
				t.Errorf("column %v is compressed by %s", c.MetaData.PathInSchema, got)
			}
		}
	}
}
