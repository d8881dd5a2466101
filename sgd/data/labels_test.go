package data

import (
	"slices"
	"strings"
	"testing"
)

// The folder of a class decides, whatever texts lie beside it, in folders and in tars.
func TestTextsDoNotRelabelClassFolders(t *testing.T) {
	t.Parallel()
	files := []entry{{"set/train/cat/0.png", shade(0)}, {"set/train/dog/1.png", shade(1)}, {"set/val/cat/2.png", shade(2)},
		{"set/val/dog/3.png", shade(3)}}
	want := open(t, "pictures(path=set,size=8)", Options{Dir: put(t, files...)})
	wrong := []byte("file,class,score\n2.png,dog,0.9\n3.png,cat,0.9\n")
	for _, name := range []string{"val_predictions.csv", "eval.txt", "val.txt", "val/val_annotations.txt", "LOC_val_solution.csv",
		"interval.csv", "ILSVRC2012_validation_ground_truth.txt"} {
		with := append(slices.Clone(files), entry{"set/" + name, wrong})
		sameSet(t, name, open(t, "pictures(path=set,size=8)", Options{Dir: put(t, with...)}), want)
		sameSet(t, name+" in a tar", open(t, "pictures(path=set.tar,size=8)", Options{Dir: put(t, entry{"set.tar", tarBytes(with...)})}), want)
	}
}

// A heap has the classes that a text of a documented name gives, which are in the hash. A
// text of another name gives none, and texts that differ are refused.
func TestTextsOfHeaps(t *testing.T) {
	t.Parallel()
	files := []entry{{"set/train/cat/0.png", shade(0)}, {"set/train/dog/1.png", shade(1)}, {"set/val/images/2.png", shade(2)},
		{"set/val/images/3.png", shade(3)}}
	with := func(more ...entry) string { return put(t, append(slices.Clone(files), more...)...) }
	right, wrong := []byte("2.png cat\n3.png dog\n"), []byte("2.png\tdog\n3.png\tcat\n")
	var hash []uint64
	for _, c := range []struct {
		name string
		body []byte
		want []int32
	}{{"val_annotations.txt", right, []int32{0, 1}}, {"VAL.txt", append([]byte("\ufeff"), right...), []int32{0, 1}}, {"val.txt",
		[]byte("2.png 0\n3.png 1\n"), []int32{0, 1}},
		{"LOC_val_solution.csv", []byte("ImageId,PredictionString\n2,cat 1 2 3 4\n3,dog 1 2 3 4\n"), []int32{0, 1}},
		{"val_annotations.txt", wrong, []int32{1, 0}}} {
		ds := open(t, "pictures(path=set,size=8)", Options{Dir: with(entry{"set/val/" + c.name, c.body}, entry{"set/val_predictions.csv",
			wrong})})
		got := seen(t, ds.Test)
		var order []float32
		for x := range got {
			order = append(order, x)
		}
		if slices.Sort(order); len(order) != 2 || got[order[0]] != c.want[0] || got[order[1]] != c.want[1] {
			t.Errorf("%s: %v, want %v in the order of the pictures", c.name, got, c.want)
		}
		if !strings.Contains(ds.Note, "1 .csv") {
			t.Errorf("%s: what is no text of labels is not said: %q", c.name, ds.Note)
		}
		hash = append(hash, ds.Hash)
	}
	if hash[0] != hash[1] || hash[0] != hash[2] || hash[0] != hash[3] || hash[0] == hash[4] {
		t.Errorf("hashes %x, want those of the same classes alike, and the last another", hash)
	}
	for what, c := range map[string]struct {
		want []string
		dir  string
	}{
		"no text": {[]string{"2.png: no class for it", "val_annotations.txt, LOC_val_solution.csv, val.txt"},
			with(entry{"set/val_labels.csv", right})},
		"two texts": {[]string{"two classes for 2", `"cat" by val.txt`, `"dog" by val/val_annotations.txt`}, with(entry{"set/val.txt",
			right}, entry{"set/val/val_annotations.txt", wrong})},
		"twice in it": {[]string{"val.txt: line 3", `"2" is of class "dog", and of class "cat"`}, with(entry{"set/val.txt",
			append(slices.Clone(right), "2.png dog\n"...)})},
		"part of it": {[]string{"3.png: no class for it"}, with(entry{"set/val.txt", []byte("2.png cat\n")})},
		"a folder that is no class": {[]string{"4.png: no class for it", `"fox"`},
			with(entry{"set/val/cat/5.png", shade(5)}, entry{"set/val/fox/4.png", shade(4)}, entry{"set/val.txt",
				[]byte("2 cat\n3 dog\n4 dog\n5 dog\n")})},
	} {
		_, err := Open("pictures(path=set,size=8)", Options{Dir: c.dir})
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: the message does not say %q: %v", what, w, err)
			}
		}
	}
}
