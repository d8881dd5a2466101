package reproduce

import (
	"testing"
)

// What was measured is known to other studies and after a restart, for the same
// steps of the same run.
func TestMeasuredOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := []string{"timing=resnet50", "device=p100", "workers=2", "cluster=none"}
	lab := &Lab{memory: &memory{dir: dir}}
	p := protocol{warm: 1, steps: 2, repeats: 2}
	first, err := lab.simulate(t.Context(), p, keys...)
	if err != nil || first.mean <= 0 {
		t.Fatal(first, err)
	}
	for key := range lab.memory.known {
		if err := lab.memory.put(key, 42); err != nil {
			t.Fatal(err)
		}
	}
	for name, m := range map[string]*memory{"shared": lab.memory, "restarted": {dir: dir}} {
		other := &Lab{memory: m}
		if r, err := other.simulate(t.Context(), p, keys...); err != nil || r.mean != 42 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
		for _, q := range []protocol{{0, 3, 2}, {1, 3, 2}} {
			if r, err := other.simulate(t.Context(), q, keys...); err != nil || r.mean == 42 {
				t.Errorf("%s: %+v: %v, %v", name, q, r, err)
			}
		}
	}
	if r, err := (&Lab{memory: &memory{}}).simulate(t.Context(), p, keys...); err != nil || r != first {
		t.Errorf("measured again %v, %v, at first %v", r, err, first)
	}
}
