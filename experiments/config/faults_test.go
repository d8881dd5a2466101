package config

import (
	"strings"
	"testing"
)

// Faults are checked against the ranks there are, before a run; without any the
// configuration is what it was.
func TestFaults(t *testing.T) {
	t.Parallel()
	plain := Default()
	for text, want := range map[string]string{
		"kill(w4,at=1s)":                            "there is no w4",
		"kill(s0,at=1s)":                            "",
		"pause(s1,at=1s,for=1s)":                    "there is no s1",
		"kill(w*,at=1s)":                            "4 ranks, want one",
		"partition([w0,w9],at=1s)":                  "there is no w9",
		"kill(observer,at=1s)+loss(0.1,from=[w*])":  "",
		"poisson(every=1s,ranks=[s7])":              "there is no s7",
		"poisson(every=1s,of=[kill,loss],until=1m)": "",
	} {
		c := plain
		c.Data, c.Model = "digits", "logistic"
		if err := c.Set("faults", text); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		_, err := c.Build(Places{}, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `key "faults"`)) {
			t.Errorf("%s: %v", text, err)
		}
		if c.Resolve() == nil && (c.Hash() == plain.Hash() || c.Timeless()) {
			t.Errorf("%s: it is no part of the configuration's name, or times decide nothing", text)
		}
		c.Net = "local"
		if err := c.Resolve(); err == nil || !strings.Contains(err.Error(), `key "faults"`) {
			t.Errorf("%s on net=local: %v", text, err)
		}
	}
	for _, text := range []string{"", "kill", "kill(w0)+", "murder(w0)", "kill(x0,at=1s)", "kill(w0,at=-1s)", "kill(w0,at=soon)", "loss(1)", "loss(-0.1)", "pause(w0,at=1s,for=0s)", "partition([])", "slow(0.5)", "poisson(every=0s)", "poisson(every=1ns)", "poisson(of=[murder])"} {
		c := plain
		if err := c.Set("faults", text); text != "kill" && (err == nil || !strings.Contains(err.Error(), `key "faults"`)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
