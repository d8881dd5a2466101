package experiments

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

// A program of one's own is the ranks of its runs: this one, whose TestMain begins with
// RunAsRank. What it learns has the bits of the virtual cluster, and a run that was
// stopped goes on.
func TestItself(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("starts processes")
	}
	want := mustExecute(t, "mode=reduce", "codec=qsgd(bits=4)")
	run := mustRuns(t, small, "mode=reduce", "codec=qsgd(bits=4)", "net=grpc", "checkpoint_every=4")[0]
	opt := Options{Recipe: "test", Out: t.TempDir(), Join: Itself(os.Getenv, config.Places{}), Resume: true, Stopping: stopAfter(2)}
	if r, err := Execute(context.Background(), run, opt); err != nil && err != ErrStopped {
		t.Fatal(r, err)
	}
	opt.Stopping = nil
	got, err := Execute(context.Background(), run, opt)
	if err != nil {
		t.Fatal(err)
	}
	if got.ParamsSHA256 != want.ParamsSHA256 || got.WireBytes == 0 {
		t.Errorf("%s with %d bytes on the wire, on the virtual cluster %s", got.ParamsSHA256, got.WireBytes, want.ParamsSHA256)
	}
}

// A program that forgot RunAsRank does not start itself for ever, and a rank that cannot
// be one says why.
func TestItselfRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{": "cannot be read", `{"config":"no/such/config.yaml"}`: "no such file", `{"config":"quickstart"}`: "holds 4 runs",
	} {
		if err := runRank(context.Background(), text, JoinOptions{Getenv: os.Getenv}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if !patience.Long {
		t.Skip("starts a process")
	}
	dir := t.TempDir()
	main := `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
)

func main() {
	recipe, err := config.ParseRecipe("r", "r.yaml", []byte("data: digits\nmodel: logistic\nsteps: 2\nworkers: 2\nnet: grpc\nmode: reduce\n"))
	if err != nil {
		panic(err)
	}
	runs, err := recipe.Runs(nil, false)
	if err != nil {
		panic(err)
	}
	_, err = experiments.Execute(context.Background(), runs[0], experiments.Options{Out: "` + dir + `", Join: experiments.Itself(os.Getenv, config.Places{})})
	fmt.Fprintln(os.Stderr, err)
}
`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(main), 0o600); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "forgetful")
	if b, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", exe, filepath.Join(dir, "main.go")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	out, err := exec.Command(exe).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ended before the run began") || !strings.Contains(string(out), "call experiments.RunAsRank first in main") {
		t.Errorf("%v: %s", err, out)
	}
}
