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

func TestSchedule(t *testing.T) {
	t.Parallel()
	patience.Alone(t)
	plot := filepath.Join(t.TempDir(), "rates")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"schedule", "goyal", "step(lr=0.4)", "batch=8192", "--plot", plot}, ExitOK, "goyal: highest 3.2, first before update 782 (epoch 5.00)"},
		{[]string{"schedule", "warmup(poly(lr=1),epochs=1)", "--samples", "100", "batch=10", "epochs=2"}, ExitOK, "│  1.90 │     19 │"},
		{[]string{"schedule"}, ExitConfig, "one or more schedules"},
		{[]string{"schedule", "schedule=goyal,step(lr=0.4)", "batch=8192"}, ExitOK, "step(lr=0.4): highest 0.4"},
		{[]string{"schedule", "goyal", "epochs=0"}, ExitConfig, "epochs=0"},
		{[]string{"schedule", "goyal", "epochs=few"}, ExitConfig, `key "epochs": want a number`},
		{[]string{"schedule", "goyal", "workers=8"}, ExitConfig, `key "workers" does not say what schedules are asked about; there are schedule, batch`},
		{[]string{"schedule", "trapez"}, ExitConfig, `did you mean "trapezoid"`},
		{[]string{"schedule", "onecycle(up=2)"}, ExitConfig, `"up" is 2`},
		{[]string{"schedule", "goyal", "batch=0"}, ExitConfig, `key "batch": want at least 1, not 0`},
		{[]string{"schedule", "goyal", "epochs=1e300"}, ExitConfig, "100 million"},
		{[]string{"schedule", "goyal", "batch=10000000", "epochs=1"}, ExitConfig, "updates"},
		{[]string{"schedule", "step(lr=1,at=[9],factor=0.5)", "batch_schedule=growth(factor=2,at=[1])", "--samples", "100", "batch=10", "epochs=3", "--plot", plot + "-grown"}, ExitOK, "│  2.80 │     19 │    20 │"},
		{[]string{"schedule", "side_schedule=stages(sides=[96,128],at=[1])", "--samples", "100", "batch=10", "epochs=2", "--plot", plot + "-sides"}, ExitOK, "│  1.90 │     19 │  128 │"},
		{[]string{"schedule", "side_schedule=fixed"}, ExitConfig, "leave the key out"},
		{[]string{"schedule", "side_schedule=stages(sides=[2],at=[])"}, ExitConfig, "want a side of"},
		{[]string{"schedule", "goyal", "batch_schedule=growth(factor=0.1)"}, ExitConfig, `"factor" is 0.1`},
		{[]string{"schedule", "goyal", "batch_schedule=stages(times=[0.001],at=[])"}, ExitConfig, "makes a batch of 0"},
	} {
		var out, err bytes.Buffer
		if code := Main(c.args, &out, &err); code != c.code || !strings.Contains(out.String()+err.String(), c.want) {
			t.Errorf("%v: exit %d, want %d and %q in\n%s%s", c.args, code, c.code, c.want, out.String(), err.String())
		}
	}
	for _, ext := range []string{".svg", ".png", "-grown.svg", "-grown.png", "-sides.svg", "-sides.png"} {
		if b, err := os.ReadFile(plot + ext); err != nil || len(b) < 1000 {
			t.Errorf("%s: %d bytes, %v", ext, len(b), err)
		}
	}
	var out, errs bytes.Buffer
	Main([]string{"schedule", "step(lr=1,at=[1])", "--samples", "100", "batch=10", "epochs=2", "--json"}, &out, &errs)
	var got struct {
		Updates   int
		Schedules []struct {
			Schedule string
			Rates    []float64 `json:"learning_rates"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err, out.String(), errs.String())
	}
	if got.Updates != 20 || len(got.Schedules) != 1 || len(got.Schedules[0].Rates) != 20 || got.Schedules[0].Rates[9] != 1 || got.Schedules[0].Rates[10] != 0.1 {
		t.Errorf("%+v", got)
	}
}

// A batch schedule is made of the noise scale that a run measured, and a run takes it.
func TestScheduleByNoise(t *testing.T) {
	t.Parallel()
	patience.Alone(t)
	folder := t.TempDir()
	says := func(code int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := Main(args, &out, &errs); got != code {
			t.Fatalf("%v: exit %d, want %d:\n%s%s", args, got, code, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	keys := []string{"run", "quickstart", "codec=raw", "mode=reduce", "workers=2", "batch=1", "model=logistic", "schedule=constant(lr=0.05)", "epochs=3", "--quiet", "--out", folder}
	var measured, plain struct{ Folder string }
	for run, extra := range map[*struct{ Folder string }]string{&measured: "observe=noise_scale", &plain: "observe=none"} {
		if err := json.Unmarshal([]byte(says(ExitOK, append(keys, extra, "--json")...)), run); err != nil {
			t.Fatal(err)
		}
	}
	text := says(ExitOK, "schedule", "--by-noise", measured.Folder, "--share", "4")
	for _, want := range []string{"epochs of 1438 samples with batch 2", "constant(lr=0.05)", "noise scale measured: "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	_, spec, ok := strings.Cut(text, "to train with it: '")
	spec, _, _ = strings.Cut(spec, "'")
	if !ok || !strings.HasPrefix(spec, "batch_schedule=stages(times=[1,2") {
		t.Fatalf("no growth in\n%s", text)
	}
	var grown struct{ Steps int }
	if err := json.Unmarshal([]byte(says(ExitOK, append(keys, spec, "--json")...)), &grown); err != nil || grown.Steps < 1 || grown.Steps >= 2157 {
		t.Errorf("%+v, %v: 3 epochs are 2157 updates of two samples, and fewer where the batch grows", grown, err)
	}
	for want, args := range map[string][]string{
		"observe=noise_scale":      {"schedule", "--by-noise", plain.Folder},
		"goes with --by-noise":     {"schedule", "goyal", "--factor", "2"},
		"give one of them":         {"schedule", "--by-noise", measured.Folder, "batch_schedule=fixed"},
		`"factor" is 1`:            {"schedule", "--by-noise", measured.Folder, "--factor", "1"},
		"so the batch stays":       {"schedule", "--by-noise", measured.Folder, "batch=100000", "epochs=200"},
		"is no folder with runs, ": {"schedule", "--by-noise", "nothing"},
	} {
		code := ExitConfig
		if want == "so the batch stays" {
			code = ExitOK
		}
		if text := says(code, args...); !strings.Contains(text, want) {
			t.Errorf("%v: no %q in\n%s", args, want, text)
		}
	}
}
