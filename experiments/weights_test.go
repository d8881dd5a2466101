package experiments

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/data"
)

// What a run ends with goes out under PyTorch's names, and a run begins there: with no
// rate it ends where it began, on any net and in any precision.
func TestBeginsWithWeightsOfAFile(t *testing.T) {
	t.Parallel()
	a := mustExecute(t, "model=lenet5")
	b, err := Weights(a.Folder)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.safetensors")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, keys := range [][]string{
		{"init=" + file},
		{"init=" + filepath.Join(a.Folder, "model.safetensors"), "net=local", "mode=reduce"},
		{"init=" + file, "precision=bfloat16", "seed=2", "timing=mlp"},
	} {
		is := mustExecute(t, append(keys, "model=lenet5", "schedule=constant(lr=0)")...)
		if is.ParamsSHA256 != a.ParamsSHA256 {
			t.Errorf("%v ends with %.8s, began with %.8s", keys, is.ParamsSHA256, a.ParamsSHA256)
		}
		if again, err := Weights(is.Folder); err != nil || string(again) != string(b) {
			t.Errorf("%v: weights are written otherwise, %v", keys, err)
		}
	}
	if is := mustExecute(t, "model=lenet5", "init="+file); is.ParamsSHA256 == a.ParamsSHA256 {
		t.Error("weights of a file do not learn")
	}
}

// Files that do not fit are refused before the run begins, and ranks that read
// different files of one name know it.
func TestFirstWeightsAreChecked(t *testing.T) {
	t.Parallel()
	a := mustExecute(t, "model=mlp(hidden=[16])")
	file := filepath.Join(a.Folder, "model.safetensors")
	for want, keys := range map[string][]string{
		"dense1.weight is [16 64]": {"model=mlp(hidden=[17])", "init=" + file},
		"lacks":                    {"model=lenet5", "init=" + file},
		"cannot be read":           {"init=" + filepath.Join(t.TempDir(), "nothing")},
		"not a valid safetensors":  {"init=" + filepath.Join(a.Folder, "config.yaml")},
		"has no layers":            {"model=quadratic", "data=synthetic(dim=8)", "init=" + file},
		"no weights to begin with": {"weightless=true", "timing=resnet50", "init=" + file},
	} {
		if _, err := execute(t, t.TempDir(), false, keys...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want an error with %q, got %v", keys, want, err)
		}
	}
	if _, err := Weights(t.TempDir()); err == nil {
		t.Error("a folder without a run has weights")
	}

	path := filepath.Join(t.TempDir(), "w.safetensors")
	seen := map[string]bool{}
	for _, seed := range []string{"seed=1", "seed=2"} {
		b, err := Weights(mustExecute(t, seed).Folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		c := mustRuns(t, small, "init="+path)[0].Config
		j, err := config.Run{Config: c}.Build(config.Places{}, func(data.Progress) {})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Identity(c, j) {
			if f.Name == "first weights" {
				seen[f.Value] = true
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("two files are told apart by %v", seen)
	}
}
