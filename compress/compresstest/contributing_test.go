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
