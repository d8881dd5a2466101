package config

import (
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/sgd/train"
)

// Every tag of a key means something: its text is of a kind there is, its default is right and
// canonical, and the field of a job that it fills is of its type and no other key's.
func TestTagsOfKeys(t *testing.T) {
	t.Parallel()
	job, filled := reflect.TypeFor[train.Job](), map[string]string{}
	known := []string{"key", "default", "spec", "job", "effect", "alone", "unit", "min", "max", "oneof", "on", "doc"}
	for _, k := range allKeys() {
		for _, m := range regexp.MustCompile(`(\w+):"`).FindAllStringSubmatch(string(k.tag), -1) {
			if tag := m[1]; !slices.Contains(known, tag) {
				t.Errorf("key %q has a tag %q, which means nothing", k.Name, tag)
			}
		}
		if _, ok := k.language(); ok != (k.tag.Get("spec") != "") {
			t.Errorf("key %q is text of kind %q, which there is not", k.Name, k.tag.Get("spec"))
		}
		field := k.tag.Get("job")
		if field == "" {
			continue
		}
		if _, ok := job.FieldByName(field); !ok || filled[field] != "" {
			t.Errorf("key %q fills %q of a job, as does %q", k.Name, field, filled[field])
		}
		filled[field] = k.Name
	}
	if len(filled) < 20 {
		t.Errorf("keys fill %d fields of a job", len(filled))
	}
	if def := Default(); mustResolve(t, def).Config() != def {
		t.Errorf("defaults are %+v once they are resolved", mustResolve(t, def).Config())
	}
}

// Nets claim what they are: where they are virtual, where their ranks are, and, of all that they
// cannot do, why.
func TestTraitsOfNets(t *testing.T) {
	t.Parallel()
	for _, name := range Nets.Names() {
		c := Default()
		c.Net = name
		net, err := mustResolve(t, c).NewNet(1, time.Second)
		on := c.OnNet()
		if here := on.Ranks == RanksHere; here != (err == nil) {
			t.Errorf("%s: made in this process: %v", name, err)
		}
		switch n := net.(type) {
		case *sim.Net:
			if !on.Virtual || !on.Traces || n.Start != time.Second {
				t.Errorf("%s begins at %v, and claims %+v", name, n.Start, on)
			}
		case *local.Net:
			if on.Virtual || on.Traces || !on.SharedMemory {
				t.Errorf("%s claims %+v", name, on)
			}
		}
		if on.Virtual && on.Emulates || on.Traces && !on.Virtual || on.SharedMemory && on.Ranks != RanksHere {
			t.Errorf("%s claims what excludes each other: %+v", name, on)
		}
		for key := range on.Why {
			if can := map[string]bool{"emulate": on.Emulates, "elastic": on.Elastic, "faults": on.Faults != FaultsNone}; can[key] {
				t.Errorf("%s says why it cannot take %s, and claims that it can", name, key)
			}
		}
	}
	for _, name := range []string{"", "cloud", "("} {
		if on := (Config{Net: name}).OnNet(); !reflect.DeepEqual(on, NetTraits{}) {
			t.Errorf("%q can do %+v", name, on)
		}
	}
}
