package data

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// probe tells whether there is anything recognisable at path, looking at no
// more than twenty files a folder and some ten thousand entries in all.
func probe(path string) bool {
	found, left, files := false, 20000, map[string]int{}
	var walk func(path string, links int)
	walk = func(path string, links int) {
		if to, err := filepath.EvalSymlinks(path); err == nil {
			path = to // a set is often a link to a bigger disk, or its splits are
		}
		filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if left--; left < 0 || err != nil || found {
				return fs.SkipAll
			}
			if d.IsDir() {
				return nil
			}
			dir := filepath.Dir(p)
			if files[dir]++; files[dir] > 20 {
				return fs.SkipDir // the rest of this folder
			}
			if d.Type()&fs.ModeSymlink != 0 && links < 2 {
				if st, err := os.Stat(p); err == nil && st.IsDir() {
					if splitOf(d.Name()) >= 0 || splitOf(filepath.Base(dir)) >= 0 {
						walk(p, links+1)
					}
					return nil
				}
			}
			if k, err := kindOf(p); err == nil && k.samples() {
				found = true
				return fs.SkipAll
			}
			return nil
		})
	}
	walk(path, 0)
	return found
}

// kindOf recognises a file on disk, looking through compression.
func kindOf(path string) (kind, error) {
	if strings.HasSuffix(path, partSuffix) {
		return otherKind, nil
	}
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() { // a pipe would be waited for
		return otherKind, err
	}
	f, err := os.Open(path)
	if err != nil {
		return otherKind, err
	}
	defer f.Close()
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
