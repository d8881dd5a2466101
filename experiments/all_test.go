package experiments

import (
	"strings"
	"testing"
)

// The table says of which clock a time is where runs are of both, and never puts
// one target over the times to another.
func TestTableOfTwoClocksAndTargets(t *testing.T) {
	table := func(rs ...*Result) string {
		t.Helper()
		var b strings.Builder
		if err := WriteTable(&b, "markdown", rs); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	result := func(name string, virtual, target float64) *Result {
		return &Result{Name: name, Accuracy: 0.9, VirtualSeconds: virtual, WallSeconds: 7, Target: target, TargetReached: true, TargetSeconds: 2}
	}
	sim, local := result("sim", 3, 0.8), result("hogwild", 0, 0.8)
	if s := table(sim, local); !strings.Contains(s, "| time |") || !strings.Contains(s, "3.0s virtual") || !strings.Contains(s, "7.0s wall") || !strings.Contains(s, "2.0s wall") {
		t.Error(s)
	}
	if s := table(sim); !strings.Contains(s, "| virtual time | time to 0.8 |") || strings.Contains(s, "±") {
		t.Error(s)
	}
	if s := table(local); !strings.Contains(s, "| wall time |") {
		t.Error(s)
	}
	if s := table(sim, result("other", 3, 0.9)); !strings.Contains(s, "| time to target | bytes to target |") {
		t.Error(s)
	}
	if s := table(result("seed=1", 3, 0.8), result("seed=2", 3, 0.8)); !strings.Contains(s, "± is the standard deviation over seeds") {
		t.Error(s)
	}
}
