package figure

import (
	"encoding/csv"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	header := []string{"codec", "accuracy"}
	rows := [][]string{{"raw", "0.98"}, {"topk(keep=0.01,values=f16)", "0.9"}}
	right := []bool{false, true}
	for style, want := range map[string]string{
		"box": `
┌────────────────────────────┬──────────┐
│ codec                      │ accuracy │
├────────────────────────────┼──────────┤
│ raw                        │     0.98 │
│ topk(keep=0.01,values=f16) │      0.9 │
└────────────────────────────┴──────────┘
`,
		"markdown": `
| codec | accuracy |
| --- | ---:|
| raw | 0.98 |
| topk(keep=0.01,values=f16) | 0.9 |
`,
		"csv": `
codec,accuracy
raw,0.98
"topk(keep=0.01,values=f16)",0.9
`,
	} {
		var b strings.Builder
		if err := (Table{Header: header, Rows: rows, Right: right}).Write(&b, style, 0); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != want[1:] {
			t.Errorf("%s:\n%s", style, got)
		}
		if style == "csv" {
			if r, err := csv.NewReader(strings.NewReader(b.String())).ReadAll(); err != nil || r[2][0] != rows[1][0] {
				t.Errorf("read back %q, %v", r, err)
			}
		}
	}
	if err := (Table{Header: header, Rows: rows}).Write(&strings.Builder{}, "html", 0); err == nil {
		t.Error("a style that is none")
	}
}

// A title stands above the table, once.
func TestTitle(t *testing.T) {
	for style, want := range map[string]string{"markdown": "bytes:\n\n| a | b |\n", "csv": "bytes\na,b\n"} {
		var b strings.Builder
		if err := (Table{Title: "bytes", Header: []string{"a", "b"}, Rows: [][]string{{"1", "2"}}}).Write(&b, style, 0); err != nil || !strings.HasPrefix(b.String(), want) {
			t.Errorf("%s: %v\n%s", style, err, &b)
		}
	}
	folded := Table{Title: "bytes", Header: []string{"key", "one column", "another one"}, Rows: [][]string{{"k", "1", "2"}}, Lead: 1}
	var b strings.Builder
	if err := folded.Write(&b, "box", 24); err != nil || strings.Count(b.String(), "bytes") != 1 || strings.Count(b.String(), "key") != 2 {
		t.Errorf("%v\n%s", err, &b)
	}
}

func TestTextsAreCutInTheMiddle(t *testing.T) {
	if got := middle("codec=feedback(topk)", 12); got != "codec=…topk)" {
		t.Errorf("%q", got)
	}
}
