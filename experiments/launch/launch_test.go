package launch

import (
	"os/exec"
	"strings"
	"testing"
	"testing/quick"
	"time"
)

// Every name is one that DNS, and so Kubernetes, takes, with a rank behind it.
func TestNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"goyal2017": "goyal2017", "My Run_2.yaml": "my-run-2-yaml", "8workers": "gradlab-8workers",
		"": "gradlab", "é": "gradlab", strings.Repeat("long-", 20): strings.TrimSuffix(strings.Repeat("long-", 8), "-"),
	} {
		if got := Named(text); got != want {
			t.Errorf("Named(%q) is %q, want %q", text, got, want)
		}
	}
	if err := quick.Check(func(text string) bool {
		n := Named(text)
		return 0 < len(n) && len(n) <= longestName+len("gradlab-") && n[0] >= 'a' && n[0] <= 'z' && !strings.HasSuffix(n, "-") && strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	}, nil); err != nil {
		t.Error(err)
	}
}

// A shell reads a quoted word as it was, whatever is in it.
func TestQuote(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell to read it: ", err)
	}
	words := []string{"", "a b", "it's", "$HOME `id` \"x\" \\", "topk(keep=0.01)", "*", "-n", "a\nb", "'", "ü"}
	var line strings.Builder
	for _, w := range words {
		line.WriteString(" " + Quote(w))
	}
	out, err := exec.Command(sh, "-c", `for w in`+line.String()+`; do printf '%s\0' "$w"; done`).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out), strings.Join(words, "\x00")+"\x00"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Second: "1m30s", 30 * time.Second: "30s", 61 * time.Minute: "1h1m"} {
		if got := short(d); got != want {
			t.Errorf("short(%v) is %q, want %q", d, got, want)
		}
		if back, err := time.ParseDuration(short(d)); err != nil || back != d {
			t.Errorf("short(%v) is read as %v, %v", d, back, err)
		}
	}
}

// What one line holds stays one line: a comment that went on in the next would be run.
func TestScriptsAreWellFormed(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no shell to read it: ", err)
	}
	j := &Job{Line: "gradlab launch", Name: "x", Program: "gradlab", Workers: 2, Servers: 1, Recipe: "it's here.yaml", Keys: []string{"codec=topk(keep=0.01)"}, Out: "a b", DataDir: "/data sets", Restarts: 3, Timeout: time.Minute}
	sweep := *j
	sweep.Shares, sweep.Runs, sweep.Flags = 4, 9, []string{"--exclude=workers=8 codec~topk"}
	for name, write := range map[string]func() ([]byte, error){
		"slurm": func() ([]byte, error) { return j.Slurm(Slurm{Nodes: 2, Grace: time.Minute}) },
		"array": func() ([]byte, error) { return sweep.Slurm(Slurm{Grace: time.Minute}) },
		"mpi":   func() ([]byte, error) { return j.MPI(MPI{Hosts: []string{"a:2", "b:1"}, Port: Port}) },
	} {
		script, err := write()
		if err != nil {
			t.Fatal(name, err)
		}
		check := exec.Command(bash, "-n")
		check.Stdin = strings.NewReader(string(script))
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s\n%s", name, err, out, script)
		}
	}
	if script, err := j.MPI(MPI{}); err != nil || !strings.Contains(string(script), "mpirun -n 3 --host localhost:3 ") {
		t.Errorf("all ranks are here, whatever cores there are: %v\n%s", err, script)
	}
	if _, err := sweep.MPI(MPI{}); err == nil {
		t.Error("mpirun has nothing to do with a sweep")
	}
	if _, err := j.Kubernetes(Kubernetes{}); err == nil {
		t.Error("a manifest names an image")
	}
}
