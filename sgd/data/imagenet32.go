package data

import (
	"fmt"
	"strings"

	"github.com/gradlab/gradlab/sgd"
)

// ImageNet32 is ImageNet downsampled to 32×32 pixels (Chrabaszcz, Loshchilov,
// Hutter 2017, arXiv:1707.08819): 1,281,167 + 50,000, 1000 classes, 3×32×32, in
// files train_data_batch_1 … 10 and val_data, pickled or .npz, all below one folder.
// Classes are numbered as its authors number them (map_clsloc.txt), which is not the
// order of the folders of ImageNet. Inputs have ImageNet's channel means .485 .456
// .406 and deviations .229 .224 .225. Augmentation shifts by ±4 and mirrors.
//
// Pictures are read from the files as they are needed. The data set's Hash covers
// the labels and every thousandth picture.
type ImageNet32 struct{ Shifts }

// ImageNet64 is ImageNet32 at 64×64 pixels. Augmentation shifts by ±8 and mirrors.
type ImageNet64 struct{ Shifts }

// ImageNet16 is ImageNet32 at 16×16 pixels. Augmentation shifts by ±2 and mirrors.
type ImageNet16 struct{ Shifts }

var (
	_ = Sets.Add("imagenet16", "ImageNet downsampled to 16×16, from your own copy of its batches", ImageNet16{shifts(2)})
	_ = Sets.Add("imagenet32", "ImageNet downsampled to 32×32, from your own copy of its batches", ImageNet32{shifts(4)})
	_ = Sets.Add("imagenet64", "ImageNet downsampled to 64×64, from your own copy of its batches", ImageNet64{shifts(8)})
)

// Validate checks the options.
func (s ImageNet16) Validate() error { return s.validate(16) }

// Open lists the batches and serves pictures from their files, which stay open.
func (s ImageNet16) Open(o Options) (sgd.Dataset, error) {
	return recipes["imagenet16"].with(s.Shifts).openBatches(o)
}

// Validate checks the options.
func (s ImageNet32) Validate() error { return s.validate(32) }

// Open lists the batches and serves pictures from their files, which stay open.
func (s ImageNet32) Open(o Options) (sgd.Dataset, error) {
	return recipes["imagenet32"].with(s.Shifts).openBatches(o)
}

// Validate checks the options.
func (s ImageNet64) Validate() error { return s.validate(64) }

// Open lists the batches and serves pictures from their files, which stay open.
func (s ImageNet64) Open(o Options) (sgd.Dataset, error) {
	return recipes["imagenet64"].with(s.Shifts).openBatches(o)
}

// downsampled is the recipe of ImageNet at side×side pixels.
func downsampled(side int) *recipe {
	name := fmt.Sprint("imagenet", side)
	return &recipe{
		name: name, aliases: []string{name, "downsampled" + name}, kinds: []kind{pickleKind, npyKind},
		shape: sgd.Shape{C: 3, H: side, W: side}, classes: 1000, train: 1281167, test: 50000,
		mean: imageNetMean, std: imageNetStd, pad: side / 8, flip: true,
		licence: "ImageNet terms: non-commercial research",
		hint:    fmt.Sprintf("get it from https://image-net.org and unpack train_data_batch_1 … 10 and val_data (or the .npz of them) into one folder %s/", name),
	}
}

// openBatches serves downsampled ImageNet.
func (r *recipe) openBatches(o Options) (sgd.Dataset, error) {
	loc, err := r.find(o)
	if err != nil {
		return sgd.Dataset{}, err
	}
	t, err := openTree(loc.Path, true, o.indices(), r.unpacking(o))
	if err != nil {
		return sgd.Dataset{}, fmt.Errorf("data: %s: %w", r.name, err)
	}
	stores, err := t.fileBatches(r)
	hash := uint64(0)
	if err == nil {
		hash, err = sampled(stores)
	}
	if err != nil {
		t.Close()
		return sgd.Dataset{}, fmt.Errorf("data: %s: %w", r.name, err)
	}
	var notes []string
	sc := newScale(3, 255, r.mean, r.std)
	stores[0].view, stores[1].view = r.trainView(sc), view{scale: sc}
	for p, want := range []int{r.train, r.test} {
		if n := stores[p].len(); n != want {
			notes = append(notes, fmt.Sprintf("%d %s samples instead of %d", n, [2]string{"training", "test"}[p], want))
		}
	}
	if note := idle(r.set, o); note != "" {
		notes = append(notes, note)
	}
	ds := dataset(stores[0], stores[1], o, false)
	ds.Name, ds.Hash, ds.Note = r.name, hash, strings.Join(notes, "; ")
	return ds, nil
}
