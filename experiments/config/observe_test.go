package config

import (
	"reflect"
	"strings"
	"testing"
)

// Key observe takes none, a word, or a list in square brackets, in any order.
func TestObserve(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"none": "none", "trace": "[trace]", "[trace]": "[trace]", " [ trace , gap ] ": "[gap,trace]",
		"[noise_scale,trace,order_log,gap]": "[gap,noise_scale,order_log,trace]", "trace,gap": "[gap,trace]",
	} {
		c := Default()
		if err := c.Set("observe", text); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		r := mustResolve(t, c)
		if got := r.Config().Observe; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		for _, o := range Observations() {
			if r.IsObserved(o.Name) != strings.Contains(want, o.Name) {
				t.Errorf("%q: %s is observed: %v", text, o.Name, r.IsObserved(o.Name))
			}
		}
	}
	for text, want := range map[string]string{
		"": "want none", "true": "there are: gap, noise_scale, order_log, trace", "[": "want none", "[gap": "square brackets", "[]": "want none",
		"[gap,gap]": "listed twice", "[none,gap]": "want none alone", "[gap,trase]": `did you mean "trace"`, "[[gap]]": "want none",
	} {
		c := Default()
		if err := c.Set("observe", text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `key "observe"`) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A list of words is one run that records them all, in a recipe, along its variants and on
// the command line: it is no axis.
func TestObserveIsNoAxis(t *testing.T) {
	t.Parallel()
	want := Default()
	want.Observe = "[gap,trace]"
	if err := want.Set("transport", "unknown"); err != nil {
		t.Fatal(err)
	}
	for name, runs := range map[string][]Run{
		"recipe":       mustRuns(t, "observe: [gap, trace]\n"),
		"lists":        mustRuns(t, "observe: [[gap], [trace]]\n"),
		"text":         mustRuns(t, "observe: \"[trace,gap]\"\n"),
		"command line": mustRuns(t, "", "observe=gap,trace"),
		"brackets":     mustRuns(t, "observe: trace\n", "observe=[gap,trace]"),
	} {
		if len(runs) != 1 || !reflect.DeepEqual(runs[0].Config, want) {
			t.Errorf("%s: %d runs, %q", name, len(runs), runs[0].Config.Observe)
		}
	}
	if r, err := ParseRecipe("test", "test.yaml", []byte("model: mlp\nobserve: [gap, gab]\n")); err == nil || !strings.Contains(err.Error(), `test.yaml:2: key "observe"`) {
		t.Errorf("%+v, %v", r, err)
	}
}

// What a run records is no part of its name; a trace, which looks at times alone, is no part
// of what it learns and tells of that.
func TestObserveNamesNothing(t *testing.T) {
	t.Parallel()
	plain, traced, all := Default(), Default(), Default()
	traced.Observe, all.Observe = "[trace]", "[gap,trace]"
	if plain.Hash() != traced.Hash() || plain.Hash() != all.Hash() {
		t.Error("it is part of the configuration's name")
	}
	if plain.Trajectory() != traced.Trajectory() || plain.Trajectory() == all.Trajectory() {
		t.Error("trajectories with a trace differ, or with a gap do not")
	}
	if !all.Tells(traced) || traced.Tells(all) || !traced.Tells(plain) {
		t.Error("a record tells more or less than what was asked for")
	}
}
