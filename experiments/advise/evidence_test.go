package advise

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

// What ships can be read, is about ways that exist, and says where it is from.
func TestShipped(t *testing.T) {
	t.Parallel()
	all, err := Shipped()
	if err != nil || len(all) < 100 {
		t.Fatalf("%d trials: %v", len(all), err)
	}
	kinds := map[string]int{}
	for _, x := range all {
		kinds[x.Kind]++
		o := option(x.Way, 1)
		known := o.rank() < 4
		if !known {
			o.Config.Codec, o.Config.Mode = "raw", x.Way
			if x.Way == "asp" || x.Way == "backup" {
				o.Config.Mode, o.Config.Policy = "server", x.Way
			}
			known = o.Way() == x.Way
		}
		if !known || x.Source == "" || x.Task == "" || x.Workers < 2 || x.Log < 0 || x.Log > logNever || x.Spread <= 0 {
			t.Errorf("%+v", x)
		}
		if strings.Contains(x.Source, "recalled") {
			t.Errorf("%s of %s: a figure that was not read at its source is no evidence", x.Way, x.Source)
		}
	}
	if kinds["images"] == 0 || kinds["language"] == 0 {
		t.Errorf("%v", kinds)
	}
	for _, bad := range [][]string{
		{"t", "images", "8", "sgd", "raw", "error", "0", "1", "0.1", "s"}, {"t", "images", "8", "sgd", "raw", "err", "1", "1", "0.1", "s"},
		{"t", "images", "x", "sgd", "raw", "error", "1", "1", "0.1", "s"},
	} {
		if _, err := trial(bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// An accuracy after as many updates becomes updates; what was better counts as equal.
func TestTrialsAreUpdates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"error,0.2,0.1": math.Log(4), "error,0.05,0.1": 0, "samples,1.5,1": math.Log(1.5), "samples,never,1": logNever, "loss,2.2,2": 10 * math.Log(1.1),
	} {
		f := strings.Split(text, ",")
		x, err := trial([]string{"t", "images", "8", "sgd", "raw", f[0], f[1], f[2], "0.1", "s"})
		if err != nil || math.Abs(x.Log-want) > 1e-9 {
			t.Errorf("%s: %v, want %v; %v", text, x.Log, want, err)
		}
	}
}

// Tasks count alike, one task says little, and what is far is wider and said so.
func TestBelieve(t *testing.T) {
	t.Parallel()
	at := func(task string, log float64) Trial {
		return Trial{Task: task, Kind: "images", Workers: 8, Way: "x", Log: log, Spread: 0.1, Source: "s"}
	}
	one := believe([]Trial{at("a", 0.2)}, "x", "images", 8)
	if one.Tasks != 1 || one.Log != 0.2 || one.Spread < prior || len(one.Far) != 1 {
		t.Errorf("%+v", one)
	}
	many := []Trial{at("a", 0.2), at("a", 0.4), at("b", 0.3), at("c", 0.3), at("d", 0.3)}
	b := believe(many, "x", "images", 8)
	if b.Tasks != 4 || math.Abs(b.Log-0.3) > 1e-9 || b.Spread >= one.Spread || b.Far != nil {
		t.Errorf("%+v", b)
	}
	if far := believe(many, "x", "images", 256); far.Spread <= b.Spread || len(far.Far) != 1 || !strings.Contains(far.Far[0], "256 workers") {
		t.Errorf("%+v", far)
	}
	if split := believe(append(many, at("e", 3)), "x", "images", 8); split.Spread < 2*b.Spread {
		t.Errorf("a task where it failed: %+v", split)
	}
	if none := believe(many, "x", "language", 8); none.Tasks != 0 {
		t.Errorf("of another kind: %+v", none)
	}
}

// The table of docs/advice.md: what is right was written down before the answers of all
// but two of its rows were looked at.
func TestTenSituations(t *testing.T) {
	if !patience.Long {
		t.Skip("prices ten clusters")
	}
	page, err := os.ReadFile("../../docs/advice.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "<!-- situations")
	var asked, agreed atomic.Int32
	t.Cleanup(func() {
		if asked.Load() != 10 || agreed.Load() < 8 {
			t.Errorf("%d situations are in the table, and %d answers are those written beforehand", asked.Load(), agreed.Load())
		}
	})
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !strings.Contains(cells[2], "workers=") {
			continue
		}
		asked.Add(1)
		model, cluster := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		right := strings.Split(strings.TrimSpace(cells[3]), ", ")
		t.Run(model+" "+cluster, func(t *testing.T) {
			t.Parallel()
			v := answer(t, model, cluster)
			way := v.Choice.Way()
			if slices.ContainsFunc(right, func(r string) bool { return way == r || r == "localsgd" && strings.HasPrefix(way, r) }) {
				agreed.Add(1)
			}
			if says := strings.TrimSpace(cells[5]); way != says {
				t.Errorf("advised is %s, the page says %s; %s", way, says, v.Why)
			}
			if v.Choice != v.Raw && (v.Probability < Sure || len(v.Belief.Sources) == 0) {
				t.Errorf("%s with probability %v, on %v", v.Choice.Way(), v.Probability, v.Belief.Sources)
			}
		})
	}
}

func answer(t *testing.T, model, cluster string) Verdict {
	t.Helper()
	q := question(t, model, cluster)
	o := options(t, q)
	known, err := q.Know(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Decide(Best(o), known)
}

// Beside rates of a device itself no codec is measured on this machine: what the table
// lacks is left out. On AlexNet GRACE's would take longer than there is room for.
func TestRatesOfADevice(t *testing.T) {
	t.Parallel()
	const cluster = "workers=8 network.bandwidth=10Gbps network.latency=50us device=p100 batch=128"
	q := question(t, "alexnet", cluster+" device.codec=v100-grace")
	q.Modes = false
	q.Topologies, q.Buckets, q.Servers = []string{"ring"}, []int{0, 4 << 20}, []int{8}
	found := options(t, q)
	for _, o := range found {
		if way := o.Way(); way == "eden(bits=1)" || way == "bf16" {
			t.Errorf("%s is priced", o.Config.Codec)
		}
	}
	if left := strings.Join(q.LeftOut, "\n"); !strings.Contains(left, "eden(bits=1): device.codec=v100-grace does not say how long it takes") || !strings.Contains(q.CodecTime, "v100-grace") || strings.Contains(q.CodecTime, "core") {
		t.Errorf("left out: %s; billed: %s", left, q.CodecTime)
	}
	// A table of one's own need not have raw, which servers copy and add.
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := "name: mine\nprocessor: p\ndate: d\ncommand: c\nrates: [{codec: bf16, block: any, ranks: 0, elements: [1000], encode: [0.1], decode: [0.1]}]\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	mine := question(t, "lenet", "workers=4 device=v100 device.codec="+file)
	mine.Places.Codecs = coding.NewMeter("")
	mine.Modes, mine.Codecs, mine.Topologies, mine.Buckets, mine.Servers = false, []string{"raw", "bf16", "eden(bits=1)"}, q.Topologies, q.Buckets, []int{1, 4}
	if o := options(t, mine); len(o) == 0 || len(mine.LeftOut) != 1 || !strings.HasPrefix(mine.LeftOut[0], "eden") {
		t.Errorf("%d options, left out %v", len(o), mine.LeftOut)
	}
	ours := question(t, "alexnet", cluster)
	ours.Codecs = []string{"raw", "feedback(topk(keep=0.01,index=raw32))"}
	ours.Modes, ours.Topologies, ours.Buckets, ours.Servers = false, q.Topologies, q.Buckets, q.Servers
	o := options(t, ours)
	known, err := ours.Know(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := ours.Answer(t.Context(), Best(o), known, 8)
	if err != nil {
		t.Fatal(err)
	}
	slower, err := ours.Slower(v.Choice, Framework)
	if err != nil || v.Choice == v.Raw || slower <= v.Room || v.Room <= 0 {
		t.Errorf("%s has room for %v s, GRACE's would take %v more: %v", v.Choice.Way(), v.Room, slower, err)
	}
	if same, err := q.Slower(found[0], Framework); err != nil || same != 0 {
		t.Errorf("at the same rates %v s more: %v", same, err)
	}
}

// What does not fit a cluster is left out with its reason, and nothing else.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	q := question(t, "lenet", "workers=512 network.per_host=8 network.bandwidth=10Gbps device=v100")
	q.Topologies, q.Buckets, q.Servers = []string{"ring"}, []int{0}, []int{1}
	o := options(t, q)
	if len(q.LeftOut) != 1 || !strings.HasPrefix(q.LeftOut[0], "intsum(bits=8): ") {
		t.Errorf("left out %q", q.LeftOut)
	}
	for _, codec := range Codecs {
		codec = config.Canonical("codec", codec)
		if has := slices.ContainsFunc(o, func(o *Option) bool { return o.Config.Codec == codec }); has == strings.HasPrefix(codec, "intsum") {
			t.Errorf("%s: among the options: %v", codec, has)
		}
	}
	if _, err := q.Options(context.Background()); err != nil || len(q.LeftOut) != 1 {
		t.Errorf("asked twice: %q, %v", q.LeftOut, err)
	}
}

// What is left out says what would make it eligible.
func TestLeftOutSaysWhatIsEligible(t *testing.T) {
	t.Parallel()
	q := question(t, "lenet", "workers=4 network.bandwidth=1Gbps device=v100 device.codec=free")
	q.Modes, q.Topologies, q.Buckets, q.Servers, q.Codecs = false, []string{"ring"}, []int{0}, []int{1}, []string{"raw", "feedback(topk(keep=0.01))", "threshold(tau=0.1)"}
	options(t, q)
	left := strings.Join(q.LeftOut, "\n")
	if !strings.Contains(left, "feedback(topk(keep=0.01)): how much it sends depends on the data; codec=feedback(topk(keep=0.01,index=raw32)) sends the same") {
		t.Errorf("left out: %s", left)
	}
	q = question(t, "lenet", "workers=4 network.bandwidth=1Gbps device=v100 device.codec=v100-grace")
	q.Modes, q.Topologies, q.Buckets, q.Servers, q.Codecs = false, []string{"ring"}, []int{0}, []int{1}, []string{"raw", "eden(bits=1)"}
	options(t, q)
	if left := strings.Join(q.LeftOut, "\n"); !strings.Contains(left, "gradlab bench codecs --out FILE.yaml") {
		t.Errorf("left out: %s", left)
	}
}
