package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/compress/compresstest"
	"github.com/gradlab/gradlab/experiments"
)

func TestEvery(t *testing.T) { compresstest.Family(t, Every{N: 4}) }

// The command that README ends the example with names codecs that there are.
func TestCommand(t *testing.T) {
	page, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Skip("not beside gradlab")
	}
	m := regexp.MustCompile(`go run \./own run (\w+) '([^']*every[^']*)'`).FindSubmatch(page)
	if m == nil {
		t.Fatal("no command runs this codec")
	}
	r, err := experiments.LoadRecipe(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := r.Runs([]string{string(m[2])}, false)
	if err != nil || len(runs) != 3 || !strings.Contains(runs[1].Config.Codec, "every") {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}
