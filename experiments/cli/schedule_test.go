package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	plot := filepath.Join(t.TempDir(), "rates")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"schedule", "goyal", "step(lr=0.4)", "--batch", "8192", "--plot", plot}, ExitOK, "goyal: highest 3.2, first before update 782 (epoch 5.00)"},
		{[]string{"schedule", "warmup(poly(lr=1),epochs=1)", "--samples", "100", "--batch", "10", "--epochs", "2"}, ExitOK, "│  1.90 │     19 │"},
		{[]string{"schedule"}, ExitConfig, "one or more schedules"},
		{[]string{"schedule", "trapez"}, ExitConfig, `did you mean "trapezoid"`},
		{[]string{"schedule", "onecycle(up=2)"}, ExitConfig, `"up" is 2`},
		{[]string{"schedule", "goyal", "--batch", "0"}, ExitConfig, "--batch 0"},
		{[]string{"schedule", "goyal", "--epochs", "1e300"}, ExitConfig, "100 million"},
		{[]string{"schedule", "goyal", "--batch", "10000000", "--epochs", "1"}, ExitConfig, "updates"},
		{[]string{"schedule", "step(lr=1,at=[9],factor=0.5)", "--batch-schedule", "growth(factor=2,at=[1])", "--samples", "100", "--batch", "10", "--epochs", "3", "--plot", plot + "-grown"}, ExitOK, "│  2.80 │     19 │    20 │"},
		{[]string{"schedule", "goyal", "--batch-schedule", "growth(factor=0.1)"}, ExitConfig, `"factor" is 0.1`},
		{[]string{"schedule", "goyal", "--batch-schedule", "stages(times=[0.001],at=[])"}, ExitConfig, "makes a batch of 0"},
	} {
		var out, err bytes.Buffer
		if code := Main(c.args, &out, &err); code != c.code || !strings.Contains(out.String()+err.String(), c.want) {
			t.Errorf("%v: exit %d, want %d and %q in\n%s%s", c.args, code, c.code, c.want, out.String(), err.String())
		}
	}
	for _, ext := range []string{".svg", ".png", "-grown.svg", "-grown.png"} {
		if b, err := os.ReadFile(plot + ext); err != nil || len(b) < 1000 {
			t.Errorf("%s: %d bytes, %v", ext, len(b), err)
		}
	}
	var out, errs bytes.Buffer
	Main([]string{"schedule", "step(lr=1,at=[1])", "--samples", "100", "--batch", "10", "--epochs", "2", "--json"}, &out, &errs)
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
