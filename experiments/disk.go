package experiments

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// disk is what files are written to: the machine's, or a virtual one whose power fails.
type disk interface {
	create(dir string) (scratch, error)  // a file of a name of its own
	append(path string) (scratch, error) // a file that is there, at its end
	rename(from, to string) error
	remove(path string) error
	syncDir(dir string) error
}

// scratch is a file that is being written.
type scratch interface {
	io.WriteCloser
	Name() string
	Chmod(fs.FileMode) error
	Sync() error
}

// machine is the machine's own disk.
type machine struct{}

func (machine) create(dir string) (scratch, error) { return os.CreateTemp(dir, ".tmp-*") }
func (machine) append(path string) (scratch, error) {
	return os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
}
func (machine) rename(from, to string) error { return os.Rename(from, to) }
func (machine) remove(path string) error     { return os.Remove(path) }

func (machine) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// writeFile replaces a file on the machine's disk; see writeTo.
func writeFile(path string, b []byte) error { return writeTo(machine{}, path, b) }

// writeTo replaces a file so that a crash leaves the old or the new one: temporary file,
// sync, rename, sync of the folder.
func writeTo(d disk, path string, b []byte) (err error) {
	dir := filepath.Dir(path)
	t, err := d.create(dir)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			t.Close()
			_ = d.remove(t.Name())
		}
	}()
	if _, err = t.Write(b); err != nil {
		return err
	}
	if err = t.Sync(); err != nil {
		return err
	}
	if err = t.Chmod(permOf(dir)); err != nil {
		return err
	}
	if err = t.Close(); err != nil {
		return err
	}
	if err = d.rename(t.Name(), path); err != nil {
		return err
	}
	return d.syncDir(dir)
}
