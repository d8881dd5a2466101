package experiments

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// onHost is a process of another host, whose file system has locks of its own, or none.
func onHost(name string, locks bool) *place {
	return &place{beat: 20 * time.Millisecond, own: func() Lease { return Lease{Host: name, Boot: name, Process: 7} },
		flock: func(string, bool) (func(), error) {
			if !locks {
				return nil, errNoLocks
			}
			return func() {}, nil // nobody of this host has it
		}}
}

// heldRun begins a run that goes on until end is called, and returns its folder.
func heldRun(t *testing.T, at *place, dir string) (folder string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	run := mustRuns(t, small, "steps=1000000", "eval_every=1000", "net=local")[0]
	go func() {
		_, err := Execute(ctx, run, Options{Recipe: "test", Out: dir, at: at})
		ended <- err
	}()
	for give := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		found, _ := filepath.Glob(filepath.Join(dir, "test", "*"))
		if len(found) == 1 && readLease(found[0]) != nil {
			return found[0], func() error { cancel(); return <-ended }
		}
		if time.Now().After(give) {
			t.Fatal("the run does not begin")
		}
	}
}

func resumed(t *testing.T, at *place, dir string) error {
	t.Helper()
	run := mustRuns(t, small, "steps=1000000", "eval_every=1000", "net=local")[0]
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel) // if it begins at all
	_, err := Execute(ctx, run, Options{Recipe: "test", Out: dir, Resume: true, at: at})
	return err
}

// A file system without locks (ENOSYS, ENOLCK) takes runs; the lease alone keeps two
// processes apart, and its end, not the lock's, sets the folder free.
func TestNoLocks(t *testing.T) {
	t.Parallel()
	a, b, dir := onHost("a", false), onHost("b", false), t.TempDir()
	b.beat = 4 * time.Second // it watches for long, and a's next heartbeat ends that
	folder, end := heldRun(t, a, dir)
	if !b.busy(folder, false) {
		t.Error("a running run is lost on another host")
	}
	if err := resumed(t, b, dir); err == nil || !strings.Contains(err.Error(), "in use by another process (process 7 on a)") {
		t.Errorf("opened twice: %v", err)
	}
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if b.busy(folder, false) || readLease(folder) != nil {
		t.Error("the lease outlives the run")
	}
}

// Where each host has locks of its own, they keep nobody of another one out.
func TestLocksPerHost(t *testing.T) {
	t.Parallel()
	a, b, dir := onHost("a", true), onHost("b", true), t.TempDir()
	b.beat = 4 * time.Second
	folder, end := heldRun(t, a, dir)
	if !b.busy(folder, false) {
		t.Error("a run of another host is lost here")
	}
	if err := resumed(t, b, dir); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("opened twice: %v", err)
	}
	_ = end()
}

// A writer that died elsewhere is found dead by its silence, and the folder is taken;
// one that was only stopped finds that out and writes no more.
func TestLeaseIsTaken(t *testing.T) {
	t.Parallel()
	a, b, dir := onHost("a", true), onHost("b", true), t.TempDir()
	if err := writeJSON(filepath.Join(dir, "status.json"), Status{Schema: Schema, State: "running"}); err != nil {
		t.Fatal(err)
	}
	quiet := func(string, ...any) {}
	first, err := a.take(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.write(Status{State: "running", Step: 1}); err != nil {
		t.Fatal(err)
	}
	said := ""
	second, err := b.take(dir, func(f string, _ ...any) { said = f })
	if err != nil || !strings.Contains(said, "watching") {
		t.Fatal(err, said)
	}
	if err := second.write(Status{State: "running", Step: 2}); err != nil {
		t.Fatal(err)
	}
	if err := first.write(Status{State: "done", Step: 3}); err == nil || !strings.Contains(err.Error(), "taken over by process 7 on b") {
		t.Errorf("it writes all the same: %v", err)
	}
	if first.again() || first.err() == nil {
		t.Error("it goes on")
	}
	var s Status
	if err := readJSON(filepath.Join(dir, "status.json"), &s); err != nil || s.Step != 2 || s.Lease.Host != "b" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := second.write(Status{State: "done", Step: 4}); err != nil {
		t.Error(err)
	}
	first.release()
	second.release()
	// A turn that a dead process has left is taken, too.
	if err := os.WriteFile(filepath.Join(dir, ".claim"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	third, err := a.take(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	third.release()
	if _, err := os.Stat(filepath.Join(dir, ".claim")); err == nil {
		t.Error("a turn is left behind")
	}
}

// A run goes on as long as its host counts beats, whatever that host's clock says.
func TestBusyCountsBeats(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"behind": -2 * time.Minute, "ahead": 2 * time.Minute, "of 1970": -50 * 365 * 24 * time.Hour} {
		for _, locks := range []bool{true, false} {
			dir, lease := t.TempDir(), Lease{Host: "a", Boot: "a", Process: 7}
			write := func() {
				lease.Beats++
				lease.Heartbeat = time.Now().Add(off)
				if err := writeJSON(filepath.Join(dir, "status.json"), Status{Schema: Schema, State: "running", Lease: &lease}); err != nil {
					t.Error(err)
				}
			}
			write()
			dead := onHost("b", locks)
			dead.beat = time.Millisecond
			if dead.busy(dir, true) || dead.busy(dir, false) {
				t.Errorf("clock %s, locks %v: a run without heartbeats is busy", name, locks)
			}
			reader := onHost("b", locks)
			reader.beat = time.Second // it watches for long, and the next heartbeat ends that
			found := make(chan bool)
			go func() { found <- reader.busy(dir, true) }()
			for done := false; !done; {
				select {
				case busy := <-found:
					if done = true; !busy {
						t.Errorf("clock %s, locks %v: a run that lives is not busy", name, locks)
					}
				case <-time.After(time.Millisecond):
					write()
				}
			}
		}
	}
}

// A run that cannot have its folder leaves none.
func TestNoFolderLeft(t *testing.T) {
	t.Parallel()
	at, dir := onHost("a", true), t.TempDir()
	at.flock = func(string, bool) (func(), error) { return nil, errors.New("no") }
	if _, err := Execute(t.Context(), mustRuns(t, small)[0], Options{Recipe: "test", Out: dir, at: at}); err == nil || !strings.Contains(err.Error(), "no") {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "test", "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
