package data

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// An image folder keeps its classes apart by folder, below a folder for each
// split:
//
//	…/train/<class>/…/picture
//	…/val/<class>/…/picture      or validation, valid, test
//
// The pictures of val may also lie in one heap, as in Tiny ImageNet and
// ImageNet, if a text beside them (val_annotations.txt, LOC_val_solution.csv)
// begins its lines with picture and class. Where there is a val, test is left
// alone: those sets publish no labels for it. Classes are numbered by name,
// samples ordered by path.

// labelled is a picture and its class.
type labelled struct {
	*file
	rel   string // from the split's folder on
	label int32
}

const (
	trainSplit = iota
	valSplit
	testSplit
)

func splitOf(part string) int {
	switch strings.ToLower(part) {
	case "train", "training":
		return trainSplit
	case "val", "valid", "validation":
		return valSplit
	case "test", "testing":
		return testSplit
	}
	return -1
}

// imageFolder sorts a tree's pictures into train and test and numbers the
// classes.
func (t *tree) imageFolder() (parts [2][]labelled, classes []string, err error) {
	var splits [3][]labelled
	for _, f := range t.of(imageKind) {
		comps := strings.Split(f.name, "/")
		for i, c := range comps[:len(comps)-1] {
			if s := splitOf(c); s >= 0 {
				splits[s] = append(splits[s], labelled{file: f, rel: strings.Join(comps[i+1:], "/")})
				break
			}
		}
	}
	train, test := splits[trainSplit], splits[valSplit]
	if len(test) == 0 {
		test = splits[testSplit]
	}
	if len(train) == 0 || len(test) == 0 {
		err = fmt.Errorf("%s: no pictures under both train/ and val/ (or test/): %d and %d of %d", t.root, len(train), len(test), len(t.files))
		if t.links > 0 {
			err = fmt.Errorf("%w; %d symbolic links that leave the folder were not followed", err, t.links)
		}
		return parts, nil, err
	}
	for _, l := range train {
		classes = append(classes, classOf(l.rel))
	}
	slices.Sort(classes)
	classes = slices.Compact(classes)
	given, err := t.labels()
	if err != nil {
		return parts, nil, err
	}
	for p, list := range [][]labelled{train, test} {
		slices.SortStableFunc(list, func(a, b labelled) int { return strings.Compare(a.rel, b.rel) })
		list = slices.CompactFunc(list, func(a, b labelled) bool { return a.rel == b.rel })
		for i := range list {
			class := classOf(list[i].rel)
			if c, ok := given[stem(list[i].rel)]; ok && p == 1 {
				class = c
			}
			y, ok := slices.BinarySearch(classes, class)
			if !ok || class == "" {
				return parts, nil, t.wrap(list[i].path(), fmt.Errorf("no class for it: %q is none of the %d under train/", class, len(classes)))
			}
			list[i].label = int32(y)
		}
		parts[p] = list
	}
	return parts, classes, nil
}

// classOf is the folder right below the split, "" for a picture in a heap.
func classOf(rel string) string {
	class, _, ok := strings.Cut(rel, "/")
	if !ok {
		return ""
	}
	return class
}

// stem is a picture's name without folders and extension.
func stem(name string) string {
	base := path.Base(name)
	return strings.TrimSuffix(base, path.Ext(base))
}

// labels reads the label texts: picture and class, apart by tab, comma or
// space, begin each line.
func (t *tree) labels() (map[string]string, error) {
	out := map[string]string{}
	for _, f := range t.of(labelKind) {
		b, err := t.read(f)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			w := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("\t ,\r\n", r) })
			if len(w) >= 2 {
				out[stem(w[0])] = w[1]
			}
		}
	}
	return out, nil
}
