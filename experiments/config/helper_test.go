package config

import "testing"

// mustResolve resolves a configuration that is right.
func mustResolve(t testing.TB, c Config) *Resolved {
	t.Helper()
	r, err := c.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sameAs reports whether two runs have one name and configuration.
func sameAs(a, b Run) bool {
	a.resolved, b.resolved = nil, nil
	return a == b
}

// mustRuns parses a recipe and resolves its runs.
func mustRuns(t testing.TB, text string, overrides ...string) []Run {
	t.Helper()
	r, err := ParseRecipe("test", "test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := r.Runs(overrides, false)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}
