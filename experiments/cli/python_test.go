package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The package's folder is told, and --install runs the pip of an interpreter on it.
func TestPython(t *testing.T) {
	t.Parallel()
	dir := strings.TrimSpace(finish(t, 0, "python", "--path").out.String())
	for _, name := range []string{"pyproject.toml", "gradlab/__init__.py", "gradlab/pytorch.py"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	finish(t, 2, "python")
	finish(t, 2, "python", "--path", "--install")
	for script, code := range map[string]int{"echo pip got $5 $7; ls $7": 0, "exit 3": 1} {
		fake := filepath.Join(t.TempDir(), "fake-python")
		if err := os.WriteFile(fake, []byte("#!/bin/sh\nset -- $0 \"$@\"\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		p := finish(t, code, "python", "--install="+fake)
		if code == 0 && (!strings.Contains(p.out.String(), "pip got --no-deps") || !strings.Contains(p.out.String(), "pyproject.toml")) || code != 0 && !strings.Contains(p.err.String(), "into PYTHONPATH") {
			t.Error(p.says())
		}
	}
}
