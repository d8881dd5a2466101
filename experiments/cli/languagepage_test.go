package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

// The runs of docs/language.md run as they stand, for two updates, on texts that are made
// here.
func TestLanguagePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/language.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := strings.Repeat("to be, or not to be: that is the question\n", 1115394/42+1)[:1115394]
	for name, b := range map[string]string{"data/shakespeare/input.txt": text, "mine.txt": text[:9000]} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, line := range regexp.MustCompile("(?m)^gradlab run .*$").FindAllString(string(page), -1) {
		w := append(words(line), "steps=2", "eval_every=0", "test_limit=4", "--data-dir", filepath.Join(dir, "data"))
		w[0] = program.Gradlab
		out := program.StartLine(t, dir, nil, w...)
		out.Expect(0)
		if said := out.Out.String(); !strings.Contains(said, "last loss") {
			t.Errorf("%s says no loss:\n%s", line, said)
		}
		ran++
	}
	if ran < 4 {
		t.Errorf("%d runs on the page", ran)
	}
}
