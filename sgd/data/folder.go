package data

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// An image folder keeps its classes apart by folder, below a folder for each
// split:
//
//	…/train/<class>/…/picture
//	…/val/<class>/…/picture      or validation, valid, test
//
// The pictures of val may also lie in one heap, as in Tiny ImageNet and
// ImageNet, if there is a text with their classes: see labelTexts. Where a picture lies
// in the folder of a class no text counts. Where there is a val, test is left
// alone: those sets publish no labels for it. Classes are numbered by name,
// samples ordered by path. The tars of ILSVRC and the shards of a WebDataset are
// such folders too: see splits and tarScan.

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

// splits sorts pictures by split: by the folders they are in or, where no folder
// says, by the archive: the path of train/n01440764.tar, and the names of
// ILSVRC2012_img_val.tar and imagenet-train-0042.tar.
func (t *tree) splits() (out [3][]labelled) {
	list := t.of(imageKind)
	add := func(f *file, s int, rel string) {
		if f.class != "" {
			rel = f.class + "/" + rel
		}
		out[s] = append(out[s], labelled{file: f, rel: rel})
	}
	for _, f := range list {
		comps := strings.Split(f.name, "/")
		for i, c := range comps[:len(comps)-1] {
			if s := splitOf(c); s >= 0 {
				add(f, s, strings.Join(comps[i+1:], "/"))
				break
			}
		}
	}
	if n := len(out[0]) + len(out[1]) + len(out[2]); n > 0 {
		if n < len(list) {
			t.left.add("in no folder of a split", len(list)-n)
		}
		return out
	}
next:
	for _, f := range list {
		if f.from == "" {
			continue
		}
		below := strings.TrimSuffix(f.from, path.Ext(f.from))
		comps := strings.Split(below, "/")
		for i, c := range comps {
			if s := splitOf(c); s >= 0 {
				add(f, s, path.Join(path.Join(comps[i+1:]...), f.name))
				continue next
			}
		}
		p := partOf(below)
		if path.Ext(f.from) == ".parquet" { // train-00000-of-00002, validation-…, test-…
			word, _, _ := strings.Cut(path.Base(below), "-")
			p = splitOf(word)
		}
		if p >= 0 {
			add(f, p, f.name)
		}
	}
	return out
}

// imageFolder sorts a tree's pictures into train and test and numbers the
// classes. share is how many of each class are for testing where nothing says; 0: that
// is an error.
func (t *tree) imageFolder(share float64) (parts [2][]labelled, classes []string, err error) {
	splits := t.splits()
	if err := t.divide(&splits, share); err != nil {
		return parts, nil, err
	}
	train, test := splits[trainSplit], splits[valSplit]
	if len(test) == 0 {
		test = splits[testSplit]
	} else if n := len(splits[testSplit]); n > 0 {
		t.left.add("in a test split beside one for validation", n)
	}
	if len(train) == 0 || len(test) == 0 {
		return parts, nil, t.andLeftOut(fmt.Errorf("%s: no pictures under both train/ and val/ (or test/): %d and %d of %d; %s; "+
			"data=pictures(path=…) holds a share of each class back for testing", t.at, len(train), len(test), len(t.of(imageKind)), lookedFor))
	}
	if err := t.unpackedBeside(train, test); err != nil {
		return parts, nil, err
	}
	for _, l := range train {
		classes = append(classes, classOf(l.rel))
	}
	slices.Sort(classes)
	classes = slices.Compact(classes)
	given, err := t.given(test, classes)
	if err != nil {
		return parts, nil, err
	}
	if train[0].class != "" {
		classes = numbered(classes)
	}
	class := map[string]int32{}
	for y, c := range classes {
		class[c] = int32(y)
	}
	for i, l := range test {
		if c := given[l.path()]; c != "" && l.from != "" && classOf(l.rel) == "" && splitOf(path.Base(path.Dir(l.name))) < 0 {
			test[i].rel = c + "/" + l.rel // as if it lay in its class's folder
		}
	}
	for p, list := range [][]labelled{train, test} {
		slices.SortStableFunc(list, func(a, b labelled) int {
			return cmp.Or(strings.Compare(a.rel, b.rel), strings.Compare(a.path(), b.path()))
		})
		for i := range list {
			c := classOf(list[i].rel)
			if g := given[list[i].path()]; g != "" && p == 1 {
				c = g
			}
			y, ok := class[c]
			if c == "" && t.bare[list[i].from] != "" {
				return parts, nil, t.noClass(list[i].file)
			}
			if !ok || c == "" {
				return parts, nil, t.wrap(list[i].path(), unlabelled(c, len(classes), strings.HasPrefix(path.Base(list[i].name), "ILSVRC2012_val_")))
			}
			list[i].label = y
		}
		parts[p] = list
	}
	return parts, classes, nil
}

// given is the classes that texts give to test pictures, by path: to those in no folder
// and, where none lies in the folder of a class, to those in other folders.
func (t *tree) given(test []labelled, classes []string) (map[string]string, error) {
	folder := known(classes)
	heap := !slices.ContainsFunc(test, func(l labelled) bool { return folder[classOf(l.rel)] })
	wants := func(l labelled) bool { return l.class == "" && (heap || classOf(l.rel) == "") }
	if !slices.ContainsFunc(test, wants) {
		return nil, nil
	}
	by, err := t.labels(test, classes)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, l := range test {
		if c, ok := by[stem(l.rel)]; ok && wants(l) {
			out[l.path()] = c
		}
	}
	return out, nil
}

// unpackedBeside refuses pictures of an archive that are there unpacked too: nothing says
// whether they are copies.
func (t *tree) unpackedBeside(parts ...[]labelled) error {
	all := slices.Concat(parts...)
	if !slices.ContainsFunc(all, func(l labelled) bool { return l.from != "" }) {
		return nil
	}
	loose := map[string]bool{}
	for _, l := range all {
		if l.from == "" {
			loose[l.name] = true
		}
	}
	for _, l := range all {
		if l.from == "" {
			continue
		}
		for _, dir := range []string{path.Dir(l.from), stemOf(l.from)} {
			if at := path.Join(dir, l.name); loose[at] {
				return fmt.Errorf("%s: %s holds %s, which lies unpacked beside it as %s; "+
					"take one of them away, or move it to a folder of its own", t.at, l.from, l.name, at)
			}
		}
	}
	return nil
}

// unlabelled says what is wrong with a picture whose class is not known.
func unlabelled(class string, classes int, official bool) error {
	err := fmt.Errorf("no class for it: %q is none of the %d under train/, and no text gives it one; "+
		"read are %s, of pictures that lie in no folder of a class", class, classes, strings.Join(labelTexts, ", "))
	if official {
		err = fmt.Errorf("%w; put ILSVRC2012_devkit_t12.tar.gz or LOC_val_solution.csv beside the pictures, either has the labels", err)
	}
	return err
}

// numbered is the classes of a WebDataset: where all are numbers these are the
// labels, else they are numbered by name.
func numbered(classes []string) []string {
	most := -1
	for _, c := range classes {
		n, err := strconv.Atoi(c)
		if err != nil || n < 0 || n >= maxClasses || strconv.Itoa(n) != c {
			return classes
		}
		most = max(most, n)
	}
	out := make([]string, most+1)
	for i := range out {
		out[i] = strconv.Itoa(i)
	}
	return out
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
