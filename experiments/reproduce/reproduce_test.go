package reproduce

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	r := &Report{Title: "t", Source: "s"}
	r.within(Claim, "near", "ms", 100, 104, 0.05)
	r.within(Claim, "far", "ms", 100, 106, 0.05)
	r.within(Fitted, "fitted", "ms", 100, 200, 0.05)
	r.between(HeldOut, "between", "", 2, 1.6, 1.5, 2.2)
	r.between(Claim, "faster", "×", 1, 1.3, 1.2, math.MaxFloat64)
	r.between(Claim, "fails to learn", "%", 10, 16, 0, 20)
	r.holds(Claim, "so it is", true)
	r.exactly(Claim, "the same", "bytes", 12, 12)
	if r.Failed() != 1 {
		t.Errorf("%d failed: %+v", r.Failed(), r.Points)
	}
	var text bytes.Buffer
	if err := r.Write(&text, "markdown"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| near | 100 ms | 104 ms | +4.0 % | ± 5 % | claim | holds |", "| far | 100 ms | 106 ms | +6.0 % | ± 5 % | claim | MISSED |",
		"| fitted | 100 ms | 200 ms | +100.0 % |  | fitted | missed, not judged |", "| between | 2 | 1.6 | -20.0 % | 1.5 to 2.2 | held out | holds |",
		"| faster | 1 × | 1.3 × | +30.0 % | 1.2 or more | claim | holds |", "| fails to learn | 10 % | 16 % | +60.0 % | 0 to 20 | claim | holds |",
		"| so it is | true | true |  |  | claim | holds |", "| the same | 12 bytes | 12 bytes | +0.0 % | exact | claim | holds |"} {
		if !strings.Contains(squeeze(text.String()), want) {
			t.Errorf("no line %q in\n%s", want, &text)
		}
	}
}

// squeeze makes runs of spaces one, and none of those in empty cells.
func squeeze(s string) string {
	for strings.Contains(s, "   ") {
		s = strings.ReplaceAll(s, "   ", "  ")
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		cells := strings.Split(l, "|")
		for j, c := range cells {
			if c = strings.TrimSpace(c); c == "" {
				cells[j] = "  "
			} else {
				cells[j] = " " + c + " "
			}
		}
		lines[i] = strings.TrimSpace(strings.Join(cells, "|"))
	}
	return strings.Join(lines, "\n")
}

func TestUnknownStudy(t *testing.T) {
	t.Parallel()
	if _, err := Run(context.Background(), "codec-eror", &Lab{}); err == nil || !strings.Contains(err.Error(), "codec-error") {
		t.Errorf("%v", err)
	}
}

func TestPointsThatAreNotFinite(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(Point{Name: "never", Unit: "s", Published: 1, Ours: math.Inf(1), Least: 0, Most: math.NaN(), Kind: Claim})
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Name, Kind      string
		Published, Ours *float64
	}
	if err := json.Unmarshal(b, &p); err != nil || p.Name != "never" || p.Kind != "claim" || p.Published == nil || *p.Published != 1 || p.Ours != nil {
		t.Errorf("%s: %v", b, err)
	}
}
