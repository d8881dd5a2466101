package data

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Where a set can be. In a folder of data sets, a folder or archive belongs to
// the set whose alias its name begins with ("cifar-10-binary.tar.gz",
// "Fashion-MNIST"); a folder of any name can be the set itself if its content
// fits.

// candidates lists the places where the set can be, in order.
func (r *recipe) candidates(o Options) (out []Location) {
	if r.text {
		return texts(r, o)
	}
	if o.Dir != "" && r.official(o.Dir) {
		out = append(out, Location{Path: o.Dir, Origin: FromDir})
	}
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

// official tells whether dir holds ImageNet's tars as they are downloaded, or its shards.
func (r *recipe) official(dir string) bool {
	entries, _ := os.ReadDir(dir)
	return r.name == "imagenet" && ofImageNet(entries) != nil
}

// inside lists the entries of dir that bear the set's name: folders first.
func (r *recipe) inside(dir string, from Origin) (out []Location) {
	entries, _ := os.ReadDir(dir) // sorted; a folder that is not there has none
	for _, wantDir := range []bool{true, false} {
		for _, e := range entries {
			p := filepath.Join(dir, e.Name())
			if !r.claims(e.Name()) || strings.HasSuffix(e.Name(), partSuffix) {
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
		st, err := os.Stat(p) // a folder may be a link
		if err == nil && st.IsDir() {
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

// texts lists the files, up to two folders deep, that a set of one text can be: of the
// published size, where their name or that of their folder is the set's.
func texts(r *recipe, o Options) (out []Location) {
	for _, from := range []Location{{Path: o.Dir, Origin: FromDir}, {Path: o.Cache, Origin: Cached}} {
		near, _ := filepath.Glob(filepath.Join(from.Path, "*")) // sorted
		below, _ := filepath.Glob(filepath.Join(from.Path, "*", "*"))
		for _, path := range append(near, below...) {
			st, err := os.Stat(path)
			if from.Path != "" && err == nil && st.Mode().IsRegular() && st.Size() == r.files[0].size &&
				(r.claims(filepath.Base(path)) || r.claims(filepath.Base(filepath.Dir(path)))) {
				out = append(out, Location{Path: path, Origin: from.Origin})
			}
		}
	}
	return out
}
