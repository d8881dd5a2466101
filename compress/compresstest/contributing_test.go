package compresstest_test

import (
	"os"
	"strings"
	"testing"
)

// CONTRIBUTING.md shows the toy codec as it stands in toy_test.go, where it is
// compiled, enrolled and put through the suite.
func TestContributingQuotesTheToyCodec(t *testing.T) {
	src, err := os.ReadFile("toy_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(src), "// begin example\n")
	example, _, ok := strings.Cut(rest, "\n// end example")
	if !ok || !strings.Contains(string(page), "```go\n"+example+"\n```") {
		t.Error("the example in CONTRIBUTING.md is not the one in toy_test.go")
	}
}

// docs/codecs.md shows examples/codec/own, which is built and put through the suite
// where it lies, as it stands.
func TestPageQuotesTheOwnCodec(t *testing.T) {
	src, err := os.ReadFile("../../examples/codec/own/main.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/codecs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, ok := strings.Cut(string(src), "\npackage main\n")
	if !ok || !strings.Contains(string(page), "```go\npackage main\n"+program+"```") {
		t.Error("the program in docs/codecs.md is not examples/codec/own/main.go")
	}
	_, codec, _ := strings.Cut(program, "\n)\n")
	lines := 0
	for _, l := range strings.Split(codec, "\n") {
		if strings.TrimSpace(l) != "" {
			lines++
		}
	}
	if lines > 40 {
		t.Errorf("a codec in %d lines", lines)
	}
}
