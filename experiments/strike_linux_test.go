package experiments

import (
	"context"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/experiments/config"
)

// The faults of the virtual cluster happen to processes, too: one that is killed is lost,
// and the others go on as they do there; one that is stopped for less than its lease is
// late and nothing else.
func TestF2F9FaultsOnProcesses(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	set := []string{"data=digits", "model=logistic", "workers=3", "epochs=0", "batch=8", "mode=server", "policy=asp", "steps=3000", "eval_every=0"}
	for _, c := range []struct {
		faults string
		lost   int
	}{{"kill(w2,at=0s)", 1}, {"pause(w1,at=0s,for=300ms)+pause(w1,at=100ms,for=300ms)", 0}} {
		there := mustExecute(t, append(set, "faults="+c.faults)...)
		run := mustRuns(t, small, append(set, "net=grpc", "faults="+c.faults)...)[0]
		here, err := Execute(context.Background(), run, Options{Recipe: "test", Out: t.TempDir(), Join: Itself(os.Getenv, config.Places{})})
		if err != nil {
			t.Fatal(err)
		}
		for where, r := range map[string]*Result{"sim": there, "grpc": here} {
			if l := r.Ledger; len(r.Lost) != c.lost || r.Degraded != (c.lost > 0) || r.Steps != 3000 || l.Sent != l.Applied+l.Rejected+l.Lost {
				t.Errorf("%s on %s: lost %q, %d steps, %+v", c.faults, where, r.Lost, r.Steps, l)
			}
		}
	}
	for faults, want := range map[string]string{"loss(0.1)": "only kill, rejoin and pause", "kill(observer,at=1s)": "does not strike itself"} {
		run := mustRuns(t, small, append(set, "net=grpc", "faults="+faults)...)[0]
		if _, err := Execute(context.Background(), run, Options{Recipe: "test", Out: t.TempDir(), Join: Itself(os.Getenv, config.Places{})}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", faults, err)
		}
	}
}

// Pauses that overlap end with the last of them.
func TestBlows(t *testing.T) {
	t.Parallel()
	s, err := nemesis.Parse("pause(w0,at=1s,for=5s)+pause(w0,at=2s,for=1s)+pause(w1,at=2s,for=1s)+pause(w0,at=5s,for=3s)+kill(w1,at=2.5s)+rejoin(w1,at=4s)+pause(w0,at=9s,for=1s)")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.Plan(nemesis.World{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := []blow{
		{time.Second, 0, sigStop}, {2 * time.Second, 0, sigStop}, {2 * time.Second, 1, sigStop}, {2500 * time.Millisecond, 1, os.Kill}, {3 * time.Second, 1, sigCont}, {4 * time.Second, 1, nil},
		{5 * time.Second, 0, sigStop}, {8 * time.Second, 0, sigCont}, {9 * time.Second, 0, sigStop}, {10 * time.Second, 0, sigCont},
	}
	if got := blows(plan); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
