package data

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// labels is the class of each test picture that a text gives, by the picture's name
// without folder and extension. These texts are known:
//
//   - picture and class begin each line, apart by tab, comma or space:
//     val_annotations.txt, LOC_val_solution.csv, and val.txt with classes numbered
//     from 0 in the order of their names;
//   - a class a line, for the pictures by number:
//     ILSVRC2012_validation_ground_truth.txt, whose classes are numbered as in ILSVRC
//     2012 or as map_clsloc.txt says, and imagenet_2012_validation_synset_labels.txt.
func (t *tree) labels(test []labelled, classes []string) (map[string]string, error) {
	out := map[string]string{}
	for _, f := range t.of(labelKind) {
		b, err := t.read(f)
		if err != nil {
			return nil, err
		}
		var alone []string
		pairs := false
		for line := range strings.Lines(string(b)) {
			w := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("\t ,\r\n", r) })
			switch {
			case len(w) >= 2:
				out[stem(w[0])] = w[1]
				pairs = true
			case len(w) == 1:
				alone = append(alone, w[0])
			}
		}
		if pairs || len(alone) < len(test) {
			continue
		}
		if err := t.byNumber(out, test, alone, known(classes)); err != nil {
			return nil, t.wrap(f.path(), err)
		}
	}
	indexed(out, test, classes)
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
