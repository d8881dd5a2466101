package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A cluster's sheet names a transport and a node; what it says itself is over theirs, and
// keys beside the cluster are over both, whatever the order in the file.
func TestSheetsIncludeSheets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := "about: mine\nkeys:\n  constants.share: 1\n  constants.colocate: true\n  device.law.sigma: 0.3\n  network.per_host: 8\n  transport: grpc\n  node: pcie-tree\n  device: a100\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	recipe := "steps: 1\ntiming: resnet50\ncluster: " + file + "\nconstants:\n  overlap: 0.5\n"
	c := mustRuns(t, recipe, "constants.step=2ms")[0].Config
	for k, want := range map[string]string{
		"transport": "grpc", "node": "pcie-tree", "device": "a100", "constants.share": "1", "constants.colocate": "true", "device.law": "lognormal(sigma=0.3)",
		"constants.overhead": "0.027", "network.inside": "1e+10", "constants.bridge": "32GB/s", "constants.overlap": "0.5", "constants.step": "2ms",
	} {
		if got := c.Get(k); got != want {
			t.Errorf("%s is %s, want %s", k, got, want)
		}
	}
	if err := os.WriteFile(file, []byte("keys: {network.bandwidth: 1Gbps}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"transport", "node", "device"} {
		other := Default()
		if err := other.Set(kind, file); err == nil || !strings.Contains(err.Error(), "a sheet of yours is given as cluster="+file) {
			t.Errorf("a file as %s: %v", kind, err)
		}
	}
	back, unknown, err := ParseConfig(c.YAML()) // the file says something else now
	if err != nil || len(unknown) > 0 || back.Hash() != c.Hash() || back.Constants != c.Constants {
		t.Errorf("what is kept: %v, %v, %+v", err, unknown, back.Constants)
	}
	again := mustRuns(t, string(c.YAML()))[0].Config
	if again.Constants != c.Constants || again.Hash() != c.Hash() {
		t.Errorf("a run's folder gives %+v, want %+v", again.Constants, c.Constants)
	}
	virtual := func(c Config) []byte {
		t.Helper()
		timing, err := mustResolve(t, c).timing()
		if err != nil {
			t.Fatal(err)
		}
		return []byte(timing.Cost(1e12, 1, 0, 3).String() + timing.Software(8).String())
	}
	if a, b := virtual(c), virtual(again); string(a) != string(b) {
		t.Errorf("a step takes %s, again %s", a, b)
	}
}

// A transport on the command line replaces that of a recipe or of a run's folder, and what
// is at its default there; what the recipe says otherwise stays.
func TestTransportOverRecipe(t *testing.T) {
	t.Parallel()
	const recipe = "steps: 1\nconstants.reduce: 2GB/s\n"
	folder := string(mustRuns(t, recipe+"transport: mpi-tcp\n")[0].Config.YAML())
	for _, c := range []struct{ text, transport, want string }{
		{recipe, "mpi-tcp", "constants.share=0.97 constants.reduce=2GB/s constants.call=86µs device.law=lognormal(sigma=0.021)"},
		{string(Default().YAML()), "grpc", "transport=grpc constants.share=0.57 device.law=lognormal(sigma=0.021) constants.step=1ms"},
		{folder, "grpc", "transport=grpc constants.share=0.57 constants.reduce=2GB/s constants.gather=0 constants.call=0s"},
		{folder, "ideal", "transport=ideal constants.share=1 constants.reduce=2GB/s constants.call=0s device.law=constant constants.overhead=0"},
		{folder, "mpi-tcp", "transport=mpi-tcp constants.share=0.97 constants.reduce=2GB/s constants.call=86µs"},
		{folder + "", "", "transport=mpi-tcp constants.share=0.97 constants.reduce=2GB/s constants.call=86µs"},
	} {
		var over []string
		if c.transport != "" {
			over = append(over, "transport="+c.transport)
		}
		got := mustRuns(t, c.text, over...)[0].Config
		for _, kv := range strings.Fields(c.want) {
			k, v, _ := strings.Cut(kv, "=")
			if got.Get(k) != v {
				t.Errorf("transport=%s: %s is %s, want %s", c.transport, k, got.Get(k), v)
			}
		}
	}
}

// Constants are set one by one or all together, in a recipe and beside it; single ones
// change what all of them are, and name the runs that they tell apart.
func TestConstantsInRecipes(t *testing.T) {
	t.Parallel()
	const all = "transport: ideal\nconstants: ideal(share=0.5,step=1ms)\nsteps: 1\n"
	for _, c := range []struct {
		text string
		over []string
		want string
	}{
		{all, nil, "ideal(share=0.5,step=1ms)"},
		{"constants.share: 0.7\n" + all, nil, "ideal(share=0.7,step=1ms)"},
		{all, []string{"constants.share=0.8"}, "ideal(share=0.8,step=1ms)"},
		{"constants: {share: 0.7, stream: 1Gbps}\nsteps: 1\n", []string{"transport=ideal"}, "ideal(share=0.7,stream=125MB/s)"},
		{"constants: {share: 0.7, stream: 1Gbps}\nsteps: 1\n", []string{"constants=ideal(call=1ms)"}, "ideal(call=1ms)"},
		{all, []string{"transport=gloo", "constants=ideal"}, "ideal"},
		{all, []string{"cluster=p2-xlarge"}, "ideal(colocate=true,overhead=0.0342)"},
	} {
		if got := mustRuns(t, c.text, c.over...)[0].Config.Get("constants"); got != c.want {
			t.Errorf("%q with %v: %s, want %s", c.text, c.over, got, c.want)
		}
	}
	runs := mustRuns(t, "steps: 1\n", "constants.share=0.5,1", "constants.apply=1GB/s")
	if len(runs) != 2 || runs[0].Name != "constants.share=0.5" || runs[1].Name != "constants.share=1" || runs[0].Config.Hash() == runs[1].Config.Hash() {
		t.Errorf("%+v", runs)
	}
	var c Config = Default()
	if key, err := c.SetPath("constants.step", "3ms"); err != nil || key != "constants" || c.Get("constants.step") != "3ms" {
		t.Errorf("by its path: key %q, %s, %v", key, c.Get("constants.step"), err)
	}
	if err := c.Set("network.share", "0.5"); err == nil || !strings.Contains(err.Error(), `did you mean "constants.share"`) {
		t.Errorf("a constant by another name: %v", err)
	}
	if err := c.Set("device.law", "pareto"); err != nil {
		t.Fatal(err)
	}
	if err := c.Set("device.law.sigma", "0.5"); err == nil || !strings.Contains(err.Error(), "has no sigma; set device.law=lognormal(sigma=0.5)") {
		t.Errorf("the sigma of another law: %v", err)
	}
}
