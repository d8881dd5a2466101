package store

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe, or a device without end, in the place of any file of a run's folder is told,
// and neither waited for nor read; the other runs are found.
func TestPipesInAFolder(t *testing.T) {
	t.Parallel()
	from := filtered(t, find(t), "state=done")[0].Folder
	files, err := os.ReadDir(from)
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, e := range files {
		dir := t.TempDir()
		for _, name := range []string{"good", "bad"} {
			if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
		}
		bad := filepath.Join(dir, "bad", e.Name())
		for what, put := range map[string]func() error{
			"a pipe":   func() error { return syscall.Mkfifo(bad, 0o600) },
			"a device": func() error { return os.Symlink("/dev/zero", bad) },
		} {
			if err := os.RemoveAll(bad); err != nil {
				t.Fatal(err)
			}
			if err := put(); err != nil {
				t.Fatal(err)
			}
			runs, err := Find(dir)
			for _, r := range runs {
				if _, merr := r.Curve(); merr != nil && err == nil {
					err = merr
				}
				if _, rerr := r.Ranks(); rerr != nil && err == nil {
					err = rerr
				}
			}
			vital := strings.Contains("status.json config.yaml result.json metrics.jsonl ranks.json", e.Name())
			if len(runs) == 0 || filepath.Base(runs[0].Folder) != "good" && filepath.Base(runs[len(runs)-1].Folder) != "good" || vital && (err == nil || !strings.Contains(err.Error(), "no regular file")) {
				t.Errorf("%s named %s: %d runs, %v", what, e.Name(), len(runs), err)
			}
		}
	}
}
