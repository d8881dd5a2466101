package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/hardware"
)

// samples gives a key a value that is right and not its default, and values
// that are wrong.
func samples(k Key) (right string, wrong []string) {
	if one := k.tag.Get("oneof"); one != "" {
		all := strings.Split(one, ",")
		right = all[0]
		if right == k.Default {
			right = all[1]
		}
		return right, []string{"nothing-of-these", ""}
	}
	if k.Name == constantsKey {
		return "ideal(share=0.5,reduce=1.5GB/s,step=1ms)", []string{"no_such_thing", "", "ideal(", "17", "ideal(no_such_option=1)", "ideal(share=2)", "ideal(step=-1s)", "ideal(reduce=fast)"}
	}
	if k.Name == "metric" {
		return "mae", []string{"", "a b", "mae<=1"}
	}
	if k.Name == "target" {
		return "mae<=0.25", []string{"x", "", "NaN", "loss>=1", "Inf", "1,5", "accuracy>=2", "mae<=", "<=1"}
	}
	if k.Name == "init" {
		return "first.safetensors", []string{""}
	}
	if k.Name == "device.codec" {
		return "40xmeasured", []string{"fast", "", "-1", "NaN", "1Gbaud", "0xmeasured", "-2xhere", "2x", "2xfree", "measure", "1e400"}
	}
	if k.tag.Get("spec") != "" {
		right = map[string]string{
			"model": "mlp(hidden=[3])", "data": "synthetic(dim=16)", "optimizer": "adam", "schedule": "cosine(lr=0.25)", "batch_schedule": "growth(factor=3,at=[1])", "side_schedule": "stages(sides=[96],at=[])",
			"codec": "feedback(topk(keep=0.5))", "down_codec": "bf16", "mode": "reduce", "policy": "asp",
			"corrector": "alpha_tau", "topology": "direct", "graph": "complete", "outer": "nesterov", "placement": "round_robin", "timing": "mlp(hidden=[3])",
			"observe": "[gap,trace]", "overlap": "buckets(bytes=1000)", "elastic": "on(min_workers=2)", "ema": "on(decay=0.25)", "cluster": "piz-daint", "transport": "grpc", "node": "pcie-tree", "device": "p100",
			"net": "local", "device.law": "gamma(cv=0.25)", "device.slow": "1x10+3x2.5", "faults": "kill(rank=w1,at=2s)+loss(share=0.1)+leave(rank=w2,before=40)",
		}[k.Name]
		return right, []string{"no_such_thing", "", "raw(", "17", "raw(no_such_option=1)"}
	}
	switch k.Type {
	case "int":
		right, wrong = "3", []string{"x", "", "1.5", "true", "-2", "1e30", "[1,2]"}
	case "uint64":
		right, wrong = "18446744073709551615", []string{"x", "", "1.5", "true", "-1", "18446744073709551616"}
	case "float64":
		if right = "0.25"; k.tag.Get("min") == "1" {
			right = "2.25"
		}
		wrong = []string{"x", "", "true", "NaN", "-3", "Inf", "1,5"}
	case "bool":
		right, wrong = strconv.FormatBool(k.Default == "false"), []string{"maybe", "", "2", "1.5"}
	case "bandwidth":
		right, wrong = "2.5e+06", []string{"fast", "", "-1", "NaN", "1Gbaud", "1e400", "bps"}
		if k.tag.Get("min") == "1" {
			wrong = append(wrong, "0")
		}
		if isPart(k.Name) {
			right = "2.5MB/s"
		}
	case "flops":
		right, wrong = "2.5e+06", []string{"fast", "", "-1", "0", "NaN", "1Gbps"}
	case "duration":
		right, wrong = "1.5ms", []string{"soon", "", "5", "-1s", "true"}
	}
	return right, wrong
}

// everyKey lists the keys, and each of the constants.
func everyKey() []Key { return append(Keys(), constantKeys()...) }

// valueOfKey is the field of a configuration that a key, or one of the constants, sets.
func valueOfKey(c *Config, k Key) reflect.Value {
	if isPart(k.Name) {
		return reflect.ValueOf(&c.Constants).Elem().Field(k.field)
	}
	return reflect.ValueOf(c).Elem().Field(k.field)
}

// Every key keeps a value through Set, Get and YAML, and refuses what is of the
// wrong type or out of range, naming itself and what is allowed.
func TestF25EveryKey(t *testing.T) {
	t.Parallel()
	for _, k := range everyKey() {
		t.Run(k.Name, func(t *testing.T) {
			if k.Doc == "" {
				t.Error("the key is not documented")
			}
			c := Default()
			if err := c.Set(k.Name, k.Default); err != nil {
				t.Fatalf("the default is refused: %v", err)
			}
			if c != Default() {
				t.Errorf("setting the default to %q changes it to %q", k.Default, c.Get(k.Name))
			}
			right, wrong := samples(k)
			if right == "" {
				t.Fatalf("type %s has no samples here", k.Type)
			}
			if err := c.Set(strings.ToUpper(k.Name), right); err != nil {
				t.Fatal(err)
			}
			if got := c.Get(k.Name); got != right || got == k.Default {
				t.Errorf("Get gives %q after Set to %q", got, right)
			}
			r, err := ParseRecipe("test", "test.yaml", c.YAML())
			if err != nil {
				t.Fatal(err)
			}
			back := Default()
			for _, a := range r.keys {
				if err := back.Set(a.key, a.values[0]); err != nil {
					t.Fatal(err)
				}
			}
			if back != c {
				t.Errorf("YAML gives %q back for %q", back.Get(k.Name), right)
			}
			if observed := k.Effect() == Observed; (c.Hash() == Default().Hash()) != observed {
				t.Errorf("the key is %s, and the hash depends on it: %v", k.Effect(), !observed)
			}
			if within := k.Effect() == Environment; (c.Within() == Default().Within()) == within {
				t.Errorf("the key is %s, and the environment depends on it: %v", k.Effect(), !within)
			}
			if !slices.Contains([]Effect{Observed, Environment, Trajectory}, k.Effect()) {
				t.Errorf("effect %q", k.Effect())
			}
			for _, text := range wrong {
				c := Default()
				err := c.Set(k.Name, text)
				if err == nil {
					t.Errorf("%q is accepted", text)
					continue
				}
				m := err.Error()
				if !strings.Contains(m, fmt.Sprintf("key %q", k.Name)) || !allowed(m) {
					t.Errorf("%q: message %q does not name the key and what is allowed", text, m)
				}
			}
		})
	}
}

// allowed tells whether a message says what to write instead.
func allowed(message string) bool {
	for _, s := range []string{"want", "there are", "option", "must", "expected", "missing", "name", "takes"} {
		if strings.Contains(message, s) {
			return true
		}
	}
	return false
}

// What is wrong in a file or on the command line is told with its place, its
// key and the nearest right one, and all of it at once.
func TestF25RecipeErrors(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, text string
		want       []string // each in the message
	}{
		{"unknown key", "model: mlp\nbach: 3\n", []string{`test.yaml:2: unknown key "bach"; did you mean "batch"?`}},
		{"unknown nested key", "device:\n  flops: 1e9\n  lwa: 1\n", []string{`test.yaml:3: unknown key "device.lwa"; did you mean "device.law"?`}},
		{"wrong type", "workers: many\n", []string{`test.yaml:1: key "workers": want a whole number, not "many"`}},
		{"mapping for a value", "codec: {topk: 3}\n", []string{`test.yaml:1: unknown key "codec.topk"`}},
		{"out of range", "\n\ntarget: accuracy>=1.5\n", []string{`test.yaml:3: key "target": no accuracy is above 1: want at most 1, not 1.5`}},
		{"bad spec", "codec: [raw, topq]\n", []string{`test.yaml:1: key "codec"`, `did you mean "topk"?`}},
		{"bad spec option", "codec: topk(keap=0.1)\n", []string{`test.yaml:1: key "codec"`, `did you mean "keep"?`}},
		{"bad net", "net: cloud\n", []string{`test.yaml:1: key "net"`, "local", "grpc", "sim"}},
		{"no value", "codec:\n", []string{`test.yaml:1: key "codec" has no value`}},
		{"empty list", "codec: []\n", []string{`test.yaml:1: key "codec" has an empty list`}},
		{"list of lists", "seed: [[1, 2]]\n", []string{`test.yaml:1: key "seed"`}},
		{"twice", "seed: 1\nbatch: 4\nseed: 2\n", []string{`test.yaml:3: key "seed" is given twice, first in line 1`}},
		{"twice, nested and dotted", "device.flops: 1e9\ndevice: {flops: 1e9}\n", []string{`test.yaml:2: key "device.flops" is given twice`}},
		{"quick twice", "quick: {seed: 1}\nquick: {seed: 2}\n", []string{`test.yaml:2: key "quick" is given twice`}},
		{"in quick", "quick:\n  epoch: 2\n", []string{`test.yaml:2: unknown key "epoch"; did you mean "epochs"?`}},
		{"in a variant", "runs:\n  - {name: a}\n  - {name: b, batch: 0}\n", []string{`test.yaml:3: key "batch": want at least 1, not 0`}},
		{"variant without a name", "runs:\n  - {batch: 2}\n", []string{"test.yaml:2: a variant needs a name"}},
		{"variant of no kind", "runs:\n  - fast\n", []string{"test.yaml:2:"}},
		{"runs of no kind", "runs: 3\n", []string{`test.yaml:1: key "runs": want a list`}},
		{"variant twice", "runs:\n  - {name: a, batch: 2}\n  - {name: a, batch: 4}\n", []string{`test.yaml:3: there are two variants named "a"`}},
		{"no mapping", "- a\n- b\n", []string{"test.yaml:1: want keys and values at the top"}},
		{"no YAML", "model: [mlp\n", []string{"test.yaml"}},
		{"all at once", "bach: 1\nworkers: x\nquick: {sead: 1}\nruns:\n  - {name: a, target: -1best}\n",
			[]string{`test.yaml:1: unknown key "bach"`, `test.yaml:2: key "workers"`, `test.yaml:3: unknown key "sead"`, `test.yaml:5: key "target"`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseRecipe("test", "test.yaml", []byte(c.text))
			wantAll(t, err, c.want)
		})
	}
}

func TestF25OverrideErrors(t *testing.T) {
	t.Parallel()
	r, err := ParseRecipe("test", "test.yaml", []byte("model: mlp\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		overrides []string
		want      []string
	}{
		{"no value", []string{"codec"}, []string{`command line: "codec" is not key=value`}},
		{"all at once", []string{"bach=1", "workers=x", "codec=raw,topq", "steps="},
			[]string{`command line: unknown key "bach"; did you mean "batch"?`, `command line: key "workers"`, `command line: key "codec"`, `command line: key "steps"`}},
		{"nothing to do", []string{"steps=0", "epochs=0"}, []string{"nothing to do"}},
		{"no dropout in it", []string{"model=logistic", "dropout=0.5"}, []string{`key "dropout"`}},
		{"too many runs", []string{"seed=" + numbers(200), "batch=" + numbers(200)}, []string{"more than 10000 runs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.Runs(c.overrides, false)
			wantAll(t, err, c.want)
		})
	}
}

func numbers(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint(i+1))
	}
	return strings.Join(out, ",")
}

func wantAll(t *testing.T, err error, want []string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the message does not say %q:\n%v", w, err)
		}
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, text, want string }{
		{"network.bandwidth", "1Gbps", "1.25e+08"},
		{"network.bandwidth", "10 Gb/s", "1.25e+09"},
		{"network.bandwidth", "100Mbit/s", "1.25e+07"},
		{"network.bandwidth", "125MB/s", "1.25e+08"},
		{"network.bandwidth", "1000", "1000"},
		{"device.flops", "100G", "1e+11"},
		{"device.flops", "2 TFLOPS", "2e+12"},
		{"device.flops", "1e9", "1e+09"},
		{"network.latency", "50us", "50µs"},
		{"network.latency", "1500us", "1.5ms"},
	} {
		c1 := Default()
		if err := c1.Set(c.key, c.text); err != nil {
			t.Error(err)
		} else if got := c1.Get(c.key); got != c.want {
			t.Errorf("%s=%s is %s, want %s", c.key, c.text, got, c.want)
		}
	}
}

func TestNestedKeysAreDottedKeys(t *testing.T) {
	t.Parallel()
	nested := mustRuns(t, "device: {flops: 2e9, law: lognormal(sigma=0.5)}\nnetwork:\n  bandwidth: 1Gbps\n  latency: 2ms\nconstants:\n  model: fifo\n")
	dotted := mustRuns(t, "device.flops: 2e9\ndevice.law: lognormal(sigma=0.5)\nnetwork.bandwidth: 1Gbps\nnetwork.latency: 2ms\nconstants.model: fifo\n")
	typed := mustRuns(t, "", "device.flops=2e9", "device.law=lognormal(sigma=0.5)", "network.bandwidth=1Gbps", "network.latency=2ms", "constants.model=fifo")
	if !sameAs(nested[0], dotted[0]) || !sameAs(nested[0], typed[0]) {
		t.Errorf("they differ:\n%+v\n%+v\n%+v", nested[0], dotted[0], typed[0])
	}
	if nested[0].Config.DeviceFLOPS != 2e9 || nested[0].Config.Constants.Model != "fifo" {
		t.Errorf("%+v", nested[0].Config)
	}
}

// A list makes a run for each of its values; commas in brackets belong to the
// values.
func TestLists(t *testing.T) {
	t.Parallel()
	runs := mustRuns(t, "codec: [raw, bf16]\nsteps: 5\n", "codec=feedback(topk(keep=0.1)),bysize(raw,raw),raw", "seed=1,2", "model=mlp(hidden=[3,4])")
	if len(runs) != 6 {
		t.Fatalf("%d runs, want 6", len(runs))
	}
	names := map[string]bool{}
	for _, r := range runs {
		names[r.Name] = true
		if r.Config.Model != "mlp(hidden=[3,4])" {
			t.Errorf("model %q", r.Config.Model)
		}
	}
	if len(names) != 6 || runs[0].Config.Codec != "feedback(topk(keep=0.1))" || runs[0].Config.Seed != 1 || runs[1].Config.Seed != 2 {
		t.Errorf("%v, first %+v", names, runs[0])
	}
	if one := mustRuns(t, "codec: [raw, bf16]\n", "codec=fp16"); len(one) != 1 || one[0].Config.Codec != "fp16" {
		t.Errorf("one value leaves %d runs", len(one))
	}
}

// The later of steps and epochs counts.
func TestStepsAndEpochs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		over   []string
		steps  int
		epochs float64
	}{
		{"", nil, 0, 1},
		{"steps: 7", nil, 7, 0},
		{"epochs: 3", nil, 0, 3},
		{"epochs: 3", []string{"steps=9"}, 9, 0},
		{"steps: 7", []string{"epochs=2"}, 0, 2},
		{"epochs: 3", []string{"steps=0"}, 0, 3},
		{"steps: 0\nepochs: 2", nil, 0, 2},
		{"epochs: 2\nsteps: 0", nil, 0, 2},
	} {
		got := mustRuns(t, c.text, c.over...)[0].Config
		if got.Steps != c.steps || got.Epochs != c.epochs {
			t.Errorf("%q %v: steps %d, epochs %v", c.text, c.over, got.Steps, got.Epochs)
		}
	}
}

// Text that means the same gives the same hash.
func TestHashIsOfTheMeaning(t *testing.T) {
	t.Parallel()
	a := mustRuns(t, "codec: feedback( topk( keep = 0.010 ) )\nsteps: 3\nnetwork.latency: 50us")[0].Config
	b := mustRuns(t, "codec: feedback(topk(0.01))\nsteps: 3\nnetwork.latency: 0.05ms")[0].Config
	if a.Hash() != b.Hash() || a.Codec != b.Codec {
		t.Errorf("%q and %q", a.Codec, b.Codec)
	}
}

// Every cluster's keys are keys of a configuration, and keys given beside a
// cluster win, wherever they stand.
func TestClusters(t *testing.T) {
	t.Parallel()
	for _, name := range hardware.Names(hardware.Cluster) {
		c := Default()
		if err := c.Set("cluster", name); err != nil {
			t.Error(err)
		}
		if c.NetworkBandwidth == Default().NetworkBandwidth {
			t.Errorf("cluster %s sets no bandwidth", name)
		}
	}
	r, err := ParseRecipe("test", "test.yaml", []byte("about: a test\nsteps: 1\ntiming: inception3\n"))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := r.Runs([]string{"network.bandwidth=1e6", "cluster=piz-daint,p2-xlarge"}, false)
	if err != nil || len(runs) != 2 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	for _, run := range runs {
		if run.Config.NetworkBandwidth != 1e6 || run.Config.Device == "none" {
			t.Errorf("%s: bandwidth %g, device %s", run.Name, run.Config.NetworkBandwidth, run.Config.Device)
		}
	}
}

// What YAML writes is read back, as a recipe and as a record, whatever was given.
func TestYAMLReadsBack(t *testing.T) {
	t.Parallel()
	var all []Config
	for _, k := range everyKey() {
		right, _ := samples(k)
		values := []string{right}
		if k.Type == "bandwidth" {
			values = append(values, "1B/s", "10bps", "999.5B/s", "1000", "1Gbps")
		}
		for _, v := range values {
			c := Default()
			if err := c.Set(k.Name, v); err != nil {
				t.Errorf("%s=%s: %v", k.Name, v, err)
			}
			all = append(all, c)
		}
	}
	for _, c := range all {
		text := c.YAML()
		back, unknown, err := ParseConfig(text)
		if err != nil || len(unknown) > 0 || back != c {
			t.Errorf("%v: %v\n%s", err, unknown, text)
		}
		recipe, err := ParseRecipe("test", "config.yaml", text)
		var runs []Run
		if err == nil {
			runs, err = recipe.Runs(nil, false)
		}
		switch _, bad := c.Resolve(); {
		case err != nil && bad == nil:
			t.Errorf("%v\n%s", err, text)
		case err == nil && runs[0].Config != c:
			t.Errorf("another configuration:\n%s", text)
		}
	}
}
