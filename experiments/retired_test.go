package experiments

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
)

// kept is a resolved configuration as versions before wrote it: with keys that are
// options of its mode now.
func kept(c config.Config, mode string, keys string) []byte {
	b := c.YAML()
	lines := strings.Split(string(b), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "mode: ") {
			lines[i] = "mode: " + mode
		}
	}
	return []byte(strings.Join(lines, "\n") + keys)
}

// A folder whose configuration has keys that are options of its mode now is found
// and gone on with, its checkpoint too.
func TestFoldersWithRetiredKeysAreGoneOnWith(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	over := []string{"mode=downpour(n_fetch=3,n_push=2)", "policy=asp", "checkpoint_every=6", "steps=12", "epochs=0"}
	c := mustRuns(t, small, over...)[0]
	r, err := Execute(t.Context(), c, Options{Recipe: "test", Out: dir})
	if err != nil {
		t.Fatal(err)
	}
	// As an earlier version left it, stopped, under the name and the hash of its keys.
	const old = "0123456789ab"
	path := filepath.Join(filepath.Dir(r.Folder), "n_fetch=3,n_push=2-"+old[:6])
	if err := os.Rename(r.Folder, path); err != nil {
		t.Fatal(err)
	}
	f := &folder{path: path}
	if err := os.WriteFile(f.file("config.yaml"), kept(c.Config, "downpour", "n_fetch: 3\nn_push: 2\nwarm_start: 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var s Status
	if err := readJSON(f.file("status.json"), &s); err != nil {
		t.Fatal(err)
	}
	s.Hash, s.State, s.Run = old, "stopped", "n_fetch=3,n_push=2"
	if err := writeJSON(f.file("status.json"), s); err != nil {
		t.Fatal(err)
	}
	m, err := readManifest(f.file("checkpoint", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	m.Hash = old
	for i, d := range m.Decides {
		if d.Name == "mode" {
			m.Decides[i].Value = "downpour"
		}
	}
	m.Decides = append(m.Decides, decided{"n_fetch", "3"}, decided{"n_push", "2"}, decided{"warm_start", "0"})
	m.Self = m.sum()
	if err := writeJSON(f.file("checkpoint", "manifest.json"), m); err != nil {
		t.Fatal(err)
	}
	again, err := Execute(context.Background(), c, Options{Recipe: "test", Out: dir, Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	if again.Folder != path || again.ParamsSHA256 != r.ParamsSHA256 {
		t.Errorf("made anew in %s", again.Folder)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("folders %v", left)
	}
}
