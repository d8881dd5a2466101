package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

func TestWeights(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	r := program.Finish(t, 0, "run", program.Recipe(t, program.Quick), "--json", "--quiet", "--out", out).Result()
	p := program.Finish(t, 0, "weights", r.Folder)
	program.Plain(t, p)
	file := filepath.Join(r.Folder, "weights.safetensors")
	if !strings.Contains(p.Out.String(), file) {
		t.Error(p.Says())
	}
	again := program.Finish(t, 0, "run", program.Recipe(t, program.Quick), "init="+file, "schedule=constant(lr=0)", "--json", "--quiet", "--out", out).Result()
	if again.SHA256 != r.SHA256 {
		t.Errorf("begins elsewhere: %s, the file is of %s", again.SHA256, r.SHA256)
	}
	program.Finish(t, 0, "weights", r.Folder, filepath.Join(out, "w.safetensors"))
	if p := program.Finish(t, 2, "run", program.Recipe(t, program.Quick), "init="+filepath.Join(out, "nothing"), "--quiet", "--out", out); !strings.Contains(p.Err.String(), `key "init"`) {
		t.Error(p.Says())
	}
	program.Finish(t, 2, "weights")
	program.Finish(t, 2, "weights", t.TempDir())
}
