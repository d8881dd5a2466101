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
type ImageNet32 struct{}

// ImageNet64 is ImageNet32 at 64×64 pixels. Augmentation shifts by ±8 and mirrors.
type ImageNet64 struct{}

// ImageNet16 is ImageNet32 at 16×16 pixels. Augmentation shifts by ±2 and mirrors.
type ImageNet16 struct{}

var (
	_ = Sets.Add("imagenet16", "ImageNet downsampled to 16×16, from your own copy of its batches", ImageNet16{})
	_ = Sets.Add("imagenet32", "ImageNet downsampled to 32×32, from your own copy of its batches", ImageNet32{})
	_ = Sets.Add("imagenet64", "ImageNet downsampled to 64×64, from your own copy of its batches", ImageNet64{})
)

// Open lists the batches and serves pictures from their files, which stay open.
func (ImageNet16) Open(o Options) (sgd.Dataset, error) { return recipes["imagenet16"].openBatches(o) }

// Open lists the batches and serves pictures from their files, which stay open.
func (ImageNet32) Open(o Options) (sgd.Dataset, error) { return recipes["imagenet32"].openBatches(o) }

// Open lists the batches and serves pictures from their files, which stay open.
func (ImageNet64) Open(o Options) (sgd.Dataset, error) { return recipes["imagenet64"].openBatches(o) }

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
	for p, want := range []int{r.train, r.test} {
		stores[p].view.scale = newScale(3, 255, r.mean, r.std)
		if n := stores[p].len(); n != want {
			notes = append(notes, fmt.Sprintf("%d %s samples instead of %d", n, [2]string{"training", "test"}[p], want))
		}
	}
	stores[0].pad, stores[0].flip = r.pad, r.flip
	ds := dataset(stores[0], stores[1], o, false)
	ds.Name, ds.Hash, ds.Note = r.name, hash, strings.Join(notes, "; ")
	return ds, nil
}
