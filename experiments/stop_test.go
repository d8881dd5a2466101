package experiments

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
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

// A rank of a stopped run ends once the run's folder says so, and does not wait where it
// sees none.
func TestStoppedRankWaitsForTheRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	say := func(state string) {
		t.Helper()
		if err := writeJSON(filepath.Join(dir, "status.json"), Status{Schema: Schema, State: state}); err != nil {
			t.Fatal(err)
		}
	}
	say("running")
	asked := make(chan struct{})
	var once sync.Once
	o := JoinOptions{Folder: func() string { once.Do(func() { close(asked) }); return dir }}
	ended := make(chan struct{})
	go func() { o.untilRecorded(t.Context()); close(ended) }()
	<-asked
	select {
	case <-ended:
		t.Error("it ends before the record is written")
	case <-time.After(2 * stopLook):
		say("stopped")
	}
	<-ended
	for _, none := range []JoinOptions{{}, {Folder: func() string { return "" }}, {Folder: t.TempDir}} {
		none.untilRecorded(t.Context())
	}
}
