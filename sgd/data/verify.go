package data

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Verify locates the set and reads its official files, comparing them with the
// published checksums; others stay Present. A set that is not there is a
// MissingError. Files that differ are not an error: look at their State.
func Verify(name string, o Options) (Location, error) {
	r, name, err := lookup(name)
	if err != nil || r == nil {
		return Location{Name: name, Origin: BuiltIn, Found: err == nil}, err
	}
	loc := r.locate(o)
	if !loc.Found {
		return loc, r.missing(o, nil)
	}
	for i := range loc.Files {
		base := strings.TrimSuffix(filepath.Base(loc.Files[i].Path), ".gz")
		for _, f := range r.files {
			if strings.TrimSuffix(f.name, ".gz") == base {
				loc.Files[i].State = f.verify(loc.Files[i].Path)
			}
		}
	}
	return loc, nil
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
