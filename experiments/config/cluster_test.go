package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A cluster on the command line replaces what a recipe, or the folder of a run,
// says of the keys that it sets; what is said beside it stands.
func TestClusterOverRecipe(t *testing.T) {
	t.Parallel()
	const recipe = "about: a test\ntiming: resnet50\nnetwork.bandwidth: 1e8\nnetwork.latency: 7us\ndevice.slow: 1x10\ndevice.flops: 5e9\n"
	of := func(text string, over ...string) (Config, error) {
		t.Helper()
		r, err := ParseRecipe("test", "test.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		runs, err := r.Runs(over, false)
		if err != nil {
			return Config{}, err
		}
		return runs[0].Config, nil
	}
	daint, err := of(recipe, "cluster=piz-daint")
	if err != nil {
		t.Fatal(err)
	}
	folder := string(daint.YAML())
	for _, c := range []struct {
		text string
		over []string
		want string
	}{
		{recipe, nil, "device=none device.flops=5e+09 device.slow=1x10 network.bandwidth=1e+08 network.latency=7µs constants.colocate=false"},
		{recipe, []string{"cluster=piz-daint"}, "device=p100-daint device.slow=1x10 network.bandwidth=2.52e+09 network.latency=30µs constants.colocate=true"},
		{recipe, []string{"network.latency=1us", "cluster=piz-daint"}, "device=p100-daint network.bandwidth=2.52e+09 network.latency=1µs"},
		{recipe + "cluster: piz-daint\n", nil, "device=p100-daint device.slow=1x10 network.bandwidth=1e+08 network.latency=7µs constants.colocate=true"},
		{recipe + "cluster: piz-daint\n", []string{"cluster=minsky"}, "network.per_host=4 device.law=lognormal(sigma=0.0245) constants.colocate=false device.slow=1x10"},
		{folder, []string{"cluster=minsky"}, "network.per_host=4 device.law=lognormal(sigma=0.0245) constants.colocate=false constants.overhead=0 device.slow=1x10"},
		{folder, []string{"cluster=none"}, "device=none device.law=constant constants.overhead=0 constants.colocate=false device.slow=1x10"},
		{folder, []string{"device.flops=1e12"}, "device=none device.flops=1e+12 cluster=piz-daint network.bandwidth=2.52e+09"},
		{folder, []string{"device=none", "device.flops=1e12"}, "device=none device.flops=1e+12"},
	} {
		got, err := of(c.text, c.over...)
		if err != nil {
			t.Errorf("%v: %v", c.over, err)
			continue
		}
		for _, kv := range strings.Fields(c.want) {
			k, v, _ := strings.Cut(kv, "=")
			if got.Get(k) != v {
				t.Errorf("%v: %s=%s, want %s", c.over, k, got.Get(k), v)
			}
		}
	}
	// A variant that gives a speed, and a quick form, are not held to the device of
	// what they are laid over.
	for _, c := range []struct{ text, want string }{
		{"cluster: piz-daint\nruns:\n  - {name: a, device: {flops: 5e9}}\n", "none"},
		{"cluster: piz-daint\nruns:\n  - {name: a, device: k80-p2, device.flops: 5e9}\n", "k80-p2"},
		{"cluster: piz-daint\nruns:\n  - {name: a, device.law: lognormal(sigma=0.5)}\n", "p100-daint"},
	} {
		if got, err := of("timing: resnet50\n" + c.text); err != nil || got.Device != c.want {
			t.Errorf("%s: device %s, want %s, %v", c.text, got.Device, c.want, err)
		}
	}
	if _, err := of(recipe, "device=p100", "device.flops=1e12"); err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("two speeds: %v", err)
	}
}

// A cluster may be a file of the user's. What a run keeps are its keys, so that it can be
// made again without the file.
func TestClusterOfAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("about: two boxes\nkeys:\n  device: a100\n  network.per_host: 8\n  network.bandwidth: 100Gbps\n")
	c := mustRuns(t, "steps: 1\ntiming: resnet50\ncluster: minsky\n", "cluster="+file, "network.latency=9us")[0].Config
	if c.Cluster != "none" || c.Device != "a100" || c.NetworkPerHost != 8 || c.NetworkBandwidth != 12.5e9 || c.NetworkLatency != "9µs" {
		t.Errorf("%+v", c)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if again := mustRuns(t, string(c.YAML())); again[0].Config != c {
		t.Error("it is another without the file")
	}
	r, err := ParseRecipe("test", "test.yaml", []byte("steps: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                 "no such file",
		"keys: {batch: 3}":                 `key "batch" is not of a cluster: want device, transport, node, device.*, network.* and constants.*`,
		"keys: {network.bandwidth: heaps}": `key "network.bandwidth": want bits per second`,
		"cabinets: 3":                      "field cabinets not found",
	} {
		_ = os.Remove(file)
		if text != "" {
			write(text)
		}
		if _, err := r.Runs([]string{"cluster=" + file}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A file may say how well keys are known, and speeds on single networks. A run takes over
// the speed on its own; what is known counts for keys that were not changed since.
func TestClusterThatIsKnown(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := "about: mine\nkeys: {constants.share: {value: 0.5, times: 1.01}, device.flops: 1e12}\nspeeds: {lenet: 3e12}\nsite: 0.02\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	of := func(keys ...string) Config {
		return mustRuns(t, "steps: 1\nmode: reduce\n", append([]string{"cluster=" + file}, keys...)...)[0].Config
	}
	c := of("timing=lenet")
	if c.DeviceFLOPS != 3e12 || of("timing=resnet50").DeviceFLOPS != 1e12 || of("timing=lenet", "device.flops=2e12").DeviceFLOPS != 2e12 {
		t.Errorf("speeds: %v, %v, %v", c.DeviceFLOPS, of("timing=resnet50").DeviceFLOPS, of("timing=lenet", "device.flops=2e12").DeviceFLOPS)
	}
	if c != of("timing=lenet") {
		t.Error("twice the same is not the same")
	}
	width := func(c Config) float64 {
		t.Helper()
		s, err := mustResolve(t, c).Spread()
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range s.Parameters() {
			if p.Key == "constants.share" {
				if s.Middle(i) != c.Constants.Share {
					t.Errorf("around %v; want %v", s.Middle(i), c.Constants.Share)
				}
				return p.Times
			}
		}
		t.Fatal("constants.share does not vary")
		return 0
	}
	if w := width(c); w != 1.01 {
		t.Errorf("of the file: %v", w)
	}
	if w := width(of("timing=lenet", "constants.share=0.6")); w <= 1.01 {
		t.Errorf("of a key that was changed: %v", w)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	again, _, err := ParseConfig(c.YAML())
	if err != nil || again.DeviceFLOPS != 3e12 || again.Hash() != c.Hash() {
		t.Errorf("what is kept: %v, %v", again.DeviceFLOPS, err)
	}
	for text, want := range map[string]string{
		"keys: {network.nonsense: {times: 2}}":                     `line 1: unknown key "network.nonsense"`,
		"keys:\n  constants.share: {value: 0.5, times: 0.5}":       `line 2: key "constants.share": want times of at least 1`,
		"keys: {constants.share: {value: 0.5, times: 2, plus: 1}}": "or plus of more than 0",
		"keys: {constants.share: {}}":                              "want a value, times or plus",
		"keys: {constants.share: {middle: 1}}":                     `there is no "middle"; want value, times, plus or source`,
		"keys: {constants.share: [1, 2]}":                          "want a value, or a mapping",
		"keys: {constants.share: }":                                "want a value, or a mapping",
		"keys: [constants.share]":                                  "want a mapping of keys to values",
		"keys:\n  constants.share: 1\n  constants.share: 0.5":      `line 3: key "constants.share" is given twice`,
		"keys: {constants.share: 7}":                               `line 1: key "constants.share": ideal: option "share": want at most 1`,
		"keys: {constants.shar: 0.7}":                              `unknown key "constants.shar"; did you mean "constants.share"?`,
		"keys: {device.law.sigma: -1}":                             "want 0 to 3",
		"keys: {transport: smoke}":                                 `there is no transport called "smoke"`,
		"keys: {cluster: minsky}":                                  `key "cluster" is not of a cluster`,
		"rates: {resnet50: {batch: 1, rate: 2}}":                   "rates and memory are of a device, not of a cluster",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var c Config
		if err := c.Set("cluster", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}
