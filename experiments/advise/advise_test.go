package advise

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/hardware"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train/record"
)

func question(t *testing.T, model, keys string) *Question {
	t.Helper()
	if !strings.Contains(keys, "device=") && !strings.Contains(keys, "device.flops=") && !strings.Contains(keys, "cluster=") {
		keys += " device=v100"
	}
	q, err := Ask(append([]string{"timing=" + model}, strings.Fields(keys)...))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func options(t *testing.T, q *Question) []*Option {
	t.Helper()
	o, err := q.Options(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAsk(t *testing.T) {
	t.Parallel()
	q := question(t, "resnet50", "workers=8 network.per_host=2 network.bandwidth=10Gbps network.latency=30us device=v100 network.rack=2 batch=32 codec=bf16,raw,qsgd(bits=4) topology=ring,tree target=0.9")
	c := q.Base
	if c.Workers != 8 || c.NetworkPerHost != 2 || c.NetworkBandwidth != 1.25e9 || c.NetworkLatency != "30µs" || c.Device != "v100" || c.NetworkRack != 2 || c.Batch != 32 {
		t.Errorf("%+v", c)
	}
	if q.Nodes != 4 || q.Modes || fmt.Sprint(q.Codecs, q.Topologies) != "[raw bf16 qsgd(bits=4)] [ring tree]" || q.Target != 0.9 || c.Target.Asked() {
		t.Errorf("%d nodes, modes %v, %v, %v, target %v", q.Nodes, q.Modes, q.Codecs, q.Topologies, q.Target)
	}
	// What is said beside a transport counts, before it or behind.
	for keys, want := range map[string]float64{"workers=4": 0.63, "workers=4 transport=ideal": 1, "workers=4 constants.share=0.5 transport=mpi-tcp": 0.5, "transport=mpi-tcp workers=4": 0.97} {
		if c := question(t, "resnet50", keys).Base; c.Constants.Share != want {
			t.Errorf("%s: share %v, want %v", keys, c.Constants.Share, want)
		}
	}
	for keys, want := range map[string]string{"workers=4": "none", "workers=4 network.per_host=2": "unknown", "workers=4 node=nvlink-v100": "nvlink-v100", "workers=8 cluster=big-basin": "none"} {
		if c := question(t, "resnet50", keys).Base; c.Node != want {
			t.Errorf("%s: node %s, want %s", keys, c.Node, want)
		}
	}
	// Keys are those of a cluster and how well it knows them; others change them.
	mine := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(mine, []byte("keys: {device: v100, network.bandwidth: {value: 1e9, times: 1.01}, network.latency: 7us}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]string{
		"cluster=big-basin workers=16": "16 ideal 5e+09 15µs", "workers=16 network.bandwidth=10Gbps cluster=big-basin": "16 ideal 1.25e+09 15µs", "cluster=big-basin workers=16 transport=mpi-tcp": "16 mpi-tcp 5e+09 15µs",
		"cluster=" + mine + " workers=3": "3 unknown 1e+09 7µs",
	} {
		q := question(t, "resnet50", keys)
		c := q.Base
		if got := fmt.Sprintf("%d %s %v %s", c.Workers, c.Transport, c.NetworkBandwidth, c.NetworkLatency); got != want || q.Cluster == "" {
			t.Errorf("%s: %s; want %s", keys, got, want)
		}
	}
	links := filepath.Join(t.TempDir(), "links.yaml")
	if err := os.WriteFile(links, []byte("keys: {network.bandwidth: 1e9}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]string{
		"workers=4 cluster=big-basin cluster=minsky": "given twice", "workers=4 cluster=big-bassin": `did you mean "big-basin"`, "workers=4 cluster=./none.yaml": "none.yaml",
		"workers=4 transport=mpi":                  `no transport called "mpi"`,
		"network.bandwidth=10Gbps":                 "how many devices",
		"workers=4 network.bandwidth=10Gbps":       "say how fast a device trains: device=v100",
		"workers=4 cluster=" + links:               "say how fast a device trains",
		"workers=1 device=v100":                    "nobody to talk to",
		"workers=4 network.bandwith=1Gbps":         `did you mean "network.bandwidth"`,
		"workers=4 device=v1000":                   `did you mean "v100"`,
		"workers=4 network.bandwidth=fast":         "bits per second",
		"workers=4 network.bandwidth=1Gbps,10Gbps": "2 clusters at once",
		"workers=4 workers=5":                      "given twice",
		"4":                                        "is not key=value",
		"workers=many":                             "want a whole number",
		"workers=10 cluster=big-basin":             "want a multiple",
		"workers=5000 device=v100":                 "want at most 4096",
		"workers=4 model=resnet50":                 "is timing=resnet50",
		"workers=4 seed=3":                         "predictions do not follow it; there are timing, workers",
		"workers=4 codec=":                         `key "codec"`,
		"workers=4 device=v100 target=loss<=1.9":   "asked about an accuracy such as target=0.9, not loss<=1.9",
		"workers=4 nodes=3":                        `unknown key "nodes"`,
	} {
		if _, err := Ask(append([]string{"timing=resnet50"}, strings.Fields(keys)...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", keys, err, want)
		}
	}
	if _, err := Ask([]string{"timing=resnet5", "workers=4"}); err == nil || !strings.Contains(err.Error(), "resnet50") {
		t.Error(err)
	}
}

// A step cannot be shorter than its computing, nor than its bytes take at a NIC;
// a faster network never makes it longer.
func TestPricesAreBounded(t *testing.T) {
	t.Parallel()
	slow, fast := question(t, "resnet50", "workers=8 network.bandwidth=1Gbps device.flops=5T"), question(t, "resnet50", "workers=8 network.bandwidth=100Gbps device.flops=5T")
	compute := 6 * slow.Profile.ForwardMACs() * 64 / 5e12
	at := map[string]float64{}
	for _, o := range options(t, fast) {
		at[o.Config.Codec+o.How()] = o.Step
	}
	for _, o := range options(t, slow) {
		if o.Step < compute*(1-1e-9) {
			t.Errorf("%s, %s: %v is shorter than computing, %v", o.Config.Codec, o.How(), o.Step, compute)
		}
		if o.Step < o.Sent/slow.Base.NetworkBandwidth*0.999 {
			t.Errorf("%s, %s: %v for %v bytes", o.Config.Codec, o.How(), o.Step, o.Sent)
		}
		if f := at[o.Config.Codec+o.How()]; f > o.Step*1.0001 {
			t.Errorf("%s, %s: %v at 100 times the bandwidth, else %v", o.Config.Codec, o.How(), f, o.Step)
		}
	}
}

// The virtual cluster agrees, on a small network of every kind of option.
func TestPredictionsAreThoseOfTheVirtualCluster(t *testing.T) {
	t.Parallel()
	q := question(t, "mnistcnn", "workers=4 network.bandwidth=1Gbps network.latency=50us device.flops=1T")
	speeds, err := coding.StatedTable("stated", map[string]coding.Stated{"qsgd(bits=4)": {Encode: 1e9, Decode: 4e9}, "feedback(powersgd(rank=4))": {Encode: 1e9, Decode: 1e9}})
	if err != nil {
		t.Fatal(err)
	}
	q.Places.Rates = &coding.Record{Key: q.Base.DeviceCodec, Tables: []*hardware.CodecTable{speeds}}
	q.Codecs = []string{"raw", "bf16", "qsgd(bits=4)", "feedback(powersgd(rank=4))"}
	q.Topologies, q.Buckets, q.Servers = []string{"ring", "halving"}, []int{0, 1 << 20}, []int{1, 3}
	for _, o := range options(t, q) {
		if err := o.Simulate(context.Background()); err != nil {
			t.Fatal(err)
		}
		if e := o.Step/o.Simulated - 1; math.Abs(e) > Band {
			t.Errorf("%s, %s: predicted %v, simulated %v", o.Config.Codec, o.How(), o.Step, o.Simulated)
		}
	}
}

// Predictions follow the keys of the description, whatever makes steps long: nine in
// ten lie within the band.
func TestPredictionsFollowTheDescription(t *testing.T) {
	t.Parallel()
	asked, outside := 0, []string{}
	for _, cluster := range patience.Few(3, []string{
		"workers=8 device.slow=1x10", "workers=8 device.slow=lognormal(sigma=0.5)", "workers=8 constants.stream=100MB/s", "workers=8 constants.message=500us",
		"workers=4 constants.input=200", "workers=4 network.per_host=2 constants.input=200", "workers=8 device.codec=1GB/s constants.apply=2GB/s",
	}) {
		q := question(t, "resnet50", "device=v100 network.bandwidth=10Gbps "+cluster)
		q.Codecs, q.Topologies, q.Buckets, q.Servers = []string{"raw"}, []string{"ring", "halving"}, []int{0, 25 << 20}, []int{1, q.Nodes}
		if strings.Contains(cluster, "transport") { // gathers have limits of their own
			q.Codecs, q.Base.DeviceCodec = append(q.Codecs, "qsgd(bits=4)"), "free"
		}
		if doubts, err := q.Doubts(); err != nil || doubts != nil {
			t.Errorf("%s: %v, %v", cluster, doubts, err)
		}
		for _, o := range options(t, q) {
			if planOf(o.Config).First {
				continue
			}
			if err := o.Simulate(context.Background()); err != nil {
				t.Fatal(err)
			}
			asked++
			if e := o.Step/o.Simulated - 1; math.Abs(e) > Band {
				outside = append(outside, fmt.Sprintf("%s: %s: predicted %.4g, simulated %.4g", cluster, o.How(), o.Step, o.Simulated))
			}
		}
	}
	if len(outside) > asked/10 {
		t.Errorf("%d of %d are outside:\n%s", len(outside), asked, strings.Join(outside, "\n"))
	}
}

// What predictions do not follow, and steps that a few do not tell the mean of, are
// reasons for doubt.
func TestDoubts(t *testing.T) {
	t.Parallel()
	for cluster, want := range map[string]string{
		"constants.colocate=true":          "Not in the prediction: constants.colocate=true.",
		"constants.model=fifo":             "Not in the prediction: constants.model=fifo.",
		"device.law=pareto":                "varies by",
		"device.law=lognormal(sigma=0.03)": "",
	} {
		doubts, err := question(t, "resnet50", "workers=8 device=v100 "+cluster).Doubts()
		if got := strings.Join(doubts, " "); err != nil || !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q; %v", cluster, got, want, err)
		}
	}
}

// Speeds of codecs that the description states stay.
func TestStatedCodecSpeedsStay(t *testing.T) {
	t.Parallel()
	q := question(t, "resnet50", "workers=4 device=v100 device.codec=1GB/s constants.apply=2GB/s")
	for _, c := range q.configs("bf16") {
		if c.DeviceCodec != "1GB/s" || c.Constants.Apply != 2e9 {
			t.Errorf("%s, %d servers: codec %v, apply %v", c.Mode, c.Servers, c.DeviceCodec, c.Constants.Apply)
		}
	}
	for _, c := range question(t, "resnet50", "workers=4 device=v100 device.codec=1GB/s").configs("raw") {
		if c.DeviceCodec != "1GB/s" {
			t.Errorf("%s: codec %v", c.Mode, c.DeviceCodec)
		}
	}
}

func option(codec string, step float64) *Option {
	o := &Option{Step: step, Updates: math.NaN(), Simulated: math.NaN()}
	o.Config = config.Default()
	o.Config.Codec, o.Config.Mode, o.Config.Policy = codec, "reduce", "bsp"
	return o
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	const topk, sign = "feedback(topk(keep=0.01))", "feedback(sign)"
	local := option("raw", 1)
	local.Config.Mode = "localsgd(h=32)"
	believe := func(way string, updates, spread float64) Belief {
		return Belief{Way: way, Log: math.Log(updates), Spread: spread, Tasks: 3}
	}
	raw := believe("raw", 1, 0)
	for name, c := range map[string]struct {
		best     []*Option
		known    []Belief
		compress bool
		choice   string
		why      string
	}{
		"no difference":         {[]*Option{option("bf16", 1), option("raw", 1.05)}, []Belief{raw, believe("bf16", 1, 0.02)}, false, "raw", "bf16 saves 5 % with probability 0."},
		"raw is best":           {[]*Option{option("raw", 1), option("bf16", 1.5)}, []Belief{raw, believe("bf16", 1, 0.02)}, false, "raw", "no way that is known to learn saves time. The nearest is bf16, which takes 1.5× as long"},
		"nothing is known":      {[]*Option{option(topk, 1), option("raw", 30)}, []Belief{raw}, false, "raw", "no other way is left"},
		"it does not learn":     {[]*Option{option(topk, 1), option("raw", 3)}, []Belief{raw, believe(topk, 20, 0.3)}, false, "raw", "no way"},
		"it pays":               {[]*Option{option(topk, 1), option("raw", 3)}, []Belief{raw, believe(topk, 1.5, 0.3)}, true, topk, "2× sooner"},
		"that is in doubt":      {[]*Option{option(topk, 1), option("raw", 3)}, []Belief{raw, believe(topk, 1.5, 1.5)}, false, "raw", "with probability 0.6"},
		"the fastest is no way": {[]*Option{option(sign, 1), option("bf16", 2), option("raw", 3)}, []Belief{raw, believe("bf16", 1, 0.02)}, true, "bf16", "1.5× sooner than raw"},
		"the simpler of two":    {[]*Option{option(topk, 1.9), option("bf16", 2), option("raw", 4)}, []Belief{raw, believe("bf16", 1, 0.02), believe(topk, 1, 0.1)}, true, "bf16", "2× sooner"},
		"the better of two":     {[]*Option{option(topk, 1), option("bf16", 2), option("raw", 4)}, []Belief{raw, believe("bf16", 1, 0.02), believe(topk, 1, 0.1)}, true, topk, "4× sooner"},
		"local steps":           {[]*Option{local, option("raw", 4)}, []Belief{raw, believe("localsgd(h=32)", 1.5, 0.2)}, false, "localsgd(h=32)", "sooner"},
	} {
		known := map[string]Belief{}
		for _, b := range c.known {
			known[b.Way] = b
		}
		v := Decide(c.best, known)
		if v.Compress != c.compress || v.Choice.Way() != c.choice || !strings.Contains(v.Why, c.why) {
			t.Errorf("%s: %s, compress %v, %s", name, v.Choice.Way(), v.Compress, v.Why)
		}
		if v.Choice != v.Raw && (v.Probability < Sure || v.Least > v.Sooner || v.Sooner > v.Most) {
			t.Errorf("%s: probability %v, %v in %v to %v", name, v.Probability, v.Sooner, v.Least, v.Most)
		}
	}
}

// The answer says where steps lie by what is known of the transport, and what the codec
// may take. A way that is only just sure by its bands is left out when draws make it less.
func TestAnswer(t *testing.T) {
	t.Parallel()
	ask := func(cluster string, codec string, updates, spread float64, draws int) Verdict {
		q := question(t, "resnet50", "workers=8 network.latency=50us device=v100 "+cluster)
		q.Modes, q.Codecs = false, []string{"raw", codec}
		q.Topologies, q.Buckets, q.Servers = []string{"ring"}, []int{0, 4 << 20}, []int{8}
		known := map[string]Belief{"raw": {Way: "raw", Tasks: 1}, codec: {Way: codec, Log: math.Log(updates), Spread: spread, Tasks: 3}}
		v, err := q.Answer(t.Context(), Best(options(t, q)), known, draws)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	const randomk = "feedback(randomk(keep=0.01))"
	v := ask("network.bandwidth=1Gbps", "bf16", 1, 0.01, 32)
	if v.Choice.Way() != "bf16" || !v.Step.Covers(v.Choice.Time()) || !v.RawStep.Covers(v.Raw.Time()) || v.Step.Transport != hardware.Unknown || v.Step.Draws != 32 {
		t.Errorf("%s, %+v, %+v", v.Choice.Way(), v.Step, v.RawStep)
	}
	if known := ask("network.bandwidth=1Gbps transport=nccl-rdma", "bf16", 1, 0.01, 32); known.RawStep.High/known.RawStep.Low >= v.RawStep.High/v.RawStep.Low {
		t.Errorf("with a transport that is known %+v, without %+v", known.RawStep, v.RawStep)
	}
	if bands := ask("network.bandwidth=1Gbps", "bf16", 1, 0.01, 0); bands.Step != nil || bands.Choice.Way() != "bf16" || bands.Least < v.Least {
		t.Errorf("no draws: %+v, sooner from %v, with draws from %v", bands.Step, bands.Least, v.Least)
	}
	// Longer by Room the choice arrives when Raw does.
	if v.Choice.Step, v.Choice.Simulated = v.Choice.Time()+v.Room, math.NaN(); math.Abs(v.Against(v.Choice, map[string]Belief{})-1) > 1e-9 {
		t.Errorf("with %v s more it arrives at %v", v.Room, v.Against(v.Choice, map[string]Belief{}))
	}
	if raw := ask("network.bandwidth=100Gbps", "bf16", 1, 0.01, 8); raw.Choice != raw.Raw || raw.Room != 0 || raw.Step == nil || *raw.Step != *raw.RawStep {
		t.Errorf("without a codec: %+v", raw)
	}
	// By the bands alone it is sure, by what is known of this network it is not.
	const wide = "network.bandwidth=1Gbps"
	for ratio := 0.75 * ask(wide, randomk, 1, 0.01, 0).Sooner; ; ratio *= 1.05 {
		by := ask(wide, randomk, ratio, 0.01, 0)
		if by.Choice == by.Raw {
			t.Fatal("draws never changed the choice")
		}
		if drawn := ask(wide, randomk, ratio, 0.01, 32); drawn.Choice == drawn.Raw {
			if !strings.Contains(drawn.Why, randomk+" saves ") || !strings.Contains(drawn.Why, "with probability 0.7") || !strings.Contains(drawn.Why, "below the bar of 0.80") {
				t.Error(drawn.Why)
			}
			if drawn.Near == nil || drawn.Near.Way() != randomk || !(drawn.Saves > 0 && drawn.Saves < 1) || drawn.Chance >= Sure || drawn.Chance < 0.7 {
				t.Errorf("nearest %+v, saves %v with probability %v", drawn.Near, drawn.Saves, drawn.Chance)
			}
			break
		}
	}
}

// A run whose curve is made up.
func writeRun(t *testing.T, dir string, c config.Config, reached int) {
	t.Helper()
	folder := filepath.Join(dir, c.Hash())
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	metrics := ""
	if reached > 0 {
		metrics = `{"kind":"eval","eval":{"step":` + strconv.Itoa(reached) + `,"accuracy":0.95}}` + "\n"
	}
	for name, text := range map[string]string{
		"config.yaml": string(c.YAML()), "metrics.jsonl": metrics, "status.json": `{"schema":1,"state":"done","metrics":[{"name":"accuracy","unit":"share"}]}`, "result.json": `{}`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLearned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, r := range []struct {
		codec, optimizer, schedule, net string
		seed                            uint64
		reached                         int
	}{
		{"raw", "momentum", "constant(lr=0.1)", "sim", 1, 200}, {"raw", "momentum", "constant(lr=0.1)", "sim", 2, 220}, {"raw", "momentum", "constant(lr=0.1)", "sim", 3, 210},
		{"raw", "momentum", "constant(lr=1)", "sim", 1, 0},
		{"raw", "adam", "constant(lr=0.001)", "sim", 1, 105},
		{"feedback(topk(keep=0.01))", "momentum", "constant(lr=0.1)", "local", 1, 420},
		{"feedback(sign)", "momentum", "constant(lr=0.1)", "sim", 1, 0}, {"feedback(sign)", "momentum", "constant(lr=0.1)", "sim", 2, 250}, {"feedback(sign)", "momentum", "constant(lr=0.1)", "sim", 3, 0},
	} {
		c := config.Default()
		c.Mode, c.Target, c.Codec, c.Optimizer, c.Schedule, c.Net, c.Seed = "reduce", record.Goal{Value: 0.9}, r.codec, r.optimizer, r.schedule, r.net, r.seed
		writeRun(t, dir, c, r.reached)
	}
	runs, err := store.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs { // whoever fails never gets there
		if r.Config.Codec == "feedback(sign)" && r.Config.Seed != 2 {
			r.State, r.Result = store.Failed, nil
		}
	}
	evidence, err := Learned(runs, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"raw adam": 1, "raw momentum": 2, "feedback(topk(keep=0.01)) momentum": 4, "feedback(sign) momentum": math.Inf(1)}
	if len(evidence) != len(want) {
		t.Fatalf("%+v", evidence)
	}
	for _, e := range evidence {
		if w, ok := want[e.Codec+" "+e.Optimizer]; !ok || e.Updates != w {
			t.Errorf("%+v, want %v", e, w)
		}
	}
	// The best optimizer of a codec is a trial; how positions are written changes bytes,
	// not learning, and runs of one's own count beside what ships.
	q := question(t, "resnet50", "workers=8")
	own := Own(evidence)
	if len(own) != 2 || own[0].Way != "feedback(topk(keep=0.01))" || math.Abs(own[0].Log-math.Log(4)) > 1e-9 || own[1].Log != logNever || own[0].Workers != config.Default().Workers {
		t.Errorf("%+v", own)
	}
	o := []*Option{option("feedback(topk(keep=0.01,index=raw32))", 1), option("raw", 1), option("lgcodec", 1)}
	with, err := q.Know(o, evidence)
	if err != nil || o[1].Updates != 1 || !math.IsNaN(o[2].Updates) {
		t.Errorf("%+v %+v %+v: %v", o[0], o[1], o[2], err)
	}
	without, err := q.Know(o, nil)
	const way = "feedback(topk(keep=0.01))"
	if err != nil || with[way].Tasks != without[way].Tasks+1 || with[way].Log <= without[way].Log {
		t.Errorf("%+v, without own runs %+v: %v", with[way], without[way], err)
	}
	if e, err := Learned(runs, 0.99); err != nil || len(e) != 0 {
		t.Errorf("nobody reached 0.99, but %+v, %v", e, err)
	}
}

// The slowest of workers that differ, and of steps that vary.
func TestPasses(t *testing.T) {
	t.Parallel()
	at := func(cluster string) pass {
		p, err := newPricer(question(t, "resnet50", "transport=ideal workers=16 device.flops=10T "+cluster))
		if err != nil {
			t.Fatal(err)
		}
		return p.pass
	}
	base := at("device.law=constant")
	for cluster, want := range map[string]struct{ slowest, varies float64 }{ // in units of a pass without
		"device.slow=1x3+2x2":             {3, 0},
		"device.law=lognormal(sigma=0.1)": {math.Exp(0.1*1.766 - 0.005), 0.05}, // 1.766: the largest of 16 normal values
		"device.law=exponential":          {3.381, 0.375},                      // harmonic numbers: 1 + 1/2 + … + 1/16; from 1/9 on
		"constants.input=1e9":             {1, 0},
		"constants.overhead=0.5":          {1.5, 0},
		"device.law=uniform":              {1 + 0.5*15.0/17, 0.037},
		"device.slow=16x2 batch=32":       {1, 0},
	} {
		got := at(cluster)
		if math.Abs(got.slowest()/base.slowest()/want.slowest-1) > 0.02 || math.Abs(got.varies-want.varies) > 0.02 {
			t.Errorf("%s: %v, %v; want %+v", cluster, got.slowest()/base.slowest(), got.varies, want)
		}
	}
}

// Hundreds of workers around a ring are not simulated unasked: that would take minutes.
func TestManyFramesAreNotSimulated(t *testing.T) {
	t.Parallel()
	for cluster, quick := range map[string]bool{"workers=16 network.bandwidth=1Gbps network.latency=50us device=v100": true, "workers=260 network.bandwidth=1Gbps network.latency=50us device=v100": false} {
		q := question(t, "resnet50", cluster)
		q.Codecs, q.Modes, q.Topologies, q.Servers = []string{"raw"}, false, []string{"ring"}, nil
		options, err := q.Options(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range options {
			if planOf(o.Config).Bytes != 1<<20 {
				continue
			}
			if o.Quick() != quick {
				t.Errorf("%s: %s is quick: %v, %.3g frames", cluster, o.How(), o.Quick(), o.frames)
			}
			if quick {
				continue
			}
			if err := o.Simulate(t.Context()); err != nil || !math.IsNaN(o.Simulated) {
				t.Errorf("%s: simulated %v, %v", o.How(), o.Simulated, err)
			}
		}
	}
}

// The same question has the same answer, to the last bit.
func TestBeliefsDoNotDependOnAnOrder(t *testing.T) {
	t.Parallel()
	var first map[string]Belief
	for range 20 {
		q, err := Ask([]string{"timing=resnet50", "workers=16", "network.bandwidth=1Gbps", "network.latency=50us", "device=v100"})
		if err != nil {
			t.Fatal(err)
		}
		q.Modes, q.Topologies, q.Servers = false, []string{"ring"}, nil
		options, err := q.Options(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := q.beliefs(options, nil)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		}
		for way, b := range got {
			if b.Log != first[way].Log || b.Spread != first[way].Spread {
				t.Errorf("%s: %v ± %v, and %v ± %v", way, b.Log, b.Spread, first[way].Log, first[way].Spread)
			}
		}
	}
}

// Ways are ordered by their time to the accuracy, those of whose learning nothing is known
// last, and the probabilities of being first are shares of one.
func TestOrderAndFirst(t *testing.T) {
	t.Parallel()
	fast, bf16, raw, topk := option("eden(bits=1)", 1), option("bf16", 2), option("raw", 3), option("feedback(topk(keep=0.01))", 1.5)
	known := map[string]Belief{"raw": {Way: "raw", Tasks: 1}, "bf16": {Way: "bf16", Tasks: 3, Spread: 0.1}, "feedback(topk(keep=0.01))": {Way: "feedback(topk(keep=0.01))", Tasks: 3, Log: math.Log(1.4), Spread: 0.3}}
	all := []*Option{fast, topk, raw, bf16}
	Order(all, known)
	if all[0] != bf16 || all[1] != topk || all[2] != raw || all[3] != fast {
		t.Errorf("%s, %s, %s, %s", all[0].Way(), all[1].Way(), all[2].Way(), all[3].Way())
	}
	p := First(all, known)
	if p[fast] != 0 || math.Abs(p[bf16]+p[topk]+p[raw]-1) > 1e-9 || !(p[bf16] > p[topk] && p[topk] > p[raw]) {
		t.Errorf("%v", p)
	}
	if again := First(all, known); again[bf16] != p[bf16] {
		t.Errorf("%v, then %v", p[bf16], again[bf16])
	}
}
