package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

// From a table to a cluster that other commands take.
func TestCalibrate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table, mine := filepath.Join(dir, "mine.csv"), filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(table, []byte("model,workers,batch,step_ms\nlenet,1,64,5\nlenet,2,64,31\nlenet,4,64,48\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := program.Finish(t, 0, "calibrate", table, "network.bandwidth=100Mbps", "--fit", "1-2", "--out", mine)
	if out := p.Out.String(); !strings.Contains(out, "cluster="+mine) || !strings.Contains(out, "held out: 1 points") {
		t.Error(out)
	}
	var r struct {
		Points []struct {
			Fitted              bool
			Measured, Predicted float64
		}
		Parameters []struct{ Key string }
	}
	if err := json.Unmarshal([]byte(program.Finish(t, 0, "calibrate", table, "cluster="+mine, "--json").Out.String()), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Points) != 3 || !r.Points[2].Fitted || r.Points[0].Measured != 0.005 || len(r.Parameters) == 0 {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "wants a file"},
		{[]string{"network.bandwidth=1Gbps"}, "wants a file"},
		{[]string{filepath.Join(dir, "none.csv")}, "no such file"},
		{[]string{table, "--out", filepath.Join(dir, "x.json")}, "a cluster is written as .yaml, not .json"},
		{[]string{table, "--fit", "1-1001"}, "points up to 1000"},
		{[]string{table, "--fit", "x"}, "neither a number nor a range"},
		{[]string{table, "--fit", "4"}, "points 1 to 3"},
		{[]string{table, "network.speed=1"}, "network.speed"},
	} {
		if p := program.Finish(t, 2, append([]string{"calibrate"}, c.args...)...); !strings.Contains(p.Err.String(), c.want) {
			t.Errorf("%v: %s; want %q", c.args, p.Err.String(), c.want)
		}
	}
}

// Runs on a real clock are measurements, of a network that one says if none is called
// after the model; those on a virtual clock are none.
func TestCalibrateByRuns(t *testing.T) {
	t.Parallel()
	real, virtual := filepath.Join(t.TempDir(), "real"), filepath.Join(t.TempDir(), "virtual")
	program.Finish(t, 0, "run", "quickstart", "codec=qsgd(bits=4)", "net=local", "workers=2", "batch=8", "steps=12", "target=0", "--out", real)
	program.Finish(t, 0, "run", "quickstart", "codec=raw", "net=sim", "steps=2", "target=0", "--out", virtual)
	var r struct {
		Points []struct {
			What     string
			Measured float64
		}
	}
	if err := json.Unmarshal([]byte(program.Finish(t, 0, "calibrate", real, "model=lenet", "network.bandwidth=1Gbps", "--json").Out.String()), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Points) != 1 || r.Points[0].What != "lenet, 2 workers, batch 8, qsgd(bits=4)" || !(r.Points[0].Measured > 0) {
		t.Errorf("%+v", r)
	}
	if p := program.Finish(t, 2, "calibrate", real); !strings.Contains(p.Err.String(), "say which network it is") {
		t.Error(p.Err.String())
	}
	if p := program.Finish(t, 2, "calibrate", virtual); !strings.Contains(p.Err.String(), "no runs on a real clock") {
		t.Error(p.Err.String())
	}
}

// A record of ranks is played; the command's mistakes are told.
func TestVirtual(t *testing.T) {
	t.Parallel()
	record := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(record, []byte(`{"from":0,"event":{"do":"hello","world":1}}`+"\n"+`{"from":0,"event":{"do":"end","spent":2}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var r struct{ Seconds float64 }
	if err := json.Unmarshal([]byte(program.Finish(t, 0, "virtual", "--from", record, "--speed", "4", "--json").Out.String()), &r); err != nil || r.Seconds != 0.5 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "a command behind --"},
		{[]string{"--from", record, "--", "true"}, 2, "a command behind --"},
		{[]string{"--from", record, "--ranks", "2"}, 2, "nothing is started"},
		{[]string{"--from", record, "codec=raw"}, 2, `key "codec" does not say`},
		{[]string{"--from", record, "--speed", "0"}, 2, "--speed"},
		{[]string{"--ranks", "-1", "--", "true"}, 2, "--ranks"},
		{[]string{"--from", record + "x"}, 2, "no such file"},
		{[]string{"--", "true"}, 1, "not all ranks had called"},
	} {
		if p := program.Finish(t, c.code, append([]string{"virtual"}, c.args...)...); !strings.Contains(p.Err.String(), c.want) {
			t.Errorf("%v: %s; want %q", c.args, p.Err.String(), c.want)
		}
	}
}
