package data

import (
	"fmt"
	"hash/fnv"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
)

// PictureFolder is pictures of your own, decoded as a batch is filled: a folder with a
// folder for each class, with train/ and val/ above them or without; such a folder as a
// tar or zip; shards of a WebDataset; Parquet files of Hugging Face's datasets. Where
// nothing says what is for testing, a share of each class is, picked by a fixed
// permutation. Inputs are scaled and augmented as ImageNet's.
//
// The data set's Hash covers the names of the files and their classes, and not their bytes.
type PictureFolder struct {
	Path string  `doc:"folder or archive; below --data-dir, or as it is"`
	Size int     `doc:"side of a sample in pixels"`
	Test float64 `doc:"share of each class that is the test set, where no folder or file is for it"`
	Pictures
}

var _ = Sets.Add("pictures", "your own pictures: a folder for each class, an archive, or Parquet files", PictureFolder{Size: 64, Test: 0.2, Pictures: defaultPictures})

// Validate checks the options.
func (s PictureFolder) Validate() error {
	if !(s.Test > 0 && s.Test < 1) {
		return fmt.Errorf("option \"test\": want a share between 0 and 1, not %g", s.Test)
	}
	return ImageNet{s.Size, s.Pictures}.Validate()
}

func (PictureFolder) own() {}

// Open lists the pictures and serves them from their files, which stay open.
func (s PictureFolder) Open(o Options) (sgd.Dataset, error) {
	if err := s.Validate(); err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: pictures: %w", err)
	}
	at, err := ownPath("pictures", s.Path, o)
	if err != nil {
		return sgd.Dataset{}, err
	}
	r := &recipe{name: "pictures", shape: sgd.Shape{C: 3, H: s.Size, W: s.Size}, mean: imageNetMean, std: imageNetStd, flip: true}
	return r.servePictures(at, s.Size, s.Test, s.Pictures, o, true)
}

// lookedFor is what is said where there are no pictures.
const lookedFor = "looked for JPEG, PNG, WebP, GIF, BMP and TIFF in folders of classes, in tars and zips of such folders, in shards of a WebDataset (KEY.jpg with KEY.cls or KEY.json), and for Parquet files of pictures and labels"

// divide takes a share of each class for testing where no folder says what is: all
// pictures if there is no split, else those of train.
func (t *tree) divide(splits *[3][]labelled, share float64) error {
	all := splits[trainSplit]
	switch {
	case share == 0 || len(splits[valSplit])+len(splits[testSplit]) > 0:
		return nil
	case len(all) == 0:
		if err := t.followClasses(); err != nil {
			return err
		}
		all = t.undivided()
	}
	if len(all) == 0 {
		return t.andLeftOut(fmt.Errorf("%s: 0 pictures; %s", t.at, lookedFor))
	}
	of := map[string][]int{}
	for i, l := range all {
		c := classOf(l.rel)
		if c == "" {
			return t.noClass(l.file)
		}
		of[c] = append(of[c], i)
	}
	if len(of) < 2 {
		return t.andLeftOut(fmt.Errorf("%s: %s in %s of a class; want a folder for each of two classes or more", t.at, count(len(all), "picture"), count(len(of), "folder")))
	}
	splits[trainSplit] = nil
	for class, list := range of {
		slices.SortFunc(list, func(a, b int) int { return strings.Compare(all[a].rel, all[b].rel) })
		h := fnv.New64a()
		h.Write([]byte(class))
		test := testOf(len(list), share, rng.New(0, "own-pictures").With(h.Sum64()))
		for k, i := range list {
			to := trainSplit
			if test(k) {
				to = testSplit
			}
			splits[to] = append(splits[to], all[i])
		}
	}
	if len(splits[testSplit]) == 0 {
		return fmt.Errorf("%s: no class has two pictures, of which one could be for testing", t.root)
	}
	t.divided = true
	return nil
}

// undivided are all pictures of a tree without splits, whose classes are the folders
// below what their paths have in common.
func (t *tree) undivided() (out []labelled) {
	list := t.of(imageKind)
	var common []string
	for i, f := range list {
		dirs := strings.Split(path.Dir(f.path()), "/")
		if i == 0 {
			common = dirs
		}
		for k := range common {
			if k >= len(dirs) || dirs[k] != common[k] {
				common = common[:k]
				break
			}
		}
	}
	for _, f := range list {
		rel := strings.Join(strings.Split(f.path(), "/")[len(common):], "/")
		if f.class != "" {
			rel = f.class + "/" + strings.ReplaceAll(f.path(), "/", "_")
		}
		out = append(out, labelled{file: f, rel: rel})
	}
	return out
}

// testOf says which of n samples of a class are for testing: a share of them, one at
// least of two or more, and never all.
func testOf(n int, share float64, key rng.Key) func(i int) bool {
	want := int(math.Round(share * float64(n)))
	if n > 1 {
		want = min(max(want, 1), n-1)
	}
	return func(i int) bool { return key.Permute(i, n) < want }
}
