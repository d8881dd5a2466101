package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

func TestReportCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program.Finish(t, 0, "run", program.Recipe(t, "data: digits\nmodel: logistic\nsteps: 6\nbatch: 8\nnet: sim\neval_every: 3\ncodec: [raw, sign]\n"), "--out", dir, "--quiet")
	out := filepath.Join(dir, "page", "report.html")
	p := program.Finish(t, 0, "report", dir, "-o", out, "--figures", filepath.Join(dir, "figures"))
	if !strings.Contains(p.Out.String(), "Most accurate, at the best evaluation") {
		t.Error(p.Says())
	}
	for _, f := range []string{out, filepath.Join(dir, "figures", "pareto.pdf"), filepath.Join(dir, "figures", "curves.svg")} {
		if info, err := os.Stat(f); err != nil || info.Size() < 1000 {
			t.Error(f, err)
		}
	}
	page := func() string {
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if !strings.Contains(page(), "<h1>logistic on digits</h1>") {
		t.Error("the page is not headed by the model and the data")
	}
	const interval = `<th class="n">90 %</th>`
	if !strings.Contains(page(), interval) {
		t.Error("virtual times have no interval")
	}
	program.Finish(t, 0, "report", dir, "-o", out, "--draws", "0", "--name", "signs & casts")
	if !strings.Contains(page(), "<h1>signs &amp; casts</h1>") {
		t.Error("the page has another name")
	}
	if strings.Contains(page(), interval) {
		t.Error("nobody asked for an interval")
	}
	if p := program.Finish(t, 0, "report", dir, "--json", "--draws", "0"); !strings.HasPrefix(p.Out.String(), `{"facet":`) || !strings.Contains(p.Out.String(), `"most_accurate":{"configuration":`) || strings.Contains(p.Out.String(), "wrote") {
		t.Error(p.Says())
	}
	program.Finish(t, 2, "report", dir, "--draws", "-1")
	program.Finish(t, 2, "report")
	if p := program.Finish(t, 2, "report", t.TempDir()); !strings.Contains(p.Err.String(), "gradlab run") {
		t.Error(p.Says())
	}
}

// Filters say which runs are reported, on the command line as in gradlab runs, and a
// filter that none meets, or that cannot be read, is a mistake.
func TestReportTakesFiltersAndATarget(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program.Finish(t, 0, "run", program.Recipe(t, "data: digits\nmodel: logistic\nsteps: 20\nbatch: 8\nnet: sim\neval_every: 5\ncodec: [raw, bf16]\nnetwork.bandwidth: [1Gbps, 10Gbps]\n"), "--no-baseline", "--out", dir, "--quiet")
	out := filepath.Join(dir, "report.html")
	report := func(args ...string) string {
		return program.Finish(t, 0, append([]string{"report", dir, "-o", out}, args...)...).Out.String()
	}
	count := func(what string) int {
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), what)
	}
	if s := report(); count("<details>") != 4 || count("<h2>logistic on digits") != 2 || !strings.Contains(s, "network.bandwidth=10Gbps\n") || !strings.Contains(s, "--target 0.9 asks for one") {
		t.Errorf("all of them: %d runs\n%s", count("<details>"), s)
	}
	if report("network.bandwidth=1Gbps"); count("<details>") != 2 || count(`<section class="task"`) != 1 {
		t.Errorf("on one network there are %d runs", count("<details>"))
	}
	if s := report("network.bandwidth=1Gbps", "codec=bf16", "--target", "0.3"); count("<details>") != 1 || !strings.Contains(s, "bf16") && !strings.Contains(s, "reaches") {
		t.Errorf("%d runs\n%s", count("<details>"), s)
	}
	if s := report("network.bandwidth=1Gbps", "--target", "0.3"); !strings.Contains(s, "Soonest at 30 %") {
		t.Error(s)
	}
	for _, bad := range [][]string{{"network.bandwidth=2Gbps"}, {"codex=raw"}, {"accuracy>much"}, {"--target", "95"}, {"runs/nosuch"}} {
		program.Finish(t, 2, append([]string{"report", dir, "-o", out}, bad...)...)
	}
}
