package experiments

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A run can be asked to stop through its folder, and goes on when resumed.
func TestRequestStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := mustRuns(t, small, "steps=1000000", "eval_every=100")[0]
	ended := make(chan error, 1)
	go func() {
		_, err := Execute(context.Background(), run, Options{Recipe: "test", Out: dir})
		ended <- err
	}()
	var folder string
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		found, _ := filepath.Glob(filepath.Join(dir, "test", "*"))
		if len(found) == 1 && RequestStop(found[0]) == nil {
			folder = found[0]
			break
		}
		if time.Now().After(end) {
			t.Fatal("the run does not begin")
		}
	}
	select {
	case err := <-ended:
		if !errors.Is(err, ErrStopped) {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the run does not stop")
	}
	if _, err := os.Stat(filepath.Join(folder, stopFile)); err == nil {
		t.Error("the request outlives the run")
	}
	if err := RequestStop(folder); err == nil {
		t.Error("a run that has ended can be stopped")
	}
	if err := RequestStop(dir); err == nil {
		t.Error("a folder without a run can be stopped")
	}
}
