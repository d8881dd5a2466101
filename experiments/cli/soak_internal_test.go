package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/comm"
)

// forgetful is a rank that says each time it is run that its gradients are worth more.
type forgetful struct {
	comm.Elastic
	runs *float64
}

func (h forgetful) Send(ctx context.Context, to int, f comm.Frame) error {
	if f.Header.Kind == comm.Gradient {
		*h.runs++
		f.Header.Value += *h.runs
	}
	return h.Elastic.Send(ctx, to, f)
}

// soak says what it tried, keeps a record, and its exit code says whether all held; of a
// seed that fails it prints the recipe.
func TestSoak(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "soak.jsonl")
	var stdout, stderr bytes.Buffer
	if code := Main([]string{"soak", "--seeds", "4", "--from", "13", "--modes", "reduce,server", "--out", out}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	if !strings.HasPrefix(stdout.String(), "4 seeds from 13 over 2 modes") {
		t.Errorf("%s", &stdout)
	}
	var sum soakSum
	if b, err := os.ReadFile(out); err != nil || json.Unmarshal(b, &sum) != nil || sum.Seeds != 4 || sum.Modes["reduce"] != 2 || sum.Done+sum.Ended != 4 || len(sum.Failed) > 0 {
		t.Errorf("%+v, %v\n%s", sum, err, b)
	}
	for _, args := range [][]string{{"--modes", "redcue"}, {"--hours", "-1"}, {"--jobs", "-1"}, {"extra"}, {"--processes", "1"}, {"--processes", "4", "--modes", "adpsgd"}, {"--processes", "4", "--minutes", "0"}, {"--out", filepath.Join(out, "below")}} {
		if code := Main(append([]string{"soak"}, args...), &stdout, &stderr); code != ExitConfig {
			t.Errorf("%v: exit %d", args, code)
		}
	}

	stdout.Reset()
	e, runs := &env{out: &stdout, err: &stderr, v: newViper()}, 0.0
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	err := e.soak(cmd, soakOptions{seeds: 1, from: 5, jobs: 1, modes: []string{"server"}, out: out, beside: func(h comm.Host) comm.Host { return forgetful{h.(comm.Elastic), &runs} }})
	if err == nil || !strings.Contains(err.Error(), "1 of 1 seeds failed: 5") {
		t.Errorf("what differs each time it is run: %v", err)
	}
	b, _ := os.ReadFile(out)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var f soakFailure
	if err := json.Unmarshal([]byte(lines[len(lines)-2]), &f); err != nil || f.Seed != 5 || len(f.Broken) == 0 || f.Faults == "" || !strings.Contains(stdout.String(), f.Recipe) {
		t.Errorf("recorded is %+v, %v; printed is\n%s", f, err, &stdout)
	}
}
