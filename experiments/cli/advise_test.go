package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/report"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/internal/patience"
)

// What the user says of the cluster comes back: in the command that shows the best,
// and where predictions do not follow it.
func TestAdviseSaysWhatItFollows(t *testing.T) {
	t.Parallel()
	patience.Alone(t)
	dir := t.TempDir()
	speeds := filepath.Join(dir, "speeds.yaml")
	if err := os.WriteFile(speeds, []byte("bf16: {encode: .nan}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const band = "lie within 10 %"
	for _, c := range []struct {
		key      string
		flags    []string
		code     int
		want, no string
	}{
		{"device.law=lognormal(sigma=0.03)", []string{"device.codec=free"}, ExitOK, band, "Not in the prediction"},
		{"constants.colocate=true", []string{"device.codec=free"}, ExitOK, "Not in the prediction: constants.colocate=true.", band},
		{"constants.colocate=true", []string{"device.codec=free", "--json"}, ExitOK, `"band": null`, "0.1,"},
		{"device.law=pareto", []string{"device.codec=free"}, ExitOK, "from step to step", band},
		{"device.codec=1GB/s", nil, ExitOK, " device.codec=1GB/s", "measured on a core"},
		{"device.codec=0", nil, ExitOK, "codecs were not billed (device.codec=free)", "measured on a core"},
		{"device.law=constant", []string{"--speeds", speeds}, ExitConfig, "bf16: encode is NaN", band},
	} {
		args := append([]string{"advise", "timing=mnistcnn", "workers=4", "device.flops=1T", c.key, "codec=bf16", "topology=ring", "--simulate", "0", "--out", dir}, c.flags...)
		var out, err bytes.Buffer
		code := Main(args, &out, &err)
		if all := out.String() + err.String(); code != c.code || !strings.Contains(all, c.want) || strings.Contains(all, c.no) {
			t.Errorf("%s %v: exit %d, want %d, %q and no %q in\n%s", c.key, c.flags, code, c.code, c.want, c.no, all)
		}
	}
}

// The answer comes with its probability, its interval and what it rests on.
func TestAdviceCarriesItsEvidence(t *testing.T) {
	t.Parallel()
	patience.Alone(t)
	var out, err bytes.Buffer
	code := Main([]string{"advise", "timing=vgg16", "workers=8", "network.bandwidth=10Gbps", "device=v100", "batch=32", "topology=ring", "codec=bf16,lgcodec",
		"device.codec=free", "--simulate", "0", "--json", "--out", t.TempDir()}, &out, &err)
	if code == ExitOK {
		t.Error("a codec that does not exist is considered")
	}
	out.Reset()
	code = Main([]string{"advise", "timing=vgg16", "workers=8", "network.bandwidth=10Gbps", "device=v100", "batch=32", "topology=ring", "codec=bf16",
		"device.codec=free", "--simulate", "0", "--json", "--out", t.TempDir()}, &out, &err)
	var answer struct {
		Best struct {
			Codec       string
			Probability float64
			Evidence    []string
			Sooner      float64
			Interval    [2]float64 `json:"sooner_interval"`
		}
	}
	if bad := json.Unmarshal(out.Bytes(), &answer); code != ExitOK || bad != nil {
		t.Fatalf("exit %d, %v: %s", code, bad, &err)
	}
	b := answer.Best
	if b.Codec != "bf16" || b.Probability < 0.8 || b.Probability > 1 || len(b.Evidence) < 2 || !(b.Interval[0] < b.Sooner && b.Sooner < b.Interval[1]) {
		t.Errorf("%+v", b)
	}
}

// The three ways with a codec that come first are simulated, and the best without one,
// which the others are compared with.
func TestAdviceSimulatesThreeAndTheBestWithoutACodec(t *testing.T) {
	t.Parallel()
	patience.Alone(t)
	var out, err bytes.Buffer
	code := Main([]string{"advise", "timing=lenet", "workers=4", "network.bandwidth=1Gbps", "network.latency=50us", "device.flops=1T", "device.codec=free", "--json", "--out", t.TempDir()}, &out, &err)
	type way struct {
		Way, Codec string
		Simulated  *float64 `json:"simulated_seconds"`
	}
	var answer struct {
		Options []way
		Raw     way `json:"best_raw"`
	}
	if bad := json.Unmarshal(out.Bytes(), &answer); code != ExitOK || bad != nil {
		t.Fatalf("exit %d, %v: %s", code, bad, &err)
	}
	n := 0
	for _, o := range answer.Options {
		if o.Codec != "raw" && o.Simulated != nil {
			n++
		}
	}
	if n != 3 || answer.Raw.Simulated == nil {
		t.Errorf("%d ways with a codec are simulated, and the best without one in %v s", n, answer.Raw.Simulated)
	}
}

// The answer comes first, in two lines; then at most ten ways by their time to the
// accuracy, of which some training is known; one column of steps is what ratios are of.
func TestAdviseAnswersFirst(t *testing.T) {
	t.Parallel()
	patience.Alone(t)
	ask := func(flags ...string) string {
		var out, err bytes.Buffer
		args := append([]string{"advise", "timing=lenet", "workers=4", "network.bandwidth=1Gbps", "network.latency=50us", "device.flops=1T", "topology=ring", "device.codec=free", "--simulate", "1", "--draws", "2", "--out", t.TempDir()}, flags...)
		if code := Main(args, &out, &err); code != ExitOK {
			t.Fatalf("exit %d: %s", code, &err)
		}
		return out.String()
	}
	out := ask()
	lines := strings.Split(out, "\n")
	if !strings.Contains(lines[0], "probability") && !strings.HasPrefix(lines[0], "Do not compress: ") || !strings.HasPrefix(lines[1], "Best: codec=") || lines[2] != "" {
		t.Errorf("the first lines are\n%s\n%s\n%s", lines[0], lines[1], lines[2])
	}
	rows := 0
	last := 0.0
	for _, l := range lines {
		cells := strings.Split(l, "│")
		if len(cells) < 8 || strings.Contains(l, "time to accuracy") {
			continue
		}
		rows++
		x, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(cells[2]), "×"), 64)
		if err != nil || x < last {
			t.Errorf("%s behind %v", l, last)
		}
		last = x
	}
	if rows == 0 || rows > 10 || !strings.Contains(out, "Not advised, as no training on such tasks is known: ") || !strings.Contains(out, "as you stated it") || strings.Contains(lines[4], "speed-up") {
		t.Errorf("%d rows in\n%s", rows, out)
	}
	if all := ask("--all"); strings.Contains(all, "Not advised") || strings.Count(all, "│") < 10*strings.Count(out, "│") {
		t.Errorf("with --all\n%s", all)
	}
}

// Advice as data has the shape of a report: answers, with a runner-up and ties, and a
// baseline.
func TestAdviceAsData(t *testing.T) {
	t.Parallel()
	patience.Alone(t)
	var out, err bytes.Buffer
	code := Main([]string{"advise", "timing=resnet50", "workers=16", "network.bandwidth=25Gbps", "device=v100", "topology=ring", "codec=bf16,eden(bits=1)", "target=0.7",
		"device.codec=free", "--simulate", "0", "--draws", "0", "--json", "--out", t.TempDir()}, &out, &err)
	var d struct {
		Facet    string
		Target   float64
		Answers  report.Answers
		Baseline *report.Baseline
	}
	var more struct {
		Near *struct{ Saves, Probability, Bar float64 }
		Why  string
		Best struct{ Codec string }
		Raw  struct {
			Step float64 `json:"step_seconds"`
		} `json:"best_raw"`
	}
	if bad := errors.Join(json.Unmarshal(out.Bytes(), &d), json.Unmarshal(out.Bytes(), &more)); code != ExitOK || bad != nil {
		t.Fatalf("exit %d, %v: %s", code, bad, &err)
	}
	s, f := d.Answers.Soonest, d.Answers.FewestBytes
	if s == nil || f == nil || d.Answers.MostAccurate != nil || d.Baseline == nil || d.Target != 0.7 || !strings.Contains(d.Facet, "16 × 1 v100") {
		t.Fatalf("%s", &out)
	}
	if !(s.Low < s.Value && s.Value < s.High && s.Ratio >= 1 && s.Probability > 0 && s.Probability <= 1) || s.RunnerUp == "" || !strings.HasPrefix(f.Configuration, "eden(bits=1), ") {
		t.Errorf("%+v, %+v", s, f)
	}
	if d.Baseline.Configuration != "one worker alone" || !(d.Baseline.Seconds > store.Maybe(more.Raw.Step)) || !(d.Baseline.Seconds < 16*store.Maybe(more.Raw.Step)) {
		t.Errorf("%+v", d.Baseline)
	}
	if more.Best.Codec == "raw" && (more.Near == nil || more.Near.Bar != 0.8 || !(more.Near.Probability < 0.8)) {
		t.Errorf("%+v", more)
	}
}

// A device that nobody named is an error, and so is a model without layers.
func TestAdviseAsksForTheDevice(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"timing=resnet50 workers=4":                 "say how fast a device trains: device=v100",
		"timing=./none.yaml workers=4 device=v100":  "neither a file of layers nor the folder of a run",
		"timing=resnet50 workers=4 device=rtx4090x": `did you mean "rtx4090"`,
	} {
		var out, err bytes.Buffer
		if code := Main(append([]string{"advise"}, strings.Fields(args)...), &out, &err); code != ExitConfig || !strings.Contains(err.String(), want) {
			t.Errorf("%s: exit %d: %s", args, code, &err)
		}
	}
}
