package experiments

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/experiments/config"
)

// telegraph is a virtual cluster on which every frame takes as long, whatever is in it.
type telegraph struct{ Delay time.Duration }

var _ = config.Nets.Add("telegraph", "frames all take as long", telegraph{Delay: time.Millisecond})

func (n telegraph) Validate() error {
	if n.Delay < 0 {
		return fmt.Errorf(`option "delay": want 0s or more, not %v`, n.Delay)
	}
	return nil
}

func (telegraph) Traits() config.NetTraits {
	return config.NetTraits{Virtual: true, Traces: true, Elastic: true, Faults: config.FaultsAll}
}

func (n telegraph) New(r *config.Resolved, servers int, start time.Duration) (comm.Net, error) {
	plan, err := r.Plan(servers)
	return &sim.Net{Start: start, Faults: plan, Network: &sim.FIFO{Latency: n.Delay}}, err
}

// hall is a net on the wall clock that promises nothing.
type hall struct{}

var _ = config.Nets.Add("hall", "goroutines that promise nothing", hall{})

func (hall) Traits() config.NetTraits { return config.NetTraits{} }

func (hall) New(*config.Resolved, int, time.Duration) (comm.Net, error) {
	return &local.Net{Deadline: config.LongestWait}, nil
}

// A virtual net that is enrolled elsewhere is billed, traced, resumed, and takes faults and workers
// that leave, as net=sim does.
func TestOwnVirtualNet(t *testing.T) {
	t.Parallel()
	times := map[string]float64{}
	for _, set := range []string{"codec=raw net=telegraph(delay=2ms)", "codec=bf16 net=telegraph(delay=2ms)", "codec=raw net=telegraph(delay=4ms)"} {
		r := mustExecute(t, append(strings.Fields(set), "device.codec=free", "transport=ideal", "observe=trace")...)
		if times[set] = r.VirtualSeconds; r.Network == nil || r.Config["net"] != strings.Fields(set)[1][len("net="):] {
			t.Errorf("%s: %v on %+v", set, r.Config["net"], r.Network)
		}
		if found, _ := filepath.Glob(filepath.Join(r.Folder, "t*")); len(found) < 2 {
			t.Errorf("%s: no trace: %v", set, found)
		}
	}
	short, small, long := times["codec=raw net=telegraph(delay=2ms)"], times["codec=bf16 net=telegraph(delay=2ms)"], times["codec=raw net=telegraph(delay=4ms)"]
	if short == 0 || small != short || long-short < 12*2*0.002 {
		t.Errorf("%v s, with half the bytes %v s, and at twice the delay %v s", short, small, long)
	}
	r := mustExecute(t, "net=telegraph", "mode=reduce", "elastic=on", "faults=leave(w1,before=4)+kill(w2,at=60ms)")
	if r.Status != "done" || len(r.Members) < 2 {
		t.Errorf("%s, with members %v", r.Status, r.Members)
	}
	if r := mustExecute(t, "net=telegraph", "weightless=true", "timing=lenet", "target=0", "eval_every=0"); r.Status != "done" || r.VirtualSeconds == 0 {
		t.Errorf("without weights: %s after %v s", r.Status, r.VirtualSeconds)
	}
}

// A net that promises nothing makes runs, and whatever asks for more is refused, with a net that
// can.
func TestOwnNetWithoutTraits(t *testing.T) {
	t.Parallel()
	if r := mustExecute(t, "net=hall"); r.Status != "done" || r.VirtualSeconds != 0 || r.CodecTime != "" {
		t.Errorf("%+v", r)
	}
	for set, want := range map[string]string{
		"emulate=true":             `key "emulate": net=hall cannot; use net=grpc or net=local`,
		"elastic=on mode=reduce":   `key "elastic": net=hall cannot; use net=grpc or net=local or net=sim or net=telegraph`,
		"faults=kill(w1,at=1s)":    `on net=hall nothing can carry them out; use net=sim or net=telegraph`,
		"observe=trace":            `net=hall has no virtual clock to trace; take trace out, or use net=sim or net=telegraph`,
		"weightless=true":          `on net=hall time would be real`,
		"mode=hogwild codec=raw":   `which net=hall does not give them; use net=local`,
		"net=telegraf":             `did you mean "telegraph"?`,
		"net=telegraph(delay=-1s)": `option "delay": want 0s or more`,
		"net=telegraph(dela=1s)":   `did you mean "delay"?`,
	} {
		recipe, err := config.ParseRecipe("test", "test.yaml", []byte(small))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = recipe.Runs(append([]string{"net=hall"}, strings.Fields(set)...), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
}
