package main

import (
	"strings"
	"testing"

	"github.com/gradlab/gradlab/compress/compresstest"
	"github.com/gradlab/gradlab/experiments/config"
)

func TestEvery(t *testing.T) { compresstest.Family(t, Every{N: 4}) }

// What docs/codecs.md ends the example with; a test of gradlab keeps the two equal.
const (
	recipe = "quickstart"
	codecs = "codec=raw,every(n=8),feedback(every(n=4),unchecked=true)"
)

// The codec has a name in recipes, and inside wrappers.
func TestCommand(t *testing.T) {
	r, err := config.LoadRecipe(recipe)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := r.Runs([]string{codecs}, false)
	if err != nil || len(runs) != 3 || !strings.Contains(runs[1].Config.Codec, "every") {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}
