package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gradlab/gradlab/experiments"
)

// Seen finds runs again and again. What is over is read once: as long as its status.json
// and what is told about it are the same files, its folder is not opened. The zero value is
// ready. It is used by one goroutine at a time.
type Seen struct {
	over map[string]kept // by folder
}

type kept struct {
	run           *Run
	status, about fs.FileInfo // about: nil if there is none
}

// Find is [Find], with the runs that are over as they were read before.
func (s *Seen) Find(paths ...string) ([]*Run, error) {
	over := map[string]kept{}
	runs, err := walk(func(dir string) *Run {
		if k, ok := s.over[dir]; ok && k.same(dir) {
			over[dir] = k
			return k.run
		}
		return nil
	}, func(dir string) (*Run, error) {
		status, err := os.Lstat(filepath.Join(dir, "status.json"))
		if err != nil {
			return nil, err
		}
		about, _ := os.Lstat(filepath.Join(dir, experiments.AboutFile))
		r, err := Open(dir)
		if err == nil && r.State != Running && r.State != Lost {
			over[dir] = kept{r, status, about}
		}
		return r, err
	}, paths)
	s.over = over
	return runs, err
}

// same says whether a folder's files are those that were read: they are replaced, never
// changed.
func (k kept) same(dir string) bool {
	status, err := os.Lstat(filepath.Join(dir, "status.json"))
	if err != nil || !sameFile(status, k.status) {
		return false
	}
	about, err := os.Lstat(filepath.Join(dir, experiments.AboutFile))
	if errors.Is(err, fs.ErrNotExist) {
		return k.about == nil
	}
	return err == nil && k.about != nil && sameFile(about, k.about)
}

func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
