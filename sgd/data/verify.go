package data

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// digests compares official files with what is published of them.
func (r *recipe) digests(loc *Location) {
	for i := range loc.Files {
		base := strings.TrimSuffix(filepath.Base(loc.Files[i].Path), ".gz")
		for _, f := range r.files {
			if strings.TrimSuffix(f.name, ".gz") == base || r.text { // a text may have any name
				loc.Files[i].State = f.verify(loc.Files[i].Path)
			}
		}
	}
}

// vouched tells whether every official file is there and verified.
func (r *recipe) vouched(files []File) bool {
	n := 0
	for _, f := range files {
		if f.State == Verified {
			n++
		}
	}
	return len(r.files) > 0 && n >= len(r.files)
}

// readAll reads every sample of a set in files of many, for loc to tell what is wrong.
func (r *recipe) readAll(t *tree, loc *Location, o Options) {
	broken := func(path string, why error) {
		loc.Unread++
		if loc.Unread <= 100 {
			loc.Files = append(loc.Files, File{Path: path, State: Broken, Why: why.Error()})
		}
	}
	if slices.Contains(r.kinds, npyKind) {
		r.checkBatches(t, loc, o, broken)
		return
	}
	l, err := t.load(r, "", o)
	if err != nil {
		broken(loc.Path, err)
		return
	}
	loc.Samples = len(l.parts[0].label) + len(l.parts[1].label)
}

// packed tells whether the set is read from files of many samples, not pictures.
func (r *recipe) packed(t *tree) bool {
	for _, k := range r.kinds {
		if len(t.of(k)) > 0 {
			return true
		}
	}
	return false
}

// verify compares the file at path with what is published of it: the digest of
// its content unpacked if that is known, since packings vary, else of the file.
func (f *remote) verify(path string) State {
	in, err := os.Open(path)
	if err != nil {
		return Missing
	}
	defer in.Close()
	var (
		body io.Reader = in
		sum  hash.Hash = sha256.New()
		want           = f.raw
	)
	switch {
	case f.content != "":
		want = f.content
		if body, _, err = unwrap(in); err != nil {
			return Differs
		}
	case f.raw == "" && f.md5 != "":
		sum, want = md5.New(), f.md5
	case f.raw == "":
		return Present
	}
	if _, err := io.Copy(sum, io.LimitReader(body, maxBlob)); err != nil {
		return Differs
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return Differs
	}
	return Verified
}
