package cli_test

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/program"
)

// foreignRun is the folder of a run that somebody else wrote.
func foreignRun(t *testing.T, about experiments.About, failed string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{"status.json": experiments.Status{Schema: experiments.Schema, State: "failed", Recipe: "r\x1b[5m", Error: failed}, experiments.AboutFile: about} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), config.Default().YAML(), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Names, notes and errors of others do nothing to a terminal, a page or a spreadsheet.
func TestForeignText(t *testing.T) {
	t.Parallel()
	const name, note = "=HYPERLINK(\"http://evil\")", "\x1b]0;title\x07\u009b31m\u202e <script>alert(1)</script> ![](http://evil/x.png)"
	dir := foreignRun(t, experiments.About{Name: name, Note: note}, "@SUM(A1)\x1b[2J "+strings.Repeat("x", 1e5)+" the end")
	columns := []string{"--columns", "id,recipe,name,note,error,state"}
	for _, args := range [][]string{
		append([]string{"runs", "list", dir}, columns...), append([]string{"runs", "list", dir, "--format", "markdown"}, columns...),
		{"runs", "list", dir, "--format", "json"}, {"runs", "export", dir}, {"show", dir}, {"show", dir, "--json"}, {"runs", "rm", dir}, {"runs", "diff", dir, dir},
		{"runs", "tag", "a", dir},
	} {
		p := program.Finish(t, 0, args...)
		program.Plain(t, p)
		out := p.Out.String()
		if strings.ContainsAny(out, "\u202e\u009b") {
			t.Errorf("%v: %.1000s", args, out)
		}
		if args[1] == "list" && !strings.Contains(strings.Join(args, " "), "json") || args[0] == "show" && len(args) == 2 {
			for line := range strings.Lines(out) {
				if len(line) > 20<<10 {
					t.Errorf("%v: a line of %d bytes", args, len(line))
				}
			}
			if !strings.Contains(out, `\u202e`) || !strings.Contains(out, "the end") {
				t.Errorf("%v: %.2000s", args, out)
			}
		}
	}
	if out := program.Finish(t, 0, append([]string{"runs", "list", dir, "--format", "markdown"}, columns...)...).Out.String(); strings.Contains(out, "<script") || strings.Contains(out, "![](") {
		t.Errorf("%.2000s", out)
	}
	var list []map[string]any
	if err := json.Unmarshal([]byte(program.Finish(t, 0, "runs", "list", dir, "--format", "json").Out.String()), &list); err != nil || list[0]["note"] != note {
		t.Errorf("%v: %q", err, list)
	}
	file := filepath.Join(t.TempDir(), "x.csv")
	program.Finish(t, 0, "runs", "export", dir, "-o", file)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for i, head := range rows[0] {
		switch cell := rows[1][i]; head {
		case "name":
			if cell != "'"+name {
				t.Errorf("name %q", cell)
			}
		case "error":
			if !strings.HasPrefix(cell, "'@SUM") || len(cell) < 1e5 {
				t.Errorf("error %.40q of %d bytes", cell, len(cell))
			}
		case "note":
			if cell != note {
				t.Errorf("note %q", cell)
			}
		}
	}
}

// An error is told in lines that can be read, however long its cause.
func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x\x1b[1m", 2e4)
	for _, args := range [][]string{{"run", "quickstart", "codec=" + long}, {"run", long}, {"runs", "list", long}, {"show", "/" + long}, {"launch", "slurm", "quickstart", "codec=raw", "data=" + long}} {
		p := program.Start(t, nil, args...)
		<-p.Done
		program.Plain(t, p)
		for line := range strings.Lines(p.Err.String()) {
			if len(line) > 5<<10 {
				t.Errorf("%s %s: a line of %d bytes", args[0], args[1][:min(9, len(args[1]))], len(line))
			}
		}
		if p.Err.String() == "" {
			t.Errorf("%s says nothing", args[0])
		}
	}
}
