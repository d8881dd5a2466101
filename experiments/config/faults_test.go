package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/sgd/train"
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
		_, err := Run{Config: c}.Build(Places{}, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `key "faults"`)) {
			t.Errorf("%s: %v", text, err)
		}
		if _, wrong := c.Resolve(); wrong == nil && (c.Hash() == plain.Hash() || c.Timeless()) {
			t.Errorf("%s: it is no part of the configuration's name, or times decide nothing", text)
		}
		c.Net = "local"
		if _, err := c.Resolve(); err == nil || !strings.Contains(err.Error(), `key "faults"`) {
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

// Workers leave and join before the steps that key faults names, whatever their order there,
// on every net that can change who takes part, beside faults at instants.
func TestFaultsBeforeSteps(t *testing.T) {
	t.Parallel()
	build := func(set ...string) (*train.Job, error) {
		c := Default()
		for _, kv := range append([]string{"data=digits", "model=logistic", "mode=reduce"}, set...) {
			k, v, _ := strings.Cut(kv, "=")
			if err := c.Set(k, v); err != nil {
				return nil, err
			}
		}
		return Run{Config: c}.Build(Places{Shelf: idleShelf}, nil)
	}
	const moves = "join(w2,before=9,turn=1)+leave(w3,before=9)+leave(w2,before=4)+join(w3,before=9,turn=1)"
	for _, set := range [][]string{{"faults=" + moves}, {"faults=kill(w1,at=1s)+" + moves}, {"faults=" + moves, "net=local"}, {"faults=" + moves + "+kill(w1,at=1s)", "net=grpc"}} {
		j, err := build(append(set, "elastic=on")...)
		if err != nil {
			t.Errorf("%v: %v", set, err)
			continue
		}
		leaves := []train.Departure{{Worker: 2, Step: 4}, {Worker: 3, Step: 9}}
		joins := []train.Joining{{Worker: 2, Step: 9, Turn: 1}, {Worker: 3, Step: 9, Turn: 1}}
		if !reflect.DeepEqual(j.Leaves, leaves) || !reflect.DeepEqual(j.Joins, joins) {
			t.Errorf("%v: %v leave, %v join", set, j.Leaves, j.Joins)
		}
		s, err := nemesis.Parse(Planned(j.Leaves, j.Joins).String())
		if again, err2 := build("elastic=on", "faults="+s.String()); err != nil || err2 != nil || !reflect.DeepEqual(again.Joins, joins) || !reflect.DeepEqual(again.Leaves, leaves) {
			t.Errorf("%v: planned as %v, %v, %v", set, s, err, err2)
		}
	}
	for _, c := range []struct {
		set  []string
		want string
	}{
		{[]string{"faults=leave(w2,before=4)"}, "elastic"},
		{[]string{"faults=join(w2,before=4)"}, "elastic"},
		{[]string{"elastic=on", "faults=leave(w4,before=4)"}, `key "faults": leave(rank=w4,before=4): there is no w4: the run has 4 workers`},
		{[]string{"elastic=on", "faults=leave(w2,before=100000)"}, "fault leave: worker 2 before step 100000: want workers 0 to 3"},
		{[]string{"elastic=on", "faults=leave(w2,before=4)+join(w2,before=4)"}, "leave(w2,before=4)+join(w2,before=4,turn=1)"},
		{[]string{"elastic=on", "faults=leave(w2,before=4)+leave(w2,before=5)"}, "fault leave: worker 2 is not there before step 5"},
		{[]string{"elastic=on", "faults=kill(w2,at=1s)+leave(w2,before=4)", "net=local"}, `key "faults": kill(rank=w2,at=1s): on net=local`},
		{[]string{"elastic=on", "faults=leave(w2,before=4)", "net=mpi"}, "MPI"},
	} {
		if _, err := build(c.set...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.set, err, c.want)
		}
	}
}
