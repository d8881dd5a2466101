package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/program"
)

// A run of a host whose clock is two minutes off looks lost, and is not removed.
func TestRemoveCountsBeats(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	replace := func(name string, b []byte) {
		part := filepath.Join(dir, name+".part")
		if err := os.WriteFile(part, b, 0o600); err != nil {
			t.Error(err)
		}
		if err := os.Rename(part, filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	lease := experiments.Lease{Host: "elsewhere", Boot: "elsewhere", Process: 7}
	beat := func() {
		lease.Beats++
		lease.Heartbeat = time.Now().Add(-2 * time.Minute)
		b, err := json.Marshal(experiments.Status{Schema: experiments.Schema, State: "running", Lease: &lease})
		if err != nil {
			t.Error(err)
		}
		replace("status.json", b)
	}
	replace("config.yaml", config.Default().YAML())
	beat()
	if p := program.Finish(t, 0, "runs", "list", dir); !strings.Contains(p.Out.String(), "1 lost") {
		t.Error(p.Says())
	}
	stop, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				beat()
			}
		}
	}()
	p := program.Finish(t, 1, "runs", "rm", dir, "--yes")
	close(stop)
	<-done
	if !strings.Contains(p.Err.String(), "is running; stop it first") {
		t.Error(p.Says())
	}
	if _, err := os.Stat(filepath.Join(dir, "status.json")); err != nil {
		t.Error(err)
	}
}
