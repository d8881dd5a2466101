package external

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

//go:embed python/pyproject.toml python/gradlab/*.py
var files embed.FS

// The package is python/gradlab/__init__.py with python/gradlab/memory.py and, for PyTorch,
// python/gradlab/pytorch.py. Codecs are python/gradlab/library.py, and as torch operations
// python/gradlab/device.py with python/gradlab/packing.py and python/gradlab/draws.py.
// python/gradlab/state.py and python/gradlab/device_hook.py exchange gradients by them:
// python/gradlab/ddp.py as a communication hook, python/gradlab/sharded.py between shards.
// python/gradlab/compare_hooks.py measures hooks. python/gradlab/cuda.py copies from and to GPUs.
// python/gradlab/resnet.py is the residual networks of ImageNet. python/gradlab/overhead.py
// measures what the engine costs a program. python/gradlab/virtual.py is the backend of
// experiments/virtual, made of python/gradlab/operations.py; python/gradlab/futures.py tells it
// of waits for futures.

// Python is the folder that holds the Python package gradlab, for PYTHONPATH and for
// pip install. It lies in the user's cache, or where there is none in a temporary folder,
// and is written when it is not there. Processes
// that Open starts have it in their PYTHONPATH.
func Python() (string, error) { return python() }

var python = sync.OnceValues(func() (string, error) {
	sum := sha256.New()
	each := func(do func(name string, text []byte) error) error {
		return fs.WalkDir(files, "python", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := files.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel("python", filepath.FromSlash(path))
			if err != nil {
				return err
			}
			return do(name, text)
		})
	}
	if err := each(func(name string, text []byte) error {
		_, err := fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
		return err
	}); err != nil {
		return "", err
	}
	parent, err := os.UserCacheDir()
	if err == nil {
		parent = filepath.Join(parent, "gradlab", "python")
		err = os.MkdirAll(parent, 0o700)
	}
	if err != nil { // no home, or one that cannot be written to
		if parent, err = os.MkdirTemp("", "gradlab-python-"); err != nil {
			return "", fmt.Errorf("external: no folder for the Python package: %w", err)
		}
	}
	dir := filepath.Join(parent, fmt.Sprintf("%.8x", sum.Sum(nil)))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	temp, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return "", fmt.Errorf("external: no folder for the Python package: %w", err)
	}
	defer os.RemoveAll(temp)
	if err := each(func(name string, text []byte) error {
		to := filepath.Join(temp, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	}); err != nil {
		return "", fmt.Errorf("external: the Python package is not written: %w", err)
	}
	if err := os.Rename(temp, dir); err != nil {
		if _, there := os.Stat(dir); there == nil { // another process was first
			return dir, nil
		}
		return "", fmt.Errorf("external: the Python package is not written: %w", err)
	}
	return dir, nil
})
