package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

// The package's folder is told, and --install runs the pip of an interpreter on it.
func TestPython(t *testing.T) {
	t.Parallel()
	dir := strings.TrimSpace(program.Finish(t, 0, "python", "--path").Out.String())
	for _, name := range []string{"pyproject.toml", "gradlab/__init__.py", "gradlab/pytorch.py"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	program.Finish(t, 2, "python")
	program.Finish(t, 2, "python", "--path", "--install")
	for script, code := range map[string]int{"echo pip got $5 $7; ls $7": 0, "exit 3": 1} {
		fake := filepath.Join(t.TempDir(), "fake-python")
		if err := os.WriteFile(fake, []byte("#!/bin/sh\nset -- $0 \"$@\"\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		p := program.Finish(t, code, "python", "--install="+fake)
		if code == 0 && (!strings.Contains(p.Out.String(), "pip got --no-deps") || !strings.Contains(p.Out.String(), "pyproject.toml")) || code != 0 && !strings.Contains(p.Err.String(), "into PYTHONPATH") {
			t.Error(p.Says())
		}
	}
}
