package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReportCommand(t *testing.T) {
	dir := t.TempDir()
	finish(t, 0, "run", recipe(t, "data: digits\nmodel: logistic\nsteps: 6\nbatch: 8\nnet: sim\neval_every: 3\ncodec: [raw, sign]\n"), "--out", dir, "--quiet")
	out := filepath.Join(dir, "page", "report.html")
	p := finish(t, 0, "report", dir, "-o", out, "--figures", filepath.Join(dir, "figures"))
	if !strings.Contains(p.out.String(), "Most accurate at the end") {
		t.Error(p.says())
	}
	for _, f := range []string{out, filepath.Join(dir, "figures", "pareto.pdf"), filepath.Join(dir, "figures", "curves.svg")} {
		if info, err := os.Stat(f); err != nil || info.Size() < 1000 {
			t.Error(f, err)
		}
	}
	finish(t, 2, "report")
	if p := finish(t, 2, "report", t.TempDir()); !strings.Contains(p.err.String(), "gradlab run") {
		t.Error(p.says())
	}
}
