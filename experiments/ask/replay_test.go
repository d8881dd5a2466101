package ask

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
)

// A run of goroutines, in whatever order they came, is made again on the virtual
// cluster.
func TestReplay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := execute(t, dir, "mode=server", "policy=ssp(slack=2)", "servers=2", "net=local", "observe=order_log", "steps=30")
	if err != nil {
		t.Fatal(err)
	}
	again, err := Replay(context.Background(), r.Folder, config.Places{})
	if err != nil {
		t.Fatal(err)
	}
	if !again.Equal || again.Steps != r.Steps {
		t.Errorf("replayed %+v, the run ended at step %d", again, r.Steps)
	}
	if r, err = execute(t, dir, "mode=server", "policy=asp", "net=local", "steps=30"); err != nil {
		t.Fatal(err)
	}
	if _, err := Replay(context.Background(), r.Folder, config.Places{}); err == nil || !strings.Contains(err.Error(), "no order log") {
		t.Errorf("without a log: %v", err)
	}
}

// A replay of a run that ended at its target ends there, with its bits.
func TestUntilTargetReplayed(t *testing.T) {
	t.Parallel()
	r := mustExecute(t, "policy=asp", "net=local", "steps=300", "eval_every=3", "target=0.3", "until=target", "observe=order_log")
	if r.Ended != "target" {
		t.Fatalf("%+v", r)
	}
	again, err := Replay(t.Context(), r.Folder, config.Places{})
	if err != nil || !again.Equal || again.Steps != r.Steps {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := os.Stat(filepath.Join(r.Folder, "result.json")); err != nil {
		t.Error(err)
	}
}

// What a run would take elsewhere is asked over the steps that it made.
func TestWhatIfOfARunThatEndedAtItsTarget(t *testing.T) {
	t.Parallel()
	r := mustExecute(t, "until=target", "target=0.05", "steps=40")
	w, err := AnswerWhatIf(t.Context(), r.Folder, []string{"network.bandwidth=10Gbps"}, config.Places{}, 0)
	if err != nil || w.Was.Updates != r.Steps || r.Steps >= 40 {
		t.Errorf("%+v, %v: %d steps were made", w, err, r.Steps)
	}
}
