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
	"syscall"
)

// tree is the recognised files of a folder or an archive, with archives inside
// a folder opened up. Names are slash paths; they are only compared, never
// written to, and those that climb out with ".." are left out.
type tree struct {
	root  string
	at    string // the folder or the archive that it is of
	files []file
	left  tally           // of files that are not read
	links int             // symbolic links not followed: they lead out of the folder
	been  map[string]bool // folders that links led to, by their real paths
	tops  []located       // links of the top folder that were not followed
	held  int64           // bytes of Parquet files in memory

	tables []string          // Parquet files left out, and why
	bare   map[string]string // why pictures of an archive have no class, by the archive

	divided bool // a share of each class is for testing, as nothing says what is
	lazy    bool
	index   string // folder of the indices of tars, "" for none
	close   []io.Closer
	work    func(file string, size int64) *work // of reading a packed archive; nil: is not told
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
	t := &tree{root: at, at: at, lazy: lazy, index: index, work: work}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	st, err := os.Stat(at)
	if err != nil {
		return nil, err
	}
	dir, names := at, []located(nil)
	if !st.IsDir() {
		dir = filepath.Dir(at)
		t.root = dir
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	t.close = append(t.close, root)
	in := folder{Root: root}
	if !st.IsDir() {
		names = []located{{in, filepath.Base(at)}}
	} else {
		entries, _ := os.ReadDir(dir)
		for _, name := range ofImageNet(entries) {
			names = append(names, located{in, name})
		}
	}
	if names == nil {
		if names, err = t.walk(in); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(names, func(a, b located) int { return strings.Compare(a.name, b.name) })
	for _, l := range names {
		if err := t.addFile(l.in, l.name); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// located is a file of a folder, by its name in the tree.
type located struct {
	in   folder
	name string
}

// walk lists the regular files of a folder that are not hidden. Pictures are
// added at once, the others returned for a closer look.
func (t *tree) walk(in folder) (rest []located, err error) {
	root := in.Root
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		inside := name
		name = path.Join(in.below, name)
		switch {
		case err != nil:
			return t.wrap(name, err)
		case inside != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir(), strings.HasSuffix(name, partSuffix):
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			if st, err := root.Stat(inside); err != nil || !st.Mode().IsRegular() {
				more, err := t.follow(in, inside, name)
				rest = append(rest, more...)
				return err
			}
		case !d.Type().IsRegular():
			t.left.add("that are devices, pipes or the like", 1)
			return nil
		}
		if path.Ext(name) == ".xml" {
			t.left.ending(name)
			return nil // ImageNet has half a million annotations: not worth a look each
		}
		if !hasImageName(name) {
			rest = append(rest, located{in, name})
			return nil
		}
		return t.add(file{name: name, kind: imageKind, size: -1, in: in})
	})
	return rest, err
}

// realPath is a path without links, from the root on.
func realPath(at string) (string, error) {
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return "", err
	}
	return filepath.Abs(real)
}

// holds tells whether a folder is another one, or above it.
func holds(folder, other string) bool {
	way, err := filepath.Rel(folder, other)
	return err == nil && way != ".." && !strings.HasPrefix(way, ".."+string(filepath.Separator))
}

// follow walks a folder that a link leads to: that of a split, as in train →
// /scratch/imagenet/train, or of a class below one. Other links that leave the folder
// are counted.
func (t *tree) follow(in folder, inside, name string) ([]located, error) {
	if splitOf(path.Base(name)) >= 0 || splitOf(path.Base(path.Dir(name))) >= 0 {
		return t.enter(in, inside, name)
	}
	if path.Dir(name) == "." {
		t.tops = append(t.tops, located{in, name})
	}
	t.links++
	return nil, nil
}

// followClasses walks the folders that links of the top folder lead to: those of classes,
// in a set of one's own without splits.
func (t *tree) followClasses() error {
	for _, l := range t.tops {
		t.links--
		rest, err := t.enter(l.in, l.name, l.name)
		if err != nil {
			return err
		}
		for _, f := range rest {
			if err := t.addFile(f.in, f.name); err != nil {
				return err
			}
		}
	}
	t.tops = nil
	return nil
}

// enter walks a folder that a link leads to. Each is walked once, and none that the tree
// or the link lies in: such links are counted, and those that lead to no folder.
func (t *tree) enter(in folder, inside, name string) ([]located, error) {
	real, err := realPath(filepath.Join(in.Name(), filepath.FromSlash(inside)))
	home, homeErr := realPath(t.root)
	above, aboveErr := realPath(filepath.Join(in.Name(), filepath.FromSlash(path.Dir(inside))))
	if err != nil || homeErr != nil || aboveErr != nil || t.been[real] || holds(real, home) || holds(real, above) {
		t.links++
		return nil, nil
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		t.links++
		return nil, nil
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, err
	}
	t.close = append(t.close, root)
	if t.been == nil {
		t.been = map[string]bool{}
	}
	t.been[real] = true
	return t.walk(folder{root, name})
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
type folder struct {
	*os.Root
	below string // its name in the tree; "": it is the tree's root
}

func (d folder) open(f *file) (io.ReadCloser, error) { return d.file(f.name) }

// file opens a regular file by its name in the tree. It waits for no pipe.
func (d folder) file(name string) (*os.File, error) {
	if d.below != "" {
		name = strings.TrimPrefix(name, d.below+"/")
	}
	f, err := d.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("no regular file (%v); want a file with data", st.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// path names the file below the tree's root, through its archive.
func (f *file) path() string { return path.Join(f.from, f.name) }
