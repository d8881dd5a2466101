package config

import (
	"strings"
	"testing"
)

// Keys that are options of a mode now are refused with their new spelling, on a
// command line and in a recipe.
func TestRetiredKeysAreRefusedWithTheirNewSpelling(t *testing.T) {
	t.Parallel()
	want := `key "n_fetch" is an option of mode downpour: write mode=downpour(n_fetch=4)`
	c := Default()
	if err := c.Set("N_Fetch", " 4"); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	for _, k := range retiredKeys {
		if _, err := ParseRecipe("r", "r.yaml", []byte("mode: downpour\n"+k.key+": 7\n")); err == nil || !strings.Contains(err.Error(), "write mode=downpour("+k.key+"=7)") {
			t.Errorf("recipe with %s: %v", k.key, err)
		}
	}
}

// kept is a resolved configuration as versions before wrote it: with keys that are
// options of its mode now.
func kept(c Config, mode string, keys string) []byte {
	b := c.YAML()
	lines := strings.Split(string(b), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "mode: ") {
			lines[i] = "mode: " + mode
		}
	}
	return []byte(strings.Join(lines, "\n") + keys)
}

// Configurations that were kept read as the same run, as a configuration and as a
// recipe, and at their usual values, or in other modes, as if the keys were not there.
func TestKeptConfigurationsHaveRetiredKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mode, keys, want string }{
		{"downpour", "n_fetch: 3\nn_push: 2\nwarm_start: 10\n", "downpour(n_fetch=3,n_push=2,warm_start=10)"},
		{"downpour", "n_fetch: 1\nn_push: 4\nwarm_start: 0\n", "downpour(n_push=4)"},
		{"downpour", "n_fetch: 1\nn_push: 1\nwarm_start: 0\n", "downpour"},
		{"server(barrier=true)", "n_fetch: 3\nn_push: 2\nwarm_start: 1\n", "server(barrier=true)"},
	} {
		b := kept(Default(), c.mode, c.keys)
		got, unknown, err := ParseConfig(b)
		if err != nil || len(unknown) > 0 || got.Mode != c.want {
			t.Errorf("%s with %q reads as mode %s, unknown %v, %v", c.mode, c.keys, got.Mode, unknown, err)
		}
		r, err := ParseRecipe("kept", "config.yaml", b)
		if err != nil {
			t.Fatal(err)
		}
		runs, err := r.Runs([]string{"policy=asp"}, false)
		if err != nil || len(runs) != 1 || runs[0].Config.Mode != c.want {
			t.Errorf("as a recipe: %+v, %v", runs, err)
		}
	}
}
