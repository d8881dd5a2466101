package data

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
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

// noClass is the error of a picture that needs a class and has none. It names what was
// seen in place of one.
func (t *tree) noClass(f *file) error {
	if why := t.bare[f.from]; why != "" {
		return t.wrap(f.from, errors.New(why))
	}
	if why := t.labelSeen(f); why != "" {
		return t.wrap(f.path(), errors.New(why))
	}
	return t.wrap(f.path(), errors.New("it lies in no folder of a class; want a folder for each of two classes or more"+splitNamed(f)))
}

// splitNamed says of a picture right below train/, val/ or test/ how that was taken.
func splitNamed(f *file) string {
	dir := path.Base(path.Dir(f.path()))
	if splitOf(dir) < 0 {
		return ""
	}
	return fmt.Sprintf(". A folder called %s is taken for that part of the set, with a folder for each class in it; if it is a class, call the folder otherwise", dir)
}

// labelSeen says what the label of a WebDataset's picture is, which is no class; "" where
// there is none. The tar is walked through again for it.
func (t *tree) labelSeen(f *file) string {
	if f.from == "" {
		return ""
	}
	on, err := os.Open(filepath.Join(t.root, filepath.FromSlash(f.from)))
	if err != nil {
		return ""
	}
	defer on.Close()
	in, _, err := unwrap(on)
	if err != nil {
		return ""
	}
	key, seen := wdsKey(f.name), ""
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err != nil {
			return seen
		}
		name, ok := entryName(h.Name)
		if ext := path.Ext(name); !ok || ext != ".cls" && ext != ".json" || wdsKey(name) != key {
			continue
		}
		b, err := readAll(r, 1<<20)
		if err == nil && (seen == "" || path.Ext(name) == ".cls") {
			seen = noLabel(path.Base(name), b)
		}
	}
}

// noLabel says what a file holds in place of a label.
func noLabel(name string, b []byte) string {
	if path.Ext(name) == ".cls" {
		return fmt.Sprintf("%s holds %.60q; want one word or number, the class", name, strings.TrimSpace(string(b)))
	}
	const want = "want an object with the class, a word or a number, as cls, label, class or wnid"
	var fields map[string]json.RawMessage
	if json.Unmarshal(b, &fields) != nil {
		return fmt.Sprintf("%s holds %.60q; %s", name, strings.TrimSpace(string(b)), want)
	}
	for _, key := range []string{"cls", "label", "class", "wnid"} {
		if v, ok := fields[key]; ok {
			return fmt.Sprintf("%s has %.60s as %s; %s", name, v, key, want)
		}
	}
	return fmt.Sprintf("%s has no label; %s", name, want)
}
