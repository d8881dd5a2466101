package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/hardware"
)

// Files that people name are bounded: one without end is refused, not read.
func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	zero := filepath.Join(t.TempDir(), "zero.yaml")
	if err := os.Symlink("/dev/zero", zero); err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]func(string) error{
		"recipe":          func(p string) error { _, err := LoadRecipe(p); return err },
		"cluster":         func(p string) error { _, err := hardware.Load(hardware.Cluster, p); return err },
		"rates of codecs": func(p string) error { _, err := hardware.LoadCodecs(p); return err },
		"stated rates":    func(p string) error { _, err := coding.Load(p); return err },
	} {
		if err := read(zero); err == nil || !strings.Contains(err.Error(), "longer than") {
			t.Errorf("%s without end: %v", what, err)
		}
	}
	if _, err := LoadRecipe("/dev/zero"); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("/dev/zero as a recipe: %v", err)
	}
}
