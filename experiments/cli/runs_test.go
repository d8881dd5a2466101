package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gradlab/gradlab/internal/program"
)

// sweepArgs is a small sweep: four jobs, and none of one worker alone.
func sweepArgs(t *testing.T, out string, more ...string) []string {
	return append([]string{"sweep", program.Recipe(t, program.Quick), "codec=raw,bf16", "--repeats", "2", "--no-baseline", "--out", out}, more...)
}

func TestSweep(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	p := program.Finish(t, 0, sweepArgs(t, out, "--dry-run")...)
	if s := p.Out.String(); !strings.Contains(s, "codec=bf16,seed=2") || !strings.Contains(s, "4 jobs, 0 of them done") {
		t.Error(p.Says())
	}
	if _, err := os.ReadDir(filepath.Join(out, "recipe")); err == nil {
		t.Error("a dry run left something behind")
	}
	p = program.Finish(t, 0, sweepArgs(t, out, "--shard", "1/2")...)
	program.Plain(t, p)
	p = program.Finish(t, 0, sweepArgs(t, out, "--json")...)
	if lines := strings.Count(p.Out.String(), "\n"); lines != 4 || !strings.Contains(p.Err.String(), "2 of 4 jobs are there already") {
		t.Errorf("%d lines\n%s", lines, p.Says())
	}
	// What gradlab run made counts as well, and the other way round.
	if folders, _ := filepath.Glob(filepath.Join(out, "*", "*", "result.json")); len(folders) != 4 {
		t.Errorf("%d results of 4 jobs", len(folders))
	}
	p = program.Finish(t, 0, sweepArgs(t, out)...)
	if s := p.Out.String(); !strings.Contains(s, "difference") || !strings.Contains(s, "±") || !strings.Contains(p.Err.String(), "4 of 4") {
		t.Error(p.Says())
	}
	// A younger run that was traced, and is the same but for that, hides none.
	program.Finish(t, 0, "run", program.Recipe(t, program.Quick), "codec=raw", "seed=1", "observe=trace", "--out", out)
	if s := program.Finish(t, 0, sweepArgs(t, out)...).Out.String(); !strings.Contains(s, "│ raw   │ 2 │") {
		t.Error(s)
	}
}

// One worker alone is measured against, by sweep and by run, without being asked for: once
// in an environment and for each seed, and the comparison begins with what it says.
func TestOneWorkerAloneIsThere(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	args := []string{program.Recipe(t, program.Quick), "codec=raw,bf16", "target=0.15", "eval_every=1"}
	p := program.Finish(t, 0, append([]string{"run", "--out", out}, args...)...)
	if s := p.Out.String(); !strings.HasPrefix(s, "Distribution ") || !strings.Contains(s, "one worker alone") || !strings.Contains(s, "network.bandwidth=1Gbps") {
		t.Error(p.Says())
	}
	p = program.Finish(t, 0, append([]string{"sweep", "--dry-run", "--out", out, "--repeats", "2"}, args...)...)
	if s := p.Out.String(); strings.Count(s, "workers=1,seed=") != 2 || !strings.Contains(s, "6 jobs, 3 of them done") {
		t.Error(p.Says())
	}
	p = program.Finish(t, 0, append([]string{"sweep", "--dry-run", "--no-baseline", "--out", out}, args...)...)
	if s := p.Out.String(); strings.Contains(s, "workers=1") || !strings.Contains(s, "2 jobs, 2 of them done") {
		t.Error(p.Says())
	}
}

// Jobs that learn the same are trained once, by sweep and by run; --train-all trains
// each, to the same figures.
func TestTrainedOnce(t *testing.T) {
	t.Parallel()
	axes := []string{program.Recipe(t, program.Quick), "codec=raw,topk(keep=0.1)", "network.bandwidth=10Mbps,1Gbps", "--no-baseline"}
	results := func(command, out string, more ...string) (lines string, priced int) {
		args := append([]string{command}, axes...)
		p := program.Finish(t, 0, append(args, append(more, "--json", "--out", out)...)...)
		for _, line := range strings.Split(strings.TrimSpace(p.Out.String()), "\n") {
			var r struct{ Result map[string]any }
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err, p.Says())
			}
			if r.Result == nil {
				_ = json.Unmarshal([]byte(line), &r.Result)
			}
			if r.Result["priced_from"] != nil {
				priced++
			}
			lines += fmt.Sprintln(r.Result["accuracy"], r.Result["virtual_seconds"], r.Result["bytes_up"], r.Result["params_sha256"])
		}
		return lines, priced
	}
	out := t.TempDir()
	if p := program.Finish(t, 0, append([]string{"sweep", "--dry-run", "--out", out}, axes...)...); !strings.Contains(p.Out.String(), "2 jobs are trained, 2 are priced") {
		t.Error(p.Says())
	}
	want, n := results("sweep", t.TempDir(), "--train-all")
	if n != 0 {
		t.Errorf("--train-all priced %d", n)
	}
	if got, n := results("sweep", out); got != want || n != 2 {
		t.Errorf("%d are priced\n%swant\n%s", n, got, want)
	}
	if got, n := results("run", t.TempDir()); got != want || n != 2 {
		t.Errorf("gradlab run: %d are priced\n%swant\n%s", n, got, want)
	}
}

// Each configuration gets the best of the values tried, on data and with seeds that
// are not reported, and the table says what was done.
func TestSweepTunes(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	args := []string{"sweep", program.Recipe(t, program.Quick), "codec=raw,bf16", "--tune", "schedule.lr=log(1e-6,0.1,2)", "--repeats", "2", "--out", out}
	if p := program.Finish(t, 0, append(args, "--dry-run")...); !strings.Contains(p.Out.String(), "4 jobs, 0 of them done") || !strings.Contains(p.Out.String(), "then 4 jobs with the best") {
		t.Error(p.Says())
	}
	p := program.Finish(t, 0, args...)
	program.Plain(t, p)
	for _, want := range []string{"schedule.lr=0.1", "budget 2 runs of each configuration, seed 1000001", "held out", "highest value tried", "0.000001: 0."} {
		if !strings.Contains(p.Out.String(), want) {
			t.Errorf("no %q in\n%s", want, p.Says())
		}
	}
	// The tuning runs are apart, and are not made again.
	for folder, want := range map[string]int{"test": 4, "test-tuning": 4} {
		if runs, _ := filepath.Glob(filepath.Join(out, folder, "*", "result.json")); len(runs) != want {
			t.Errorf("%d runs in %s, want %d", len(runs), folder, want)
		}
	}
	p = program.Finish(t, 0, append(args, "--json")...)
	if lines := strings.Split(strings.TrimSpace(p.Out.String()), "\n"); len(lines) != 6 || !strings.Contains(lines[4], `"chosen":"schedule.lr=0.1"`) || strings.Count(p.Err.String(), "4 of 4 jobs are there already") != 2 {
		t.Error(p.Says())
	}
	for want, bad := range map[string][]string{
		"nothing is tuned":      {"sweep", program.Recipe(t, program.Quick), "--budget", "3"},
		"on one machine":        append(args, "--shard", "1/2"),
		"it has accuracy, loss": append(args, "--tune-by", "luck"),
		"target=0.9":            append(args, "--tune-by", "time"),
	} {
		if p := program.Finish(t, 2, bad...); !strings.Contains(p.Err.String(), want) {
			t.Errorf("want %q: %s", want, p.Says())
		}
	}
}

// Another target wants no job again: it is looked up in what was evaluated. Finer
// evaluations, and a trace, do.
func TestSweepToAnotherTarget(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	program.Finish(t, 0, sweepArgs(t, out, "--quiet")...)
	s := program.Finish(t, 0, sweepArgs(t, out, "target=0.05")...)
	if !strings.Contains(s.Err.String(), "4 of 4 jobs are there already") || !strings.Contains(s.Out.String(), "time to 0.05") || strings.Contains(s.Out.String(), "never │") {
		t.Error(s.Says())
	}
	if s := program.Finish(t, 0, sweepArgs(t, out, "target=0.05", "--json")...); strings.Count(s.Out.String(), `"target_reached":true`) != 4 {
		t.Error(s.Says())
	}
	for _, more := range []string{"observe=trace", "eval_every=1"} {
		if s := program.Finish(t, 0, sweepArgs(t, out, more, "--dry-run")...); !strings.Contains(s.Out.String(), "4 jobs, 0 of them done") {
			t.Errorf("%s: %s", more, s.Says())
		}
	}
	program.Finish(t, 2, sweepArgs(t, out, "target=0.05,0.5")...)
}

// Configurations are set against the plainest, in a table for each environment:
// virtual and wall seconds are never in one column.
func TestCompareByEnvironment(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	text := "data: digits\nmodel: logistic\nsteps: 12\nbatch: 8\nmode: reduce\ncodec: [bf16, raw]\n"
	program.Finish(t, 0, "run", program.Recipe(t, text), "net=sim", "transport=ideal", "--out", out, "--quiet")
	program.Finish(t, 0, "run", program.Recipe(t, text), "net=local", "--out", out, "--quiet")
	s := program.Finish(t, 0, "runs", "compare", "--format", "markdown", "--out", out).Out.String()
	tables := strings.Split(s, "| codec |")
	if len(tables) != 3 || !strings.HasPrefix(s, "net=sim\n") || !strings.Contains(s, "net=local\n") {
		t.Fatalf("%d tables\n%s", len(tables)-1, s)
	}
	for _, table := range tables[1:] {
		if raw, half := strings.Index(table, "| raw |"), strings.Index(table, "| bf16 |"); raw < 0 || half < raw {
			t.Errorf("raw is not the baseline:\n%s", table)
		}
	}
}

func TestSweepTellsFailures(t *testing.T) {
	t.Parallel()
	p := program.Finish(t, 1, "sweep", program.Recipe(t, program.Quick), "codec=raw,feedback(qsgd(bits=2))", "--no-baseline", "--out", t.TempDir())
	if s := p.Err.String(); !strings.Contains(s, "1 of 2 jobs failed") || strings.Count(s, "is no contraction") != 1 || !strings.Contains(p.Out.String(), "accuracy") {
		t.Error(p.Says())
	}
	for _, args := range [][]string{
		{"sweep"},
		{"sweep", "quickstart", "codex=raw"},
		{"sweep", "quickstart", "--zip", "workers,batch"},
		{"sweep", "quickstart", "--shard", "3/2"},
		{"sweep", "quickstart", "--exclude", "accuracy>1"},
		{"sweep", "nothing"},
	} {
		program.Finish(t, 2, args...)
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	program.Finish(t, 0, sweepArgs(t, out, "--quiet")...)
	with := func(args ...string) []string { return append(append([]string{"runs"}, args...), "--out", out) }
	p := program.Finish(t, 0, with("list", "codec=bf16")...)
	program.Plain(t, p)
	if !strings.Contains(p.Out.String(), "2 runs: 2 done") {
		t.Error(p.Says())
	}
	var list []map[string]any
	if err := json.Unmarshal([]byte(program.Finish(t, 0, with("list", "--format", "json", "--sort", "-accuracy")...).Out.String()), &list); err != nil || len(list) != 4 {
		t.Fatal(err, len(list))
	}
	if list[0]["accuracy"].(float64) < list[3]["accuracy"].(float64) {
		t.Error("not sorted")
	}
	p = program.Finish(t, 0, with("compare", "--baseline", "codec=bf16", "--field", "loss", "--format", "markdown")...)
	if rows := strings.Split(p.Out.String(), "\n"); !strings.HasPrefix(rows[2], "| bf16 | 2 |") || !strings.HasPrefix(rows[3], "| raw | 2 |") {
		t.Error(p.Says())
	}
	a, b := list[0]["id"].(string), list[1]["id"].(string)
	program.Finish(t, 0, with("diff", a[:6], b)...)
	program.Finish(t, 0, "show", list[0]["folder"].(string))

	file := filepath.Join(t.TempDir(), "runs.parquet")
	program.Finish(t, 0, with("export", "-o", file)...)
	if b, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(b), "PAR1") {
		t.Error(err)
	}
	if s := program.Finish(t, 0, with("export", "--rows", "evals")...).Out.String(); strings.Count(s, "\n") != 1+4*2 {
		t.Errorf("%d lines of evaluations", strings.Count(s, "\n"))
	}

	program.Finish(t, 0, with("rm", "seed=2")...)
	if n := len(find(t, out)); n != 4 {
		t.Errorf("%d runs are left without --yes", n)
	}
	program.Finish(t, 0, with("rm", "seed=2", "--yes")...)
	if n := len(find(t, out)); n != 2 {
		t.Errorf("%d runs are left", n)
	}
	for _, args := range [][]string{
		{"list", "acuracy>1"}, {"list", "nothing/here"}, {"list", "accuracy>2"}, {"diff", a}, {"rm"}, {"export", "--rows", "x"},
		{"list", "--format", "xml"}, {"compare", "--field", "codec"}, {"compare", "--baseline", "codec=qsgd"}, {"what"},
	} {
		program.Finish(t, 2, with(args...)...)
	}
}

func find(t *testing.T, out string) []string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(out, "*", "*", "status.json"))
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

func TestHomeAndHelp(t *testing.T) {
	t.Parallel()
	p := program.Finish(t, 0)
	program.Plain(t, p)
	for _, word := range []string{"gradlab run quickstart", "sweep", "runs", "Data here: digits"} {
		if !strings.Contains(p.Out.String(), word) {
			t.Errorf("the first screen does not tell %q", word)
		}
	}
	for _, line := range strings.Split(p.Out.String(), "\n") {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("wider than a terminal: %s", line)
		}
	}
	index := program.Finish(t, 0, "help").Out.String()
	for _, topic := range []string{"spec", "sweeps", "filters", "statistics", "nets", "folders", "shell"} {
		if !strings.Contains(index, "  "+topic+" ") {
			t.Errorf("the index does not tell %q", topic)
		}
		for _, line := range strings.Split(program.Finish(t, 0, "help", topic).Out.String(), "\n") {
			if utf8.RuneCountInString(line) > 84 {
				t.Errorf("%s is wider than a terminal: %s", topic, line)
			}
		}
	}
	for name, want := range map[string]string{"topk": "keep=0.01", "eval_every": "A key", "quickstart": "A recipe", "run": "Usage:", "runs list": "Usage:", "asp": "policies", "policies": "ssp"} {
		if p := program.Finish(t, 0, append([]string{"help"}, strings.Fields(name)...)...); !strings.Contains(p.Out.String(), want) {
			t.Errorf("help %s\n%s", name, p.Says())
		}
	}
	for args, want := range map[string]string{
		"help topkk":            `did you mean "topk"`,
		"help diloco":           "mode=localsgd(h=100,lr=0.7) outer=nesterov",
		"help FedAvg":           "mode=localsgd(h=8)",
		"help demo":             "codec=feedback(dct(",
		"help sparta":           "no mode; nearest is",
		"rnu":                   `did you mean "run"`,
		"run quickstart --quik": "did you mean --quick?",
	} {
		if p := program.Finish(t, 2, strings.Fields(args)...); !strings.Contains(p.Err.String(), want) {
			t.Errorf("%s\n%s", args, p.Says())
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"run quick":                         "quickstart",
		"run quickstart work":               "workers=",
		"run quickstart codec=raw,fe":       "codec=raw,feedback",
		"run quickstart codec=feedback(top": "codec=feedback(topk",
		"sweep quickstart net=":             "net=sim",
		"run quickstart constants.sh":       "constants.share=",
		"run quickstart constants.model=":   "constants.model=fifo",
		"advise device=v":                   "device=v100",
		"run quickstart graph=one":          "graph=one_peer",
		"run quickstart outer=ne":           "outer=nesterov",
		"list cod":                          "codecs",
		"reproduce cod":                     "codec-error",
		"runs list accu":                    "accuracy=",
		"help fil":                          "filters",
	} {
		p := program.Finish(t, 0, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		if !strings.Contains("\n"+p.Out.String(), "\n"+want) {
			t.Errorf("%s\n%s", line, p.Says())
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if s := program.Finish(t, 0, "completion", shell).Out.String(); !strings.Contains(s, "gradlab") {
			t.Errorf("no script for %s", shell)
		}
	}
}

// A sweep with a job that became NaN names what learned in it, and does not offer to run
// the job again.
func TestSweepOfNaN(t *testing.T) {
	t.Parallel()
	p := program.Finish(t, 1, "sweep", program.Recipe(t, program.Quick), "codec=raw", "optimizer=sgd", "schedule=constant(lr=0.1),constant(lr=1e30)", "--no-baseline", "--out", t.TempDir())
	if say := p.Err.String(); !strings.Contains(say, "1 of 2 jobs failed\nschedule=constant(lr=1e30): its gradient became NaN or Inf; in the same table schedule=constant(lr=0.1) learned (accuracy 0.") ||
		strings.Contains(say, "runs these again") {
		t.Error(p.Says())
	}
}
