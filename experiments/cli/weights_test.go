package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestWeights(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	r := finish(t, 0, "run", recipe(t, quick), "--json", "--quiet", "--out", out).result()
	p := finish(t, 0, "weights", r.Folder)
	plain(t, p)
	file := filepath.Join(r.Folder, "weights.safetensors")
	if !strings.Contains(p.out.String(), file) {
		t.Error(p.says())
	}
	again := finish(t, 0, "run", recipe(t, quick), "init="+file, "schedule=constant(lr=0)", "--json", "--quiet", "--out", out).result()
	if again.SHA256 != r.SHA256 {
		t.Errorf("begins elsewhere: %s, the file is of %s", again.SHA256, r.SHA256)
	}
	finish(t, 0, "weights", r.Folder, filepath.Join(out, "w.safetensors"))
	if p := finish(t, 2, "run", recipe(t, quick), "init="+filepath.Join(out, "nothing"), "--quiet", "--out", out); !strings.Contains(p.err.String(), `key "init"`) {
		t.Error(p.says())
	}
	finish(t, 2, "weights")
	finish(t, 2, "weights", t.TempDir())
}
