package experiments

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// What a run leaves can be read by its owner alone, or with Shared by all.
func TestFoldersArePrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("who may read a file is told otherwise there")
	}
	for _, open := range []bool{false, true} {
		dir := t.TempDir()
		r, err := Execute(context.Background(), mustRuns(t, small, "observe=order_log", "policy=asp", "mode=server", "checkpoint_every=3")[0], Options{Recipe: "test", Out: dir, Shared: open})
		if err != nil {
			t.Fatal(err)
		}
		files := 0
		err = filepath.WalkDir(r.Folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			want := map[[2]bool]fs.FileMode{{true, false}: 0o700, {true, true}: 0o755, {false, false}: 0o600, {false, true}: 0o644}[[2]bool{d.IsDir(), open}]
			if files++; info.Mode().Perm() != want {
				t.Errorf("shared %v: %s is %v, want %v", open, filepath.Base(path), info.Mode().Perm(), want)
			}
			return nil
		})
		if err != nil || files < 10 {
			t.Errorf("%d files, %v", files, err)
		}
	}
}

// The file with a run's secret is a new one, whatever was there.
func TestTokenFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, other := filepath.Join(dir, "token"), filepath.Join(dir, "other")
	for name, put := range map[string]func() error{
		"nothing":                    func() error { return nil },
		"left by a launch, readable": func() error { return os.WriteFile(path, []byte("old and long enough to show"), 0o644) },
		"a link": func() error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Symlink(other, path)
		},
	} {
		if name == "a link" {
			_ = os.WriteFile(path, nil, 0o600)
		}
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if err := writeToken(path, "secret"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		info, err := os.Lstat(path)
		b, rerr := os.ReadFile(path)
		if err != nil || rerr != nil || string(b) != "secret" || info.Mode() != 0o600 {
			t.Errorf("%s: %q of mode %v, %v, %v", name, b, info.Mode(), err, rerr)
		}
		if _, err := os.Lstat(other); err == nil {
			t.Errorf("%s: the link was followed", name)
		}
	}
}
