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
		if err := Table(&b, style, header, rows, right); err != nil {
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
	if err := Table(&strings.Builder{}, "html", header, rows, nil); err == nil {
		t.Error("a style that is none")
	}
}
