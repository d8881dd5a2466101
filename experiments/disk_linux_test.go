package experiments

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fillDisk lets this process write no more to the files below dir that end so.
func fillDisk(t *testing.T, dir, suffix string) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range fds {
		path, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if !strings.HasPrefix(path, dir) || !strings.HasSuffix(path, suffix) {
			continue
		}
		fd := 0
		for _, c := range e.Name() {
			fd = 10*fd + int(c-'0')
		}
		if err := syscall.Dup3(int(full.Fd()), fd, syscall.O_CLOEXEC); err != nil {
			t.Error(err)
		}
	}
}

// F11: a run whose record cannot be written ends then and there, and goes on from
// its last checkpoint without a gap.
func TestF11FullDisk(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"mode=reduce", "mode=server"} {
		over := []string{mode, "steps=400", "eval_every=1", "checkpoint_every=5"}
		whole := mustExecute(t, over...)
		run, dir := mustRuns(t, small, over...)[0], t.TempDir()
		made := 0
		_, err := Execute(context.Background(), run, Options{Recipe: "test", Out: dir, Watch: func(done, _ int) {
			if made = done; done == 13 {
				fillDisk(t, dir, "metrics.jsonl")
			}
		}})
		if err == nil || !strings.Contains(err.Error(), "no space left") || errors.Is(err, ErrStopped) {
			t.Fatal(err)
		}
		if made > 40 {
			t.Errorf("%s: it went on to step %d", mode, made)
		}
		r, err := Execute(context.Background(), run, Options{Recipe: "test", Out: dir, Resume: true})
		if err != nil {
			t.Fatal(err)
		}
		if r.ParamsSHA256 != whole.ParamsSHA256 || len(r.Evals) != len(whole.Evals) {
			t.Errorf("%s: %d evaluations, want %d", mode, len(r.Evals), len(whole.Evals))
		}
	}
}

// F11: a run that was stopped says that its checkpoint is written only if it is.
func TestF11StopWithoutCheckpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Execute(context.Background(), mustRuns(t, small)[0], Options{Recipe: "test", Out: dir, Stopping: func() bool {
		folders, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
		for _, f := range folders { // where the checkpoint's folder would be
			if err := os.WriteFile(filepath.Join(f, "checkpoint"), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
		return true
	}})
	if err == nil || errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "could not be written") {
		t.Error(err)
	}
}
