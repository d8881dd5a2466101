package experiments

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

// The faults of the virtual cluster happen to processes, too: one that is killed is lost,
// and the others go on as they do there; one that is stopped for less than its lease is
// late and nothing else.
func TestF2F9FaultsOnProcesses(t *testing.T) {
	t.Parallel()
	if !patience.Long {
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

// F5: a server that key faults kills and starts again comes back on the virtual cluster as
// among processes: all go back to the last checkpoint, and the run ends with the bits of
// one in which nobody died.
func TestF5ShardsComeBackByFault(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("starts processes")
	}
	set := []string{"data=digits", "model=logistic", "workers=2", "servers=2", "epochs=0", "steps=1000", "batch=8", "mode=server", "elastic=on", "codec=feedback(topk(keep=0.1))",
		"checkpoint_every=20", "eval_every=100", "device.flops=1M", "network.latency=100us"}
	whole := mustExecute(t, set...)
	at := func(share float64) time.Duration { return time.Duration(share * whole.VirtualSeconds * 1e9) }
	for net, faults := range map[string]string{
		"sim":  fmt.Sprintf("kill(s1,at=%v)+rejoin(s1,at=%v)", at(0.5), at(0.6)),
		"grpc": "kill(s1,at=100ms)+rejoin(s1,at=400ms)",
	} {
		run := mustRuns(t, small, append(set, "net="+net, "faults="+faults)...)[0]
		r, err := Execute(t.Context(), run, Options{Recipe: "test", Out: t.TempDir(), Join: Itself(os.Getenv, config.Places{})})
		if err != nil {
			t.Fatalf("%s: %v", net, err)
		}
		if r.Restarts != 1 || r.Degraded || r.ParamsSHA256 != whole.ParamsSHA256 {
			t.Errorf("%s: %d restarts, lost %q, %d steps; it ends with %s, undisturbed with %s", net, r.Restarts, r.Lost, r.Steps, r.ParamsSHA256, whole.ParamsSHA256)
		}
		if net == "sim" && r.VirtualSeconds <= whole.VirtualSeconds+0.09*whole.VirtualSeconds {
			t.Errorf("it takes %v s, undisturbed %v", r.VirtualSeconds, whole.VirtualSeconds)
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
