//go:build unix

package launch

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A shell reads a quoted word as it was, whatever is in it.
func TestQuote(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal("every Unix has a shell: ", err)
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

// What one line holds stays one line: a comment that went on in the next would be run.
func TestScriptsAreWellFormed(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal("the scripts are for bash; install it: ", err)
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
