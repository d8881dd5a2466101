package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// elsewhere are keys of another network and other devices.
var elsewhere = []string{"network.bandwidth=20Mbps", "network.latency=3ms", "constants.colocate=true", "device.flops=2e8", "device.law=lognormal(sigma=0.3)", "device.law=gamma(cv=0.5)", "device.slow=1x3", "device.codec=50MB/s"}

// contentOf is what a run leaves of itself but for where it lies, how long this
// machine took, and how long the reports are that nobody pays for.
func contentOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, name := range []string{"metrics.jsonl", "links.json", "model.safetensors", sizesFile, dataFile, "config.yaml"} {
		out[name] = string(read(name))
	}
	var r Result
	var ranks []record.RankReport
	if err := errors.Join(json.Unmarshal(read("result.json"), &r), json.Unmarshal(read("ranks.json"), &ranks)); err != nil {
		t.Fatal(err)
	}
	r.Folder, r.WallSeconds, r.PricedFrom, r.ReportBytes = "", 0, "", 0
	for i := range ranks {
		t := &ranks[i].Traffic
		t.SentBody[comm.Report], t.SentFrames[comm.Report], t.RecvFrames[comm.Report] = 0, 0, 0
	}
	a, _ := json.Marshal(r)
	b, _ := json.Marshal(ranks)
	out["result.json"], out["ranks.json"] = string(a), string(b)
	return out
}

// A priced run leaves the record of the run that was trained: the same learning,
// the same times to the nanosecond, the same bytes.
func TestPricedIsTrained(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, keys := range map[string][]string{
		"server":        {"mode=server", "servers=2", "observe=gap", "checkpoint_every=5"},
		"server topk":   {"mode=server", "codec=feedback(topk(keep=0.1))", "overlap=buckets", "observe=order_log"},
		"server down":   {"mode=server", "codec=threshold", "down_codec=topk(keep=0.2)"},
		"barrier":       {"mode=server(barrier=true)", "codec=qsgd(bits=4)"},
		"reduce":        {"mode=reduce", "overlap=fusion(cycle=100us)"},
		"reduce topk":   {"mode=reduce", "codec=feedback(topk(keep=0.1))", "checkpoint_every=4"},
		"reduce own":    {"mode=reduce", "codec=feedback(powersgd(rank=2))", "topology=tree"},
		"gather":        {"mode=gather", "codec=entropy(qsgd(bits=2))"},
		"dgc":           {"mode=gather", "codec=dgc(keep=0.05,warmup=1)", "nonfinite=zero"},
		"localsgd":      {"mode=localsgd(h=3)", "codec=strom(tau=0.01)"},
		"dpsgd":         {"mode=dpsgd", "codec=bf16"},
		"sgp":           {"mode=sgp(late=1)", "graph=one_peer"},
		"choco":         {"mode=choco(gamma=0.4)", "codec=topk(keep=0.2)"},
		"easgd":         {"mode=easgd(tau=2)"},
		"with a timing": {"mode=server", "model=logistic", "timing=mlp(hidden=[200])"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			keys = append(keys, "device.codec=free", "target=0.15") // some reach it, at times of their own
			from, err := execute(t, dir, false, keys...)
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, elsewhere...)
			run := mustRuns(t, small, keys...)[0]
			want, err := Execute(context.Background(), run, Options{Out: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			got, err := Execute(context.Background(), run, Options{Out: dir, From: from.Folder, Places: config.Places{Dir: t.TempDir()}})
			if err != nil {
				t.Fatal(err)
			}
			if got.PricedFrom != from.Folder || got.VirtualSeconds == from.VirtualSeconds || got.WallSeconds <= 0 {
				t.Errorf("priced from %q in %v virtual and %v wall seconds", got.PricedFrom, got.VirtualSeconds, got.WallSeconds)
			}
			is, was := contentOf(t, got.Folder), contentOf(t, want.Folder)
			for name := range was {
				if is[name] != was[name] {
					t.Errorf("%s:\n%.3000s\nwant\n%.3000s", name, is[name], was[name])
				}
			}
			// And what was priced can be priced from.
			again, err := Execute(context.Background(), mustRuns(t, small, keys...)[0], Options{Out: dir, From: got.Folder})
			if err != nil || again.VirtualSeconds != want.VirtualSeconds {
				t.Errorf("%v, %+v", err, again)
			}
		})
	}
}

// Axes over network.* and device.* train once, others and asynchronous runs each
// time.
func TestRunsThatLearnTheSameAreTrainedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys   []string
		priced int
	}{
		"network":   {[]string{"network.bandwidth=10Mbps,100Mbps,1Gbps"}, 2},
		"both":      {[]string{"network.bandwidth=10Mbps,1Gbps", "device.law=constant,lognormal(sigma=0.2)", "codec=raw,topk(keep=0.1)"}, 6},
		"seeds":     {[]string{"seed=1,2"}, 0},
		"asp":       {[]string{"policy=asp", "network.bandwidth=10Mbps,1Gbps"}, 0},
		"deaths":    {[]string{"faults=none,kill(w1,at=1h)"}, 0},
		"clock":     {[]string{"net=local", "network.bandwidth=10Mbps,1Gbps"}, 0},
		"nodes":     {[]string{"mode=reduce", "topology=leaders", "network.per_host=1,3"}, 0},
		"per host":  {[]string{"network.per_host=1,3"}, 1},
		"other key": {[]string{"batch=4,8"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, all := range []bool{false, true} {
				results, err := ExecuteAll(context.Background(), mustRuns(t, small, c.keys...), Options{Out: t.TempDir(), TrainAll: all})
				if err != nil {
					t.Fatal(err)
				}
				priced := 0
				for _, r := range results {
					if r.PricedFrom != "" {
						priced++
					}
				}
				if want := c.priced; !all && priced != want || all && priced != 0 {
					t.Errorf("train-all %v: %d of %d are priced, want %d", all, priced, len(results), want)
				}
			}
		})
	}
}

// What cannot be priced is refused, with what to do.
func TestPricingRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, err := execute(t, dir, false, "codec=topk(keep=0.1)")
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(what string, keys ...string) {
		t.Helper()
		run := mustRuns(t, small, append([]string{"codec=topk(keep=0.1)"}, keys...)...)[0]
		if _, err := Execute(context.Background(), run, Options{Out: dir, From: from.Folder}); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "--train-all") {
			t.Errorf("%v: %v, want %q", keys, err, what)
		}
	}
	refuse("something else", "seed=2")
	refuse("something else", "policy=asp")
	asp, err := execute(t, dir, false, "codec=topk(keep=0.1)", "policy=asp")
	if err != nil || Priceable(asp.Folder) {
		t.Fatalf("an asynchronous run can be priced from (%v)", err)
	}
	if err := os.WriteFile(filepath.Join(from.Folder, sizesFile), []byte("torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	refuse("sizes of payloads", "network.bandwidth=10Mbps")
	if err := os.Remove(filepath.Join(from.Folder, sizesFile)); err != nil {
		t.Fatal(err)
	}
	refuse("no record", "network.bandwidth=10Mbps")
}

// A priced run that is asked to stop keeps nothing, and begins anew.
func TestPricedStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, err := execute(t, dir, false, "checkpoint_every=2")
	if err != nil {
		t.Fatal(err)
	}
	run := mustRuns(t, small, "checkpoint_every=2", "network.bandwidth=10Mbps")[0]
	asked := 0
	opt := Options{Out: dir, From: from.Folder, Resume: true, Stopping: func() bool { asked++; return asked > 12 }}
	if r, err := Execute(context.Background(), run, opt); r != nil || !errors.Is(err, ErrStopped) {
		t.Fatalf("%+v, %v", r, err)
	}
	opt.Stopping = nil
	r, err := Execute(context.Background(), run, opt)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Execute(context.Background(), run, Options{Out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if r.VirtualSeconds != want.VirtualSeconds || r.ParamsSHA256 != want.ParamsSHA256 || r.BytesUp != want.BytesUp {
		t.Errorf("%+v, want %+v", r, want)
	}
}
