package config

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// outcome is all that a choice can change of a run: its bits, its bytes and, on
// the virtual clock, when its updates ended.
func outcome(t *testing.T, c Config) (string, error) {
	t.Helper()
	r, err := c.Resolve()
	if err != nil {
		return "", err
	}
	job, err := r.Build(Places{Shelf: idleShelf}, nil)
	if err != nil {
		return "", err
	}
	s := &ends{}
	obs := &train.Observer{Job: job, Sink: s}
	programs, err := job.Programs(obs)
	if err != nil {
		return "", err
	}
	net, err := r.NewNet(job.World()-job.Workers, 0)
	if err != nil {
		return "", err
	}
	if err := net.Run(context.Background(), programs); err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	if c.Net != "sim" {
		return obs.SHA256, nil
	}
	return fmt.Sprint(obs.SHA256, s.at, obs.Final.BytesUp, obs.Final.BytesDown), nil
}

// ends is a sink that notes when updates were made.
type ends struct{ at []float64 }

func (e *ends) Progress(p record.Progress)              { e.at = append(e.at, p.Seconds) }
func (e *ends) Eval(record.Eval)                        {}
func (e *ends) Checkpoint(int, *checkpoint.State) error { return nil }

var idleShelf = &Shelf{}

// Every mode heeds the choices it claims to heed, and no others.
func TestModesHeedWhatTheyClaim(t *testing.T) {
	values := map[string][]string{
		"servers": {"1", "3"}, "placement": {"round_robin", "balanced"}, "policy": {"bsp", "asp", "softsync(n=2)"},
		"corrector": {"alpha_tau"}, "down_codec": {"bf16"}, "topology": {"tree", "direct"}, "graph": {"complete", "exponential"},
		"outer": {"momentum"}, "overlap": {"buckets", "buckets(bytes=4000)", "priority(bytes=4000)"},
	}
	bases := []string{"", "overlap=buckets", "overlap=buckets(bytes=4000)", "policy=asp"}
	for _, choice := range train.Choices() {
		if len(values[choice]) == 0 {
			t.Errorf("no value of %q to try", choice)
		}
	}
	for _, e := range train.Modes.Entries() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			shown := map[string]string{}
			tried := false
			for _, base := range bases {
				c := Default()
				c.Mode, c.Servers, c.Batch, c.Steps, c.Model, c.DeviceLaw, c.DeviceFLOPS, c.NetworkBandwidth = e.Name, 2, 8, 12, "mlp(hidden=[40,40,40])", "lognormal(sigma=0.3)", 1e8, 1e7
				for _, kv := range strings.Fields(base) {
					k, v, _ := strings.Cut(kv, "=")
					if err := c.Set(k, v); err != nil {
						t.Fatal(err)
					}
				}
				was, err := outcome(t, c)
				if err != nil && strings.Contains(err.Error(), "net=local") { // shares memory: alone it is deterministic
					c.Net, c.Workers = "local", 1
					was, err = outcome(t, c)
				}
				if err != nil {
					continue // not in this mode
				}
				tried = true
				job, err := Run{Config: c}.Build(Places{Shelf: idleShelf}, nil)
				if err != nil {
					t.Fatal(err)
				}
				for choice, list := range values {
					if shown[choice] != "" && !patience.Long {
						continue
					}
					for _, v := range list {
						other := c
						if err := other.Set(choice, v); err != nil {
							t.Fatal(err)
						}
						is, err := outcome(t, other)
						switch {
						case err != nil || is == was:
						case !job.Heeds(choice):
							t.Errorf("claims not to heed %s, but %s=%s changes the run (base %q)", choice, choice, v, base)
						default:
							shown[choice] = v
						}
					}
				}
			}
			if !tried {
				t.Fatal("runs on no base")
			}
			m := train.Modes.MustParse(e.Name)
			for _, choice := range m.Traits(&train.Job{Mode: m}).Heeds {
				if shown[choice] == "" {
					t.Errorf("claims to heed %s, but no run shows it", choice)
				}
			}
		})
	}
}

// What has no effect is noted, by key, with the reason.
func TestIdle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ set, want string }{
		{"mode=reduce servers=3", "servers=3 has no effect in mode reduce"},
		{"net=local transport=ideal network.bandwidth=10Mbps", "network.bandwidth=10Mbps has no effect on net=local"},
		{"mode=server graph=complete outer=momentum", "graph=complete and outer=momentum have no effect in mode server"},
		{"mode=reduce servers=4", "servers=4 has no effect in mode reduce"},
		{"net=sim links=shm", "links=shm has no effect on net=sim"},
		{"net=local network.bandwidth=1Mbps", "network.bandwidth"},
		{"transport=unknown net=local network.bandwidth=1Mbps", "network.bandwidth=1Mbps has no effect on net=local"},
		{"transport=nccl-tcp net=local network.latency=5ms", "network.latency=5ms"},
		{"net=local transport=unknown", ""}, // a recipe says it of its simulated runs
		{"net=local transport=nccl-tcp", "transport=nccl-tcp has no effect on net=local"},
		{"batch=1000", "an update takes 4000 samples, and the training set has 1438"},
		{"eval_every=500 steps=100", "eval_every=500 is beyond the last of 100 updates"},
		{"mode=reduce codec=dgc optimizer=momentum", "momentum is applied twice: codec dgc(keep=0.001) has its own, and so has optimizer=momentum; use optimizer=sgd"},
		{"device.codec=free mode=server codec=bysize(dgc(keep=0.01),bf16,limit=64) optimizer=chain(decay(rate=1e-4),rmsprop(momentum=0.9))", "momentum is applied twice"},
		{"mode=localsgd codec=dgc optimizer=sgd outer=momentum", "so has outer=momentum"},
		{"mode=localsgd codec=dgc optimizer=momentum", ""},
		{"mode=reduce codec=dgc optimizer=sgd", ""},
		{"mode=reduce codec=dgc optimizer=rmsprop", ""},
		{"mode=reduce codec=dgc optimizer=chain(decay(rate=1e-4,momentum=0.9),sgd)", ""},
		{"device.codec=free mode=reduce codec=dgc(keep=0.01,momentum=0) optimizer=momentum", ""},
		{"mode=reduce codec=feedback(topk(keep=0.01)) optimizer=momentum", ""},
		{"optimizer=groups(on(sgd,names=[nowhere]),momentum)", "no tensor of model=mlp is for the part on(sgd,names=[nowhere]) of optimizer"},
		{"mode=localsgd outer=chain(decay(rate=1e-4),on(sgd,roles=[norm]))", "the part on(sgd,roles=[norm]) of outer"},
		{"optimizer=groups(on(sgd,roles=[bias]),momentum)", ""},
		{"mode=reduce net=sim", ""},
		{"mode=reduce elastic=on(max_restarts=3)", "option max_restarts of elastic=on(max_restarts=3) has no effect on net=sim"},
		{"mode=reduce elastic=on(min_workers=2)", ""},
		{"net=local emulate=true network.bandwidth=1Mbps", ""},
	} {
		conf := Default()
		for _, kv := range strings.Fields(c.set) {
			k, v, _ := strings.Cut(kv, "=")
			if err := conf.Set(k, v); err != nil {
				t.Fatal(err)
			}
		}
		r := mustResolve(t, conf)
		job, err := r.Build(Places{Shelf: idleShelf}, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.set, err)
		}
		got := strings.Join(r.Idle(job), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: noted %q, want %q", c.set, got, c.want)
		}
	}
}

// Runs of a recipe that differ in nothing but what has no effect are the same run
// under two names, and refused.
func TestSameRunTwice(t *testing.T) {
	t.Parallel()
	a, b := Default(), Default()
	a.Mode, b.Mode = "reduce", "reduce"
	b.Graph = "complete"
	runs := []Run{{Name: "graph=ring", Config: a}, {Name: "graph=complete", Config: b}}
	err := CheckAll(runs, Places{Shelf: idleShelf}, nil)
	if err == nil || !strings.Contains(err.Error(), `runs "graph=ring" and "graph=complete" would be the same: they differ in graph only, which has no effect in mode reduce`) {
		t.Errorf("got %v", err)
	}
	b = a
	a.Elastic, b.Elastic = "on", "on(max_restarts=2)"
	err = CheckAll([]Run{{Name: "never", Config: a}, {Name: "twice", Config: b}}, Places{Shelf: idleShelf}, nil)
	if err == nil || !strings.Contains(err.Error(), `runs "never" and "twice" would be the same: they differ in elastic only, which has no effect on net=sim`) {
		t.Errorf("restarts that nobody makes: %v", err)
	}
	b.Seed = 2
	if err := CheckAll([]Run{runs[0], {Name: "other seed", Config: b}}, Places{Shelf: idleShelf}, nil); err != nil {
		t.Error(err)
	}
}

// Counts beyond the workers there are, and numbers without a unit that can only be
// a slip, are mistakes.
func TestBeyondTheWorkers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ set, want string }{
		{"policy=ksync(k=9)", "9 gradients into an update, and there are 4 workers"},
		{"policy=kbatchasync(k=5)", "5 gradients into an update, and there are 4 workers"},
		{"policy=backup(b=4)", "leaves 4 workers out of each update, and there are 4"},
		{"device.slow=9x2", "9x2 is 9 slow workers, of 4"},
		{"network.bandwidth=10", "10 bytes a second"},
	} {
		conf := Default()
		var err error
		for _, kv := range strings.Fields(c.set) {
			k, v, _ := strings.Cut(kv, "=")
			err = errors.Join(err, conf.Set(k, v))
		}
		if err == nil {
			err = CheckAll([]Run{{Name: "it", Config: conf}}, Places{Shelf: idleShelf}, nil)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.set, err, c.want)
		}
	}
	for _, set := range []string{"policy=ksync(k=4)", "policy=backup(b=3)", "policy=softsync(n=4)", "device.slow=4x2", "network.bandwidth=10B/s", "network.bandwidth=1.25e8"} {
		conf := Default()
		k, v, _ := strings.Cut(set, "=")
		if err := conf.Set(k, v); err != nil {
			t.Error(err)
		} else if err := CheckAll([]Run{{Name: "it", Config: conf}}, Places{Shelf: idleShelf}, nil); err != nil {
			t.Errorf("%s: %v", set, err)
		}
	}
}
