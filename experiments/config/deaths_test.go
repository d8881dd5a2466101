package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/sim"
)

func TestDeaths(t *testing.T) {
	t.Parallel()
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
	if err := c.Resolve(); err == nil {
		t.Error("net=local kills nobody")
	}
	c.DeviceDie, c.Net = "5@1s", "sim"
	if err := c.Resolve(); err == nil {
		t.Error("five of four workers die")
	}
}
