package data

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Texts that give the classes of test pictures in a heap. No other name is read as one,
// so that predictions, or lists of what is for validation, relabel nothing:
//
//   - picture and class begin each line, apart by tab, comma or space:
//     val_annotations.txt, LOC_val_solution.csv, and val.txt, whose classes may be
//     numbered from 0 in the order of their names;
//   - a class a line, for the pictures by number:
//     ILSVRC2012_validation_ground_truth.txt, whose classes are numbered as in ILSVRC
//     2012 or as map_clsloc.txt says, and imagenet_2012_validation_synset_labels.txt.
var labelTexts = []string{
	"val_annotations.txt", "LOC_val_solution.csv", "val.txt",
	"ILSVRC2012_validation_ground_truth.txt", "imagenet_2012_validation_synset_labels.txt",
}

// isNamed reports whether a name without folders is one of these, in any case.
func isNamed(base string, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, base) })
}

// labels is the class of each test picture that a text gives, by the picture's name
// without folder and extension. Texts that differ on a picture are an error.
func (t *tree) labels(test []labelled, classes []string) (map[string]string, error) {
	out, from := map[string]string{}, map[string]string{}
	is := map[string]bool{}
	for _, l := range test {
		is[stem(l.rel)] = true
	}
	for _, f := range t.of(labelKind) {
		b, err := t.read(f)
		if err != nil {
			return nil, err
		}
		var alone []string
		pairs := false
		of, line := map[string]string{}, 0
		for text := range strings.Lines(strings.TrimPrefix(string(b), "\ufeff")) {
			line++
			w := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("\t ,\r\n", r) })
			switch {
			case len(w) >= 2:
				name := stem(w[0])
				if was, ok := of[name]; ok && was != w[1] && is[name] {
					err := fmt.Errorf("line %d: %.40q is of class %.40q, and of class %.40q in an earlier line", line, name, w[1], was)
					return nil, t.wrap(f.path(), err)
				}
				of[name] = w[1]
				pairs = true
			case len(w) == 1:
				alone = append(alone, w[0])
			}
		}
		if !pairs && len(alone) > 0 && len(alone) >= len(test) {
			if err := t.byNumber(of, test, alone, known(classes)); err != nil {
				return nil, t.wrap(f.path(), err)
			}
		}
		indexed(of, test, classes)
		for _, name := range slices.Sorted(maps.Keys(of)) {
			c := of[name]
			if was, ok := out[name]; ok && was != c && is[name] {
				return nil, fmt.Errorf("%s: two classes for %s: %.40q by %s, %.40q by %s", t.at, name, was, from[name], c, f.path())
			}
			out[name], from[name] = c, f.path()
		}
	}
	return out, nil
}

func known(classes []string) map[string]bool {
	out := map[string]bool{}
	for _, c := range classes {
		out[c] = true
	}
	return out
}

// byNumber gives picture n, the number its name ends with, the n-th class of a list.
func (t *tree) byNumber(out map[string]string, test []labelled, list []string, classes map[string]bool) error {
	folder := func(c string) (string, error) { return c, nil }
	if !classes[list[0]] {
		ids, err := t.classNumbers(classes)
		if err != nil {
			return err
		}
		folder = func(c string) (string, error) {
			f, ok := ids[c]
			if !ok {
				return "", fmt.Errorf("class %.20q by number, and no folder here is that class of ILSVRC 2012: put map_clsloc.txt beside it, with the folder and the number of each class", c)
			}
			return f, nil
		}
	}
	for _, l := range test {
		name := stem(l.rel)
		digits := name[len(strings.TrimRight(name, "0123456789")):]
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 || n > len(list) {
			continue // not of this list
		}
		if out[name], err = folder(list[n-1]); err != nil {
			return err
		}
	}
	return nil
}

// ilsvrc2012 is the folders (WordNet's ids) of the classes of ILSVRC 2012, in the order of
// their numbers from 1 (ILSVRC2012_ID): what meta.mat of its development kit says.
//
//go:embed ilsvrc2012.txt
var ilsvrc2012 string

// classNumbers is the folder of each class by its number: from texts with number and folder
// in each line, else that of ILSVRC 2012. Folders that are not there are left out.
func (t *tree) classNumbers(classes map[string]bool) (map[string]string, error) {
	out := map[string]string{}
	for _, f := range t.of(mapKind) {
		b, err := t.read(f)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			w := strings.Fields(line)
			if len(w) < 2 {
				continue
			}
			if _, err := strconv.Atoi(w[0]); err == nil {
				w[0], w[1] = w[1], w[0]
			}
			if _, err := strconv.Atoi(w[1]); err == nil && classes[w[0]] {
				out[w[1]] = w[0]
			}
		}
	}
	if len(out) == 0 {
		for i, folder := range strings.Fields(ilsvrc2012) {
			if classes[folder] {
				out[strconv.Itoa(i+1)] = folder
			}
		}
	}
	return out, nil
}

// indexed turns classes that are given as places in the order of the folders, from 0,
// into the folders; they are taken for such only if that fits every test picture.
func indexed(given map[string]string, test []labelled, classes []string) {
	folders := known(classes)
	to := map[string]string{}
	for _, l := range test {
		c, ok := given[stem(l.rel)]
		if !ok {
			continue
		}
		n, err := strconv.Atoi(c)
		if err != nil || n < 0 || n >= len(classes) || folders[c] {
			return
		}
		to[stem(l.rel)] = classes[n]
	}
	for name, c := range to {
		given[name] = c
	}
}
