package data

import (
	"errors"
	"fmt"
	"path"
)

// unclassed keeps why pictures of an archive have no class, of the first of them.
func (t *tree) unclassed(from, why string) {
	if t.bare == nil {
		t.bare = map[string]string{}
	}
	if t.bare[from] == "" {
		t.bare[from] = why
	}
}

// noClass is the error of a picture that needs a class and has none. It names the label
// that was seen.
func (t *tree) noClass(f *file) error {
	if why := t.bare[f.from]; why != "" {
		return t.wrap(f.from, errors.New(why))
	}
	return t.wrap(f.path(), errors.New("it lies in no folder of a class; want a folder for each of two classes or more"))
}

// why adds to the error of a set of one's own which tables were left out, and how a folder
// was taken that is called as a part of a set and holds pictures right in it.
func (t *tree) why(err error) error {
	for i := range t.files {
		f := &t.files[i]
		if dir := path.Base(path.Dir(f.path())); f.kind == imageKind && f.class == "" && splitOf(dir) >= 0 {
			err = fmt.Errorf("%w. A folder called %s is taken for that part of the set, with a folder for each class in it; if it is a class, call the folder otherwise", err, dir)
			break
		}
	}
	if len(t.tables) > 0 {
		err = fmt.Errorf("%w; left out: %s", err, listed(t.tables))
	}
	return err
}
