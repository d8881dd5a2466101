package data

import (
	"fmt"
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
	Yours   Origin = "files of your own"
	Absent  Origin = "absent"
)

// State says what is known of a file.
type State string

const (
	Missing  State = "missing"
	Present  State = "present"  // not checked, or nothing known to check it by
	Verified State = "verified" // has the official content
	Differs  State = "differs"  // does not
	Broken   State = "broken"   // cannot be read: see Why
)

// File is one file of a set.
type File struct {
	Path  string
	Size  int64 // bytes; 0 if missing
	State State
	Why   string // of State Broken: what went wrong
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

	Samples int // that Verify read: all of a set with a file that no checksum vouches for
	Unread  int // of them, those that cannot be read; Files names up to 100
}

// Err says what Verify found wrong: files that are missing, broken or not the
// official ones. It is nil if nothing was.
func (l Location) Err() error {
	var wrong []string
	for state, what := range map[State]string{Missing: "missing", Differs: "not the official content", Broken: "cannot be read"} {
		n := 0
		for _, f := range l.Files {
			if f.State == state {
				n++
			}
		}
		if state == Broken {
			n = max(n, l.Unread)
		}
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %s", count(n, "file"), what))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("data: %s: %s", l.Name, strings.Join(wrong, "; "))
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
	if _, own := set.(owned); own {
		return nil, name, fmt.Errorf("data: %s is files of your own, which a run names: data=%s(path=…); gradlab data '%s(path=…)' shows them", name, name, name)
	}
	return recipes[name], name, nil
}

func (r *recipe) locate(o Options) Location {
	for _, c := range r.candidates(o) {
		if r.text || probe(c.Path) {
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
