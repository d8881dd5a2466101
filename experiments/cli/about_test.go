package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// Runs are found again by what is said of them, at their start or afterwards.
func TestNamesTagsNotes(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "runs")
	gradlab := func(want int, args ...string) string {
		t.Helper()
		var b, errs bytes.Buffer
		if code := Main(args, &b, &errs); code != want {
			t.Fatalf("gradlab %v: exit %d, %s", args, code, errs.String())
		}
		return b.String() + errs.String()
	}
	run := []string{"run", "quickstart", "model=logistic", "steps=2", "eval_every=2", "test_limit=50", "--out", out, "--quiet"}
	gradlab(0, append(run, "codec=raw", "--name", "the base", "--tag", "paper,base", "--note", "before the change")...)
	gradlab(0, append(run, "codec=bf16", "--tag", "papers")...)
	lines := func(filter string) int {
		t.Helper()
		return strings.Count(gradlab(0, "runs", "list", "--out", out, "--columns", "id,recipe", "--format", "markdown", filter), "quickstart")
	}
	for filter, want := range map[string]int{"tags=paper": 1, "tags~paper": 2, "tags=paper,papers": 2, "tags=base": 1, "name=the base": 1, "note~CHANGE": 1, "codec=raw,bf16": 2} {
		if got := lines(filter); got != want {
			t.Errorf("%s finds %d runs, want %d", filter, got, want)
		}
	}
	if list := gradlab(0, "runs", "list", "--out", out); !strings.Contains(list, "the base") || !strings.Contains(list, "base,paper") {
		t.Errorf("not shown:\n%s", list)
	}
	gradlab(0, "runs", "tag", "--out", out, "old", "codec=raw,bf16")
	gradlab(0, "runs", "tag", "--out", out, "paper", "tags=paper", "--remove")
	gradlab(0, "runs", "note", "--out", out, "", "codec=raw")
	gradlab(0, "runs", "name", "--out", out, "other", "codec=bf16")
	for filter, want := range map[string]int{"tags=old": 2, "tags=base": 1, "name=other": 1} {
		if got := lines(filter); got != want {
			t.Errorf("afterwards %s finds %d runs, want %d", filter, got, want)
		}
	}
	for _, none := range []string{"tags=paper", "note~change"} {
		gradlab(ExitConfig, "runs", "list", "--out", out, none)
	}
	for _, bad := range [][]string{{"runs", "tag", "a"}, {"runs", "tag", "a b", "codec=raw"}, {"runs", "note", "a"}, {"run", "quickstart", "--tag", "a,,b"}, {"run", "quickstart", "--name", "a\nb"}, {"runs", "name", "a\nb", "codec=raw"}} {
		gradlab(ExitConfig, append(bad, "--out", out)...)
	}
}
