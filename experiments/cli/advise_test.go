package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// Where modes come first, of which nothing is simulated, the next ways are, and the best
// without a codec, which the others are compared with.
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
	if first := answer.Options[0]; first.Codec != "raw" || first.Simulated != nil {
		t.Errorf("no mode comes first: %+v", first)
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
