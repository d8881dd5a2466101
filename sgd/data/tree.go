package data

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// tree is the recognised files of a folder or an archive, with archives inside
// a folder opened up. Names are slash paths; they are only compared, never
// written to, and those that climb out with ".." are left out.
type tree struct {
	root  string
	files []file
	links int // symbolic links not followed: they lead out of the folder
	lazy  bool
	index string // folder of the indices of tars, "" for none
	close []io.Closer
	work  func(file string, size int64) *work // of reading a packed archive; nil: is not told
}

// file is one recognised file of a tree.
type file struct {
	name string
	kind kind
	at   int64 // where the volume keeps it
	size int64
	in   volume
	from string // the archive it is in, "" for none

	class string // of a picture of a WebDataset, which names it
}

// volume is where a file's bytes are: a folder, a tar, a zip, memory.
type volume interface {
	open(f *file) (io.ReadCloser, error)
}

// read returns the unpacked content.
func (t *tree) read(f *file) (b []byte, err error) {
	r, err := f.in.open(f)
	if err == nil {
		defer r.Close()
		limit := int64(maxBlob)
		if f.kind == imageKind {
			limit = maxImage
		}
		var in io.Reader = r
		if f.kind != imageKind {
			in, _, err = unwrap(r)
		}
		if err == nil {
			b, err = readAll(in, limit)
		}
	}
	return b, t.wrap(f.path(), err)
}

// wrap names the file in an error.
func (t *tree) wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", filepath.Join(t.root, name), err)
}

// openTree lists a folder or an archive file. A lazy tree keeps its files open
// and holds no samples in memory; compressed tars of them are then refused. work, if
// not nil, makes what is told of reading an archive. index is the folder of the
// indices of tars, "" for none.
func openTree(at string, lazy bool, index string, work func(file string, size int64) *work) (_ *tree, err error) {
	t := &tree{root: at, lazy: lazy, index: index, work: work}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	st, err := os.Stat(at)
	if err != nil {
		return nil, err
	}
	dir, names := at, []string(nil)
	if !st.IsDir() {
		dir, names = filepath.Dir(at), []string{filepath.Base(at)}
		t.root = dir
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	t.close = append(t.close, root)
	if names == nil {
		entries, _ := os.ReadDir(dir)
		names = officialTars(entries)
	}
	if names == nil {
		if names, err = t.walk(root); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := t.addFile(folder{root}, name); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// walk lists the regular files of a folder that are not hidden. Pictures are
// added at once, the others returned for a closer look.
func (t *tree) walk(root *os.Root) (rest []string, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return t.wrap(name, err)
		case name != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir(), strings.HasSuffix(name, partSuffix):
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			if st, err := root.Stat(name); err != nil || !st.Mode().IsRegular() {
				t.links++
				return nil
			}
		case !d.Type().IsRegular():
			return nil
		}
		if path.Ext(name) == ".xml" {
			return nil // ImageNet has half a million annotations: not worth a look each
		}
		if !hasImageName(name) {
			rest = append(rest, name)
			return nil
		}
		return t.add(file{name: name, kind: imageKind, size: -1, in: folder{root}})
	})
	return rest, err
}

func (t *tree) add(f file) error {
	if len(t.files) >= maxFiles {
		return fmt.Errorf("%s: more than %d files", t.root, maxFiles)
	}
	t.files = append(t.files, f)
	return nil
}

// of returns the files of a kind, sorted by name.
func (t *tree) of(k kind) []*file {
	var out []*file
	for i := range t.files {
		if t.files[i].kind == k {
			out = append(out, &t.files[i])
		}
	}
	slices.SortStableFunc(out, func(a, b *file) int { return strings.Compare(a.name, b.name) })
	return out
}

// Close closes what the tree reads from.
func (t *tree) Close() error {
	for _, c := range t.close {
		c.Close()
	}
	return nil
}

// folder is a volume whose files are opened by name, inside the folder only.
type folder struct{ *os.Root }

func (d folder) open(f *file) (io.ReadCloser, error) { return d.Open(filepath.FromSlash(f.name)) }

// path names the file below the tree's root, through its archive.
func (f *file) path() string { return path.Join(f.from, f.name) }
