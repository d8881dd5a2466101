package data

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Origin says where a set was found.
type Origin string

const (
	BuiltIn Origin = "built in" // part of the program
	FromDir Origin = "data folder"
	Cached  Origin = "cache"
	System  Origin = "system package"
	Absent  Origin = "absent"
)

// State says what is known of a file.
type State string

const (
	Missing  State = "missing"
	Present  State = "present"  // not checked, or nothing known to check it by
	Verified State = "verified" // has the official content
	Differs  State = "differs"  // does not
)

// File is one file of a set.
type File struct {
	Path  string
	Size  int64 // bytes; 0 if missing
	State State
}

// Location says where a set is: a folder or an archive file. For an absent set
// Path is the folder it should be put in, "" if there is none, and Files what
// should be in it.
type Location struct {
	Name   string
	Path   string
	Origin Origin
	Found  bool
	Files  []File // official files, and up to 100 others
}

// Locate looks for the set called name (or for a spec of it) in o.Dir, o.Cache
// and where system packages put it, in this order. It reads no more than it
// takes to recognise the files. The error is an unknown name.
func Locate(name string, o Options) (Location, error) {
	r, name, err := lookup(name)
	if err != nil || r == nil {
		return Location{Name: name, Origin: BuiltIn, Found: err == nil}, err
	}
	return r.locate(o), nil
}

// lookup finds the recipe of a set, nil for one that needs no files.
func lookup(spec string) (r *recipe, name string, err error) {
	set, err := Sets.Parse(spec)
	if err != nil {
		return nil, spec, err
	}
	name = Sets.Name(set)
	return recipes[name], name, nil
}

func (r *recipe) locate(o Options) Location {
	for _, c := range r.candidates(o) {
		if probe(c.Path) {
			c.Name, c.Found = r.name, true
			c.list(r)
			return c
		}
	}
	loc := Location{Name: r.name, Path: r.home(o), Origin: Absent}
	for _, f := range r.files {
		loc.Files = append(loc.Files, File{Path: filepath.Join(loc.Path, f.name), State: Missing})
	}
	return loc
}

// home is the folder downloads of the set go to, "" if there is no place.
func (r *recipe) home(o Options) string {
	switch {
	case o.Cache != "":
		return filepath.Join(o.Cache, r.name)
	case o.Dir != "":
		return filepath.Join(o.Dir, r.name)
	}
	return ""
}

// candidates lists the places where the set can be, in order.
func (r *recipe) candidates(o Options) (out []Location) {
	if o.Dir != "" {
		out = append(out, r.inside(o.Dir, FromDir)...)
		if r.claims(filepath.Base(filepath.Clean(o.Dir))) || r.fits(o.Dir) {
			out = append(out, Location{Path: o.Dir, Origin: FromDir})
		}
	}
	if o.Cache != "" {
		out = append(out, r.inside(o.Cache, Cached)...)
	}
	for _, dir := range r.system {
		out = append(out, Location{Path: dir, Origin: System})
	}
	return out
}

// inside lists the entries of dir that bear the set's name: folders first.
func (r *recipe) inside(dir string, from Origin) (out []Location) {
	entries, _ := os.ReadDir(dir) // sorted; a folder that is not there has none
	for _, wantDir := range []bool{true, false} {
		for _, e := range entries {
			p := filepath.Join(dir, e.Name())
			if !r.claims(e.Name()) || strings.HasSuffix(e.Name(), ".part") {
				continue
			}
			if st, err := os.Stat(p); err == nil && st.IsDir() == wantDir {
				out = append(out, Location{Path: p, Origin: from})
			}
		}
	}
	return out
}

// claims tells whether a folder or archive of that name is the set's: of all
// sets, this one's alias is the longest the name begins with. Case and
// punctuation do not count.
func (r *recipe) claims(name string) bool {
	plain := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' {
			return c
		}
		return -1
	}, strings.ToLower(name))
	best, owner := 0, ""
	for _, other := range recipes {
		for _, a := range other.aliases {
			if len(a) > best && strings.HasPrefix(plain, a) {
				best, owner = len(a), other.name
			}
		}
	}
	return owner == r.name
}

// fits tells whether a folder of any name holds the set directly: files of its
// format that are not another set's, or an image folder of as many classes.
func (r *recipe) fits(dir string) bool {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		if e.IsDir() {
			if splitOf(e.Name()) == trainSplit && r.shape.C == 3 {
				n := 0
				classes, _ := os.ReadDir(p)
				for _, c := range classes {
					if c.IsDir() {
						n++
					}
				}
				if n > 0 && (r.classes == 0 || n == r.classes) {
					return true
				}
			}
			continue
		}
		if k, _ := kindOf(p); k == idxKind || k == cifar10Kind || k == cifar100Kind {
			if slices.Contains(r.kinds, k) && !r.foreign(dir) {
				return true
			}
		}
	}
	return false
}

// foreign tells whether dir has the labels of another set: several sets come in
// files of the same names.
func (r *recipe) foreign(dir string) bool {
	for _, other := range recipes {
		for _, f := range other.files {
			if other == r || f.content == "" || !strings.Contains(f.name, "t10k-labels") {
				continue
			}
			for _, name := range []string{f.name, strings.TrimSuffix(f.name, ".gz")} {
				if f.verify(filepath.Join(dir, name)) == Verified {
					return true
				}
			}
		}
	}
	return false
}

// list fills in the files: the official ones, wherever they lie in the folder,
// then others at its top.
func (c *Location) list(r *recipe) {
	seen := map[string]bool{}
	add := func(p string) bool {
		st, err := os.Stat(p)
		if err != nil || !st.Mode().IsRegular() || seen[p] {
			return false
		}
		seen[p] = true
		c.Files = append(c.Files, File{Path: p, Size: st.Size(), State: Present})
		return true
	}
	if add(c.Path) {
		return
	}
	for _, f := range r.files {
		if !add(filepath.Join(c.Path, f.name)) {
			add(filepath.Join(c.Path, strings.TrimSuffix(f.name, ".gz")))
		}
	}
	entries, _ := os.ReadDir(c.Path)
	for i, e := range entries {
		if i < 100 && !strings.HasPrefix(e.Name(), ".") {
			add(filepath.Join(c.Path, e.Name()))
		}
	}
}

// probe tells whether there is anything recognisable at path, looking at no
// more than a few hundred entries.
func probe(path string) bool {
	found, left := false, 300
	filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if left--; left < 0 || err != nil {
			return fs.SkipAll
		}
		if d.IsDir() {
			return nil
		}
		if k, err := kindOf(p); err == nil && k != otherKind && k != labelKind {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// kindOf recognises a file on disk, looking through compression.
func kindOf(path string) (kind, error) {
	f, err := os.Open(path)
	if err != nil {
		return otherKind, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return otherKind, err
	}
	br, packed, err := unwrap(f)
	if err != nil {
		return otherKind, err
	}
	size := st.Size()
	if packed {
		size = -1
	}
	head, _ := br.Peek(headBytes)
	return sniff(path, head, size), nil
}
