package cli_test

import (
	"os"
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

// A prompt is gone on with, and the same command writes the same.
func TestSample(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	text := filepath.Join(out, "t.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("to be, or not to be\n", 40)), 0o644); err != nil {
		t.Fatal(err)
	}
	r := program.Finish(t, 0, "run", program.Recipe(t, program.Quick), "data=text(path="+text+",context=8)", "model=gpt(layers=1,heads=1,width=8)", "target=perplexity<=50", "--json", "--quiet", "--out", out).Result()
	p := program.Finish(t, 0, "sample", r.Folder, "--prompt", "to be", "--tokens", "20", "--seed", "4")
	program.Plain(t, p)
	if said := p.Out.String(); !strings.HasPrefix(said, "to be") || len(said) != 26 {
		t.Error(p.Says())
	}
	if again := program.Finish(t, 0, "sample", r.Folder, "--prompt", "to be", "--tokens", "20", "--seed", "4"); again.Out.String() != p.Out.String() {
		t.Error(again.Says(), p.Says())
	}
	if p := program.Finish(t, 2, "sample", r.Folder, "--prompt", "who?"); !strings.Contains(p.Err.String(), "character 'w' is not in the vocabulary") {
		t.Error(p.Says())
	}
	program.Finish(t, 2, "sample", r.Folder, "--temperature", "-1")
	program.Finish(t, 2, "sample")

	// Tokens are an axis of everything that shows runs.
	html := filepath.Join(out, "r.html")
	program.Finish(t, 0, "report", r.Folder, "-o", html)
	page, err := os.ReadFile(html)
	if err != nil {
		t.Fatal(err)
	}
	for what, said := range map[string]string{
		"perplexity over tokens":  string(page),
		"tokens to perplexity 50": program.Finish(t, 0, "runs", "compare", r.Folder).Out.String() + string(page),
		"tokens":                  program.Finish(t, 0, "runs", "export", r.Folder, "--rows", "evals").Out.String(),
		"target_tokens":           program.Finish(t, 0, "runs", "export", r.Folder).Out.String(),
		"tokens computed on":      program.Finish(t, 0, "runs", "fields").Out.String(),
	} {
		if !strings.Contains(said, what) {
			t.Errorf("no %q in %.3000s", what, said)
		}
	}
}
