package data

import (
	"fmt"
	"image/color"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd"
)

// shard is a tar of samples whose keys are these, of the classes i mod 2; their pictures
// are those of numbers from first on. With more, each has such a member too.
func shard(first int, more string, keys ...string) []byte {
	var in []entry
	for i, k := range keys {
		in = append(in, entry{k + ".png", shade(first + i)}, entry{k + ".cls", []byte(fmt.Sprint(i % 2))})
		if more != "" {
			in = append(in, entry{k + more, shade(200 + i)})
		}
	}
	return tarBytes(in...)
}

// haveSamples fails unless a set has as many training and test samples, each with a
// picture of its own, with labels that take turns in the order of the pictures' numbers.
func haveSamples(t *testing.T, what string, ds sgd.Dataset, train, test int) {
	t.Helper()
	for p, s := range []sgd.Source{ds.Train, ds.Test} {
		got := seen(t, s)
		want := []int{train, test}[p]
		if s.Len() != want || len(got) != want || s.Sample().Classes != 2 {
			t.Errorf("%s: part %d has %d samples, %d different, of %d classes; want %d of 2", what, p, s.Len(), len(got), s.Sample().Classes, want)
		}
		var order []float32
		for x := range got {
			order = append(order, x)
		}
		slices.Sort(order)
		for i, x := range order {
			if got[x] != int32(i%2) {
				t.Errorf("%s: picture %d of part %d has label %d", what, i, p, got[x])
			}
		}
	}
}

// A key ends before the extension, whatever dots are in it; keys may begin anew in every
// shard; a picture with more of an extension is no sample. The same from the index.
func TestKeysOfAWebDataset(t *testing.T) {
	t.Parallel()
	keys := func(format string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf(format, i))
		}
		return out
	}
	one, dots := keys("%06d", 6), keys("v1.%d", 6)
	for what, c := range map[string]struct {
		files       []entry
		train, test int
		note        string
	}{
		"dots": {[]entry{{"train-0000.tar", shard(0, "", dots...)}, {"val-0000.tar", shard(50, "", dots[:4]...)}}, 6, 4, ""},
		"keys begin anew": {[]entry{{"train-0000.tar", shard(0, "", one...)}, {"train-0001.tar", shard(20, "", one...)},
			{"val-0000.tar", shard(50, "", one[:4]...)}}, 12, 4, ""},
		"masks": {[]entry{{"train-0000.tar", shard(0, ".seg.png", one...)}, {"val-0000.tar", shard(50, ".seg.png", one[:4]...)}}, 6, 4,
			"10 with more of an extension"},
		"masks of keys with dots": {[]entry{{"train-0000.tar", shard(0, ".depth.map.PNG", dots...)}, {"val-0000.tar", shard(50,
			".depth.png", dots[:4]...)}}, 6, 4,
			"10 with more of an extension"},
		"keys with folders": {[]entry{{"train-0000.tar", shard(0, ".seg.png", keys("a.b/c.%d", 6)...)}, {"val-0000.tar", shard(50, "",
			keys("train/%d", 4)...)}}, 0, 0, ""},
		"a label more": {[]entry{{"train-0000.tar", shard(0, "", one...)},
			{"val-0000.tar", tarBytes(entry{"0.png", shade(50)}, entry{"0.cls", []byte("0")}, entry{"1.cls", []byte("1")}, entry{"2.png",
				shade(51)}, entry{"2.cls", []byte("1")})}},
			6, 2, "1 of samples without a picture"},
	} {
		if c.train == 0 {
			c.files[1].body = shard(50, "", keys("x.y/%d", 4)...)
			c.train, c.test, c.note = 6, 4, "6 with more of an extension"
		}
		for _, set := range []string{"pictures(path=imagenet,size=8)", "imagenet(size=8)"} {
			var files []entry
			for _, f := range c.files {
				files = append(files, entry{"imagenet/" + f.name, f.body})
			}
			o := Options{Dir: put(t, files...), Cache: t.TempDir()}
			for _, again := range []bool{false, true} {
				ds, err := Open(set, o)
				if err != nil {
					t.Errorf("%s, %s: %v", what, set, err)
					break
				}
				haveSamples(t, fmt.Sprintf("%s, %s, again %v", what, set, again), ds, c.train, c.test)
				if !strings.Contains(ds.Note, c.note) || c.note == "" && strings.Contains(ds.Note, "left out") {
					t.Errorf("%s, again %v: note %q, want %q", what, again, ds.Note, c.note)
				}
			}
		}
	}
}

// Files are the same only by archive and whole path: parts of a set whose pictures have
// the same names in each are read in full, as folders and as tars.
func TestPartsWithTheSameNames(t *testing.T) {
	t.Parallel()
	var loose []entry
	parts := map[string][]entry{}
	for p, part := range []string{"A", "B"} {
		for i := range 8 {
			for _, split := range []string{"train", "val"} {
				n := 40*p + i
				if split == "val" {
					if n += 100; i >= 4 {
						continue
					}
				}
				e := entry{fmt.Sprintf("%s/%s/%d.png", split, []string{"cat", "dog"}[i%2], i), shade(n)}
				parts[part] = append(parts[part], e)
				loose = append(loose, entry{"imagenet/" + part + "/" + e.name, e.body})
			}
		}
	}
	packed := []entry{{"imagenet/A.tar", tarBytes(parts["A"]...)}, {"imagenet/B.zip", zipBytes(parts["B"]...)}}
	for _, set := range []string{"pictures(path=imagenet,size=8)", "imagenet(size=8)"} {
		for what, files := range map[string][]entry{"folders": loose, "archives": packed, "one of each": append(slices.Clone(loose[:12]),
			packed[1])} {
			haveSamples(t, set+" "+what, open(t, set, Options{Dir: put(t, files...)}), 16, 8)
		}
	}
	// An archive beside what it unpacks to may be a copy, or more.
	_, err := Open("pictures(path=imagenet,size=8)", Options{Dir: put(t, append(slices.Clone(loose), packed[0])...)})
	refused(t, err, []string{"A.tar holds train/cat/0.png", filepath.FromSlash("A/train/cat/0.png"), "take one of them away"})
}

// Whatever stands in the way of one picture and one label a sample is refused by name.
func TestSamplesOfAWebDatasetThatAreRefused(t *testing.T) {
	t.Parallel()
	p, c := shade(1), []byte("1")
	good := []entry{{"0.png", p}, {"0.cls", []byte("0")}, {"1.png", p}, {"1.cls", c}}
	with := func(more ...entry) []entry { return append(slices.Clone(good), more...) }
	for name, in := range map[string]struct {
		want  []string
		files []entry
	}{
		"two pictures": {[]string{"sample 2 has two pictures, 2.png and 2.jpg", "2.seg.jpg"}, with(entry{"2.cls", c}, entry{"2.png",
			p}, entry{"2.jpg", p})},
		"two of one name": {[]string{"sample 2 has two members called 2.png"}, with(entry{"2.cls", c}, entry{"2.png", p}, entry{"2.png", p})},
		"two in other case": {[]string{"sample 2 has two pictures, 2.png and 2.PNG"}, with(entry{"2.cls", c}, entry{"2.png", p},
			entry{"2.PNG", p})},
		"two labels":        {[]string{"sample 2 has two members called 2.cls"}, with(entry{"2.cls", c}, entry{"2.png", p}, entry{"2.cls", c})},
		"no label":          {[]string{"2.png has no label: want 2.cls or 2.json"}, with(entry{"2.png", p})},
		"no picture at all": {[]string{"0.depth.png is the picture of no sample"}, []entry{{"0.depth.png", p}, {"0.cls", c}}},
		"two words": {[]string{`the class of 2.png: 2.cls holds "golden retriever"`, "one class"}, with(entry{"2.cls",
			[]byte("golden retriever\n")}, entry{"2.png", p})},
		"an empty label": {[]string{"2.cls is empty"}, with(entry{"2.cls", nil}, entry{"2.png", p})},
		"below zero":     {[]string{"2.cls holds -1; want a number from 0 on"}, with(entry{"2.cls", []byte("-1")}, entry{"2.png", p})},
		"true": {[]string{`2.json has "label": true; want a whole number from 0 on, or a name`}, with(entry{"2.json",
			[]byte(`{"label": true}`)}, entry{"2.png", p})},
		"a list": {[]string{`2.json has "label": [3]`}, with(entry{"2.json", []byte(`{"label": [3]}`)}, entry{"2.png", p})},
		"half":   {[]string{`2.json has "label": 0.5`}, with(entry{"2.json", []byte(`{"label": 0.5}`)}, entry{"2.png", p})},
		"null":   {[]string{`2.json has "label": null`}, with(entry{"2.json", []byte(`{"label": null}`)}, entry{"2.png", p})},
		"a bare number": {[]string{"2.json holds 3; want an object with the class as cls, label, class, wnid"}, with(entry{"2.json",
			[]byte("3")}, entry{"2.png", p})},
		"bare numbers alone": {[]string{"the class of 0.png: 0.json holds 3"}, []entry{{"0.png", p}, {"0.json", []byte("3")}, {"1.png",
			p}, {"1.json", []byte("4")}}},
		"other fields": {[]string{`2.json has no class, but "name"`}, with(entry{"2.json", []byte(`{"name":"x"}`)}, entry{"2.png", p})},
		"no JSON":      {[]string{"2.json is no JSON"}, with(entry{"2.json", []byte(`{"label":`)}, entry{"2.png", p})},
	} {
		for _, pack := range []func(...entry) []byte{tarBytes, zipBytes} {
			_, err := Open("pictures(path=set,size=8)", Options{Dir: put(t, entry{"set/train-0.tar", pack(in.files...)})})
			if err == nil || !strings.Contains(err.Error(), "train-0.tar") {
				t.Errorf("%s: the file is not named: %v", name, err)
				continue
			}
			for _, w := range in.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%s: the message does not say %q: %v", name, w, err)
				}
			}
		}
	}
}

// Names of classes that differ in a slash alone stay two.
func TestClassesOfAWebDatasetWithASlash(t *testing.T) {
	t.Parallel()
	var in []entry
	for i := range 8 {
		key := fmt.Sprint(i)
		in = append(in, entry{key + ".png", pngBytes(uniform(8, 8, color.RGBA{uint8(i), 1, 2, 255}))},
			entry{key + ".json", []byte(fmt.Sprintf(`{"label": %q}`, []string{"a/b", "a_b"}[i%2]))})
	}
	ds := open(t, "pictures(path=set,size=8,test=0.25)", Options{Dir: put(t, entry{"set/shard.tar", tarBytes(in...)})})
	if ds.Train.Len() != 6 || ds.Test.Len() != 2 || ds.Train.Sample().Classes != 2 {
		t.Errorf("%d + %d samples of %d classes", ds.Train.Len(), ds.Test.Len(), ds.Train.Sample().Classes)
	}
}
