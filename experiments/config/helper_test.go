package config

import "testing"

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
