package text

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// Endings of files that can be read.
const (
	Plain   = ".txt"
	Binary  = ".bin" // tokens
	Parquet = ".parquet"
)

// Files are the files of a set, all of one ending, in the order of their names. Test has
// those whose names, or those of folders, say so; where there are none, all are in Train.
type Files struct {
	Ending      string
	Train, Test []string
	Note        string // what was left out
}

// List finds the files of a set: one file, or those of a folder and of folders below it, of
// which hidden ones are left out. A file whose ending is none of them is plain. Where a folder
// has texts and files of tokens, those of tokens are for IDs. It is an error if the files there
// are not what this kind of tokens is of.
func List(path string, of Kind) (f Files, err error) {
	_, tokens := of.(IDs)
	defer func() {
		_, pairs := of.(BPE)
		switch {
		case err != nil:
		case f.Ending == Binary && !tokens && !pairs:
			err = fmt.Errorf("%s has tokens; say of which vocabulary they are: tokens=bpe(path=…), or tokens=ids(size=…)", f.Train[0])
		case f.Ending != Binary && tokens:
			err = fmt.Errorf("%s has a text; want tokens=chars, bytes or bpe(path=…)", f.Train[0])
		}
	}()
	st, err := os.Stat(path)
	if err != nil {
		return f, err
	}
	if !st.IsDir() {
		f.Ending, f.Train = strings.ToLower(filepath.Ext(path)), []string{path}
		if f.Ending != Binary && f.Ending != Parquet {
			f.Ending = Plain
		}
		return f, nil
	}
	found := map[string][]string{}
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p != path && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if ending := strings.ToLower(filepath.Ext(p)); !d.IsDir() && slices.Contains([]string{Plain, Binary, Parquet}, ending) {
			found[ending] = append(found[ending], p)
		}
		return nil
	})
	if err != nil {
		return f, err
	}
	if n := len(found[Plain]) + len(found[Parquet]); tokens && len(found[Binary]) > 0 {
		found = map[string][]string{Binary: found[Binary]}
	} else if n > 0 {
		delete(found, Binary)
	}
	switch {
	case len(found) == 0:
		return f, fmt.Errorf("%s: there are no files %s, %s or %s", path, Plain, Parquet, Binary)
	case len(found) > 1:
		return f, fmt.Errorf("%s: there are both %s, such as %s, and %s, such as %s; name a file, or a folder with one kind", path, Plain, found[Plain][0], Parquet, found[Parquet][0])
	}
	for ending, list := range found {
		f.Ending = ending
		if err := f.divide(path, list); err != nil {
			return f, err
		}
	}
	return f, nil
}

// Words of names by which files are divided: of validation before those of tests, which are
// then left out.
var (
	validation = []string{"val", "valid", "validation", "dev"}
	tests      = []string{"test", "eval"}
)

// divide tells the parts by names.
func (f *Files) divide(root string, list []string) error {
	var held [2][]string
	for _, p := range list {
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		words := strings.FieldsFunc(strings.ToLower(rel), func(r rune) bool { return !unicode.IsLetter(r) })
		says := func(of []string) bool {
			return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(of, w) })
		}
		switch {
		case says(validation):
			held[0] = append(held[0], p)
		case says(tests):
			held[1] = append(held[1], p)
		default:
			f.Train = append(f.Train, p)
		}
	}
	if f.Test = held[0]; len(held[0]) == 0 {
		f.Test = held[1]
	} else if len(held[1]) > 0 {
		f.Note = fmt.Sprintf("left out: %d files of a test set, as there is one for validation", len(held[1]))
	}
	if len(f.Train) == 0 {
		return fmt.Errorf("%s: all files, such as %s, are of a test set by their names; none is left to train on", root, f.Test[0])
	}
	return nil
}
