package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

// What docs/from-pytorch.md says to write and to type is run, for fewer epochs; so is
// the program of docs/external.md.
func TestPagesOfPyTorch(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("trains by PyTorch")
	}
	exe := program.Python(t, "torch")
	for page, command := range map[string]string{"from-pytorch.md": "gradlab sweep", "external.md": "gradlab run"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		script := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(text)
		line := regexp.MustCompile("(?m)^" + command + " .*$").Find(text)
		if script == nil || line == nil {
			t.Fatalf("%s: no program, or no line %q", page, command)
		}
		file := filepath.Join(t.TempDir(), "train.py")
		if err := os.WriteFile(file, script[1], 0o600); err != nil {
			t.Fatal(err)
		}
		typed := strings.ReplaceAll(string(line), "python3 train.py", exe+" "+file)
		typed = regexp.MustCompile(`epochs=\d+`).ReplaceAllString(typed, "epochs=1")
		var args []string
		for _, w := range regexp.MustCompile(`(?:'[^']*'|[^\s'])+`).FindAllString(typed, -1)[1:] {
			args = append(args, strings.ReplaceAll(w, "'", ""))
		}
		out := program.Finish(t, 0, append(args, "--out", t.TempDir())...).Out.String()
		for _, want := range []string{"accuracy", "bytes"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %s in\n%s", typed, want, out)
			}
		}
	}
}
