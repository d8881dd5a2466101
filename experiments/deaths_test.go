package experiments

import (
	"reflect"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/sim"
)

func TestDeaths(t *testing.T) {
	d, err := parseDeaths("1@500ms+2@1m")
	if err != nil || d.String() != "1@500ms+2@1m0s" {
		t.Fatalf("%v, %v", d, err)
	}
	got, err := d.of(4)
	want := []sim.Death{{Rank: 3, At: 500 * time.Millisecond}, {Rank: 2, At: time.Minute}, {Rank: 1, At: time.Minute}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := d.of(2); err == nil {
		t.Error("three of two workers die")
	}
	for _, text := range []string{"", "1", "0@1s", "-1@1s", "1@-1s", "1@soon", "1@2s+1@1s", "1@1s,1@2s"} {
		if _, err := parseDeaths(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
	c := Default()
	c.DeviceDie, c.Net = "1@1s", "local"
	if err := c.resolve(); err == nil {
		t.Error("net=local kills nobody")
	}
	c.DeviceDie, c.Net = "5@1s", "sim"
	if err := c.resolve(); err == nil {
		t.Error("five of four workers die")
	}
}

// Asynchronous runs, and those of mode sandblaster, go on without the dead, say
// so, and account for what they had sent.
func TestWorkersDie(t *testing.T) {
	keys := []string{"data=digits", "model=logistic", "workers=6", "epochs=0", "batch=8", "servers=2", "device.flops=1M", "network.latency=100us"}
	for _, more := range [][]string{
		{"mode=downpour", "policy=asp", "n_push=2", "steps=150"}, {"policy=asp", "overlap=true", "steps=200"}, {"policy=ssp(slack=2)", "steps=200"}, {"mode=sandblaster", "steps=12"},
	} {
		set := append(append([]string{}, keys...), more...)
		whole := mustExecute(t, set...)
		at := time.Duration(whole.VirtualSeconds * 0.4e9)
		r := mustExecute(t, append(set, "device.die=2@"+at.String()+"+1@"+(at+at/2).String())...)
		l := r.Ledger
		if !r.Degraded || len(r.Lost) != 3 || l.Sent != l.Applied+l.Rejected+l.Lost || l.Applied == 0 || r.Steps != whole.Steps {
			t.Errorf("%v: degraded %v, lost %q, %d steps, ledger %+v", more, r.Degraded, r.Lost, r.Steps, l)
		}
	}
}
